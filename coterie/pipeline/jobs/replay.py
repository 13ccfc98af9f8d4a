"""What-if replays of an output directory, as a Spark job: groups in parallel, each in one pass.

`what_if.replay` computes one group and documents the assumptions.
"""

import csv
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from coterie.assignors import TopicPartition
from coterie.pipeline.schemas import TIMESTAMP, list_of, spark_schema
from coterie.pipeline.store import Store
from coterie.pipeline.transforms.histories import by_group, histories_of, topic_names
from coterie.pipeline.what_if import ReplayedRebalance, Rooms, replay

_REBALANCE = pa.struct(
    [
        ("from_generation", pa.int32()),
        ("to_generation", pa.int32()),
        ("completed_ts", TIMESTAMP),
        ("recorded_moved", pa.int32()),
        ("recorded_moved_min", pa.int32()),
        ("recorded_unowned_ms", pa.int64()),
        ("moved", pa.int32()),
        ("moved_min", pa.int32()),
        ("unowned_ms", pa.int64()),
    ]
)
REPLAYS = pa.schema(
    [
        ("group_id", pa.string()),
        ("assignor", pa.string()),
        ("protocols", list_of(pa.string())),
        ("rebalances", list_of(_REBALANCE)),
        ("left_out", pa.int32()),
        # Why the history could not be replayed to its end; null if it was.
        ("problem", pa.string()),
    ]
)


class BadRooms(Exception):  # noqa: N818 - says what is bad
    """A file of rooms cannot be used; the message says why."""


def replay_groups(
    spark: SparkSession,
    store: Store,
    assignor: str,
    *,
    groups: Collection[str] = (),
    rooms: Rooms | None = None,
) -> pa.Table:
    """Replay groups under another assignor.

    Args:
        spark: a session.
        store: the output directory of a run.
        assignor: one of `what_if.NAMES`.
        groups: the groups; all if empty.
        rooms: the rooms, for the assignors that need them.

    Returns:
        A row per group with the columns of `REPLAYS`, sorted by group.
    """
    epochs = store.read(spark, "consumer_epochs")
    everything = by_group(
        store.read(spark, "journal_records"),
        store.read(spark, "group_generations"),
        epochs,
        {source: store.about(source).get("label", "") for source in store.inputs},
    )
    if groups:
        everything = everything.where(f.col("group_id").isin(*groups))
    names = topic_names(epochs, store.read(spark, "offset_commits"))

    def replay_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ordered = (row for batch in batches for row in batch.to_pylist())
        for group_id, of_group in groupby(ordered, key=itemgetter("group_id")):
            rows = [
                _row(history, assignor, rooms)
                for history in histories_of(group_id, list(of_group), names)
            ]
            yield pa.RecordBatch.from_pylist(rows, REPLAYS)

    found = everything.mapInArrow(replay_all, spark_schema(REPLAYS)).toArrow()
    return found.cast(REPLAYS).sort_by("group_id")


def _row(history: Any, assignor: str, rooms: Rooms | None) -> dict[str, Any]:
    found = replay(history, assignor, rooms)
    return {
        "group_id": found.group_id,
        "assignor": found.assignor,
        "protocols": list(found.protocols),
        "rebalances": [_rebalance(each) for each in found.rebalances],
        "left_out": found.left_out,
        "problem": found.problem,
    }


def _rebalance(replayed: ReplayedRebalance) -> dict[str, Any]:
    row = replayed._asdict()
    row["completed_ts"] = row.pop("completed_ms") * 1000
    return row


def summed(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of `REPLAYS` with the sums over its rebalances.

    The time without owner is summed over the rebalances for which both times are known (`timed`),
    and null if there is none.
    """
    rebalances = row["rebalances"]
    timed = [
        each
        for each in rebalances
        if each["unowned_ms"] is not None and each["recorded_unowned_ms"] is not None
    ]
    return {
        "group": row["group_id"],
        "recorded_protocols": row["protocols"],
        "assignor": row["assignor"],
        "rebalances": len(rebalances),
        "left_out": row["left_out"],
        "recorded_moved": sum(each["recorded_moved"] for each in rebalances),
        "moved": sum(each["moved"] for each in rebalances),
        "recorded_needless": _needless(rebalances, "recorded_moved", "recorded_moved_min"),
        "needless": _needless(rebalances, "moved", "moved_min"),
        "timed": len(timed),
        "recorded_unowned_ms": _sum(timed, "recorded_unowned_ms"),
        "unowned_ms": _sum(timed, "unowned_ms"),
        "problem": row["problem"],
    }


def _needless(rebalances: list[dict[str, Any]], moved: str, least: str) -> int:
    """Sum the moves above the minimum. A less balanced assignment may have fewer than these."""
    return sum(max(0, each[moved] - each[least]) for each in rebalances if each[least] is not None)


def _sum(rebalances: list[dict[str, Any]], name: str) -> int | None:
    return sum(each[name] for each in rebalances) if rebalances else None


def read_rooms(path: str) -> Rooms:
    """Read a CSV file of two columns: a name, and its room.

    A name is a partition (`orders-3`), or a member's instance id, member id, client id or host.
    For `by-config` the room of a partition is the member that it is assigned to.

    Raises:
        BadRooms: the file cannot be read, or a line does not have two columns.
    """
    partitions: dict[TopicPartition, str] = {}
    members: dict[str, str] = {}
    try:
        with open(path, encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise BadRooms(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        if len(line) != 2 or not all(line):
            raise BadRooms(f"{path}, line {number}: expected two columns, a name and its room")
        name, room = line
        topic, dash, index = name.rpartition("-")
        if dash and topic and index.isdecimal():
            partitions[TopicPartition(topic, int(index))] = room
        # The name of a client may look like that of a partition.
        members[name] = room
    return Rooms(partitions, members)
