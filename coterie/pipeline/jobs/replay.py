"""What-if replays of an output directory: groups in parallel, each in one pass.

`what_if.replay` computes one group and documents the assumptions.
"""

import csv
from collections.abc import Collection
from typing import Any

import pyarrow as pa

from coterie.assignors.model import TopicPartition
from coterie.pipeline.engine import Engine
from coterie.pipeline.exchange import Outbox, exchange
from coterie.pipeline.jobs.group_records import READERS, topic_names
from coterie.pipeline.part_files import shares
from coterie.pipeline.replay_rows import replay_row
from coterie.pipeline.schemas import TIMESTAMP, list_of
from coterie.pipeline.store import Store
from coterie.pipeline.transforms.histories import HISTORY_ROWS, history_of, records_by_group
from coterie.pipeline.what_if import GroupReplay, Rooms, replay

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
    engine: Engine,
    store: Store,
    assignor: str,
    *,
    groups: Collection[str] = (),
    rooms: Rooms | None = None,
) -> pa.Table:
    """Replay groups under another assignor.

    Args:
        engine: runs the tasks.
        store: the output directory of a run.
        assignor: one of `what_if.NAMES`.
        groups: the groups; all if empty.
        rooms: the rooms, for the assignors that need them.

    Returns:
        A row per group with the columns of `REPLAYS`, sorted by group.
    """
    labels = store.labels
    tasks = [(table, task) for table in READERS for task in shares(store.files(table))]
    buckets = engine.buckets(sum(store.rows(table) for table in READERS))
    names = topic_names(engine, store, store.topic_names)

    def read(number: int, outbox: Outbox) -> None:
        table, task = tasks[number]
        READERS[table](task, outbox, labels)

    with store.reading_scratch(is_shared=engine.name != "local") as scratch:
        exchanged, _ = exchange(engine, scratch, HISTORY_ROWS, buckets, len(tasks), read)

        def replay_bucket(bucket: int) -> list[dict[str, Any]]:
            tables = {kind: exchanged.rows(kind, bucket) for kind in HISTORY_ROWS}
            return [
                _row(replay(history_of(records, names), assignor, rooms))
                for records in records_by_group(tables)
                if not groups or records.group_id in groups
            ]

        rows = [row for found in engine.run(buckets, replay_bucket) for row in found]
    return pa.Table.from_pylist(rows, REPLAYS).sort_by("group_id")


def _row(replayed: GroupReplay) -> dict[str, Any]:
    row = replay_row(replayed)
    for rebalance in row["rebalances"]:
        # The columns have microseconds.
        rebalance["completed_ts"] *= 1000
    return row


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
