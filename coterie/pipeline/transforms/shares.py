"""Share partitions of groups, worked out by `timeline.share_partitions`, as rows of tables.

All records of a group's share partitions are brought together in one task and applied in one pass;
they must fit into its memory. The start offsets are rows of commits, too: where a share group is
takes the place of what other groups commit [pipeline/share-progress].
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.tables import TABLES
from coterie.pipeline.timeline.columns import (
    delivery_columns,
    poison_columns,
    shared_partition_columns,
)
from coterie.pipeline.timeline.model import SHARE
from coterie.pipeline.timeline.share_partitions import SharedPartition, ShareStory, story_of
from coterie.pipeline.transforms import commit_runs
from coterie.pipeline.transforms.histories import by_group, fact_of, in_us, named_groups, table_of
from coterie.pipeline.transforms.lag import COMPLETED
from coterie.protocol.messages.share_facts import LOCK_TIMEOUT

# The records of `__share_group_state` as they come from bronze.
STATES = pa.schema(
    [
        ("group_id", pa.string()),
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("record_ts", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
STATE_COLUMNS = pa.schema(
    [
        TABLES["share_state_records"].schema.field(name)
        for name in ("input", "log_partition", "log_offset", "record_ts", "key", "value")
    ]
)
START_OFFSETS = pa.schema(
    [TABLES["offset_commits"].schema.field(name) for name in commit_runs.COLUMNS]
)
# The topic's id and the number of the partition, behind the group in a key.
_PARTITION_BYTES = 20
SHARE_NAMES = ("share_deliveries", "share_partitions", "poison_records")
# The kinds of rows that share partitions have.
SHARE_TABLES = {
    **{name: TABLES[name].schema for name in SHARE_NAMES},
    "start_offsets": START_OFFSETS,
    "completed": COMPLETED,
}


def states(rows: pa.RecordBatch, labels: Mapping[str, str]) -> pa.RecordBatch:
    """Return rows of `share_state_records` as rows of `STATES`.

    Args:
        rows: rows with `STATE_COLUMNS`.
        labels: by input the label of its groups [pipeline/input-identity].
    """
    group = named_groups(rows, labels, _PARTITION_BYTES)
    at_us = rows.column("record_ts").cast(pa.int64())
    columns = {name: rows.column(name) for name in STATES.names[1:]} | {"record_ts": at_us}
    found = pa.RecordBatch.from_arrays([group, *columns.values()], schema=STATES)
    return found.filter(group.is_valid())


def share_rows(
    records: pa.Table, facts: pa.Table, topic_names: Mapping[str, str]
) -> dict[str, pa.Table]:
    """Work out the share partitions of groups, as rows of `SHARE_TABLES`.

    Args:
        records: rows of `STATES`, all of some groups.
        facts: rows of `histories.FACTS` of the same groups.
        topic_names: names by topic id.
    """
    rows: dict[str, list[Any]] = {name: [] for name in SHARE_TABLES}
    of_facts: dict[str, pa.Table] = {}
    if records.num_rows:
        of_facts = dict(by_group(facts, "log_offset"))
    for group_id, some in by_group(records, "log_partition", "log_offset"):
        found = of_facts.get(group_id)
        known = [] if found is None else list(filter(None, map(fact_of, found.to_pylist())))
        story = story_of(_records(some), topic_names, known)
        _add(rows, group_id, story)
    return {name: table_of(rows[name], schema) for name, schema in SHARE_TABLES.items()}


def _records(rows: pa.Table) -> Iterator[tuple[bytes | None, bytes | None, int, int]]:
    for row in rows.to_pylist():
        yield row["key"], row["value"], (row["record_ts"] or 0) // 1000, row["log_offset"]


def _add(rows: dict[str, list[Any]], group_id: str, story: ShareStory) -> None:
    rows["share_deliveries"] += [
        in_us(delivery_columns(group_id, each)) for each in story.deliveries
    ]
    for partition in story.partitions.values():
        rows["share_partitions"].append(in_us(shared_partition_columns(group_id, partition)))
        rows["poison_records"] += [
            in_us(poison_columns(group_id, partition, each))
            for _, each in sorted(partition.poison.items())
        ]
        rows["start_offsets"] += _starts(group_id, partition)
        rows["completed"] += _completed(group_id, partition)


def _starts(group_id: str, partition: SharedPartition) -> Iterator[dict[str, Any]]:
    for start in partition.starts:
        yield {
            "group_id": group_id,
            "topic": partition.topic,
            "partition": partition.partition,
            "log_offset": start.log_offset,
            "committed_offset": start.offset,
            "record_ts": start.at_ms * 1000,
            "is_tombstone": start.offset is None,
        }


def _completed(group_id: str, partition: SharedPartition) -> Iterator[dict[str, Any]]:
    for each in partition.completed:
        yield {
            "group_id": group_id,
            "topic": partition.topic,
            "partition": partition.partition,
            "at_ts": each.at_ms * 1000,
            "records": each.records,
        }


def failed_deliveries(deliveries: pa.Table) -> pa.Table:
    """Return the rows of `share_deliveries` that findings look at: locks that expired."""
    return deliveries.filter(pc.equal(deliveries.column("ended_by"), LOCK_TIMEOUT).fill_null(False))


def share_groups(rebalances: pa.Table) -> Collection[str]:
    """Return the share groups among those that have rows in `rebalances`."""
    of_type = rebalances.filter(pc.equal(rebalances.column("group_type"), SHARE))
    return set(of_type.column("group_id").unique().to_pylist())


def without(rows: pa.Table, groups: Collection[str]) -> pa.Table:
    """Return the rows of other groups than these."""
    if not groups:
        return rows
    among = pc.is_in(rows.column("group_id"), pa.array(sorted(groups), pa.string()))
    return rows.filter(pc.invert(among))
