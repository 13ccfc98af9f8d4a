"""Histories of groups, worked out by `timeline` in Spark's workers, a group at a time.

Everything about a group is brought together, sorted, and told to its end in one pass; rebalances,
moves, ownership and sessions come out as one frame of tagged rows, which is kept and taken apart.
A group must fit into a worker's memory with its facts, not with its commits.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from coterie.assignors import TopicPartition
from coterie.pipeline.schemas import CONSUMER_EPOCHS, GROUPS, spark_schema
from coterie.pipeline.tables import TABLES
from coterie.pipeline.timeline.columns import rebalance_columns
from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.from_epochs import epochs_history
from coterie.pipeline.timeline.model import (
    Generation,
    GroupHistory,
    Member,
    MemberSession,
    Ownership,
    PartitionMove,
    Rebalance,
)
from coterie.pipeline.transforms.decoding import LABEL_MARK, ArrowRows
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.journal_records import UnknownFact, decode_fact

Row = Mapping[str, Any]

_FACT, _LOGGED, _EPOCH = "fact", "logged", "epoch"
# Rows in one Arrow batch on the way out.
_BATCH_ROWS = 5_000

# By table the columns that a history tells. What the group's commits add comes later.
_MOVE_COLUMNS = [name for name in TABLES["partition_moves"].schema.names if name[:9] != "committed"]
_TOLD = {
    "rebalances": TABLES["rebalances"].schema,
    "partition_moves": pa.schema(
        [TABLES["partition_moves"].schema.field(name) for name in _MOVE_COLUMNS]
    ),
    "ownership": TABLES["ownership"].schema,
    "member_sessions": TABLES["member_sessions"].schema,
}
_TAGGED = pa.schema([(name, pa.struct(list(schema))) for name, schema in _TOLD.items()])


class Told(NamedTuple):
    """The parts of all histories."""

    rebalances: DataFrame
    partition_moves: DataFrame
    ownership: DataFrame
    member_sessions: DataFrame


def told(histories: DataFrame) -> Told:
    """Take the rows of `histories` apart."""
    return Told(*(histories.where(f.col(name).isNotNull()).select(f"{name}.*") for name in _TOLD))


def histories(
    journal: DataFrame,
    generations: DataFrame,
    epochs: DataFrame,
    labels: Mapping[str, str],
    topic_names: Mapping[str, str],
) -> DataFrame:
    """The histories of all groups as tagged rows; see `told`.

    Args:
        journal, generations, epochs, labels: see `by_group`.
        topic_names: by topic id.
    """
    ordered = by_group(journal, generations, epochs, labels)
    return ordered.mapInArrow(_teller(dict(topic_names)), spark_schema(_TAGGED))


def by_group(
    journal: DataFrame, generations: DataFrame, epochs: DataFrame, labels: Mapping[str, str]
) -> DataFrame:
    """Everything that tells the groups' histories, each group's together and in order.

    Args:
        journal: `journal_records`.
        generations: `group_generations`.
        epochs: `consumer_epochs`.
        labels: by input what stands behind its groups' ids.
    """
    group = f.substring("key", 5, 1 << 15).cast("string")
    facts = journal.where(f.is_valid_utf8(group) & (group != "")).select(
        _labelled(group, labels).alias("group_id"),
        f.lit(_FACT).alias("kind"),
        "log_offset",
        "key",
        "value",
    )
    logged = generations.select(
        "group_id",
        f.lit(_LOGGED).alias("kind"),
        "log_offset",
        f.struct(*GROUPS.names).alias("logged"),
    )
    stepped = epochs.select(
        "group_id",
        f.lit(_EPOCH).alias("kind"),
        "log_offset",
        f.struct(*CONSUMER_EPOCHS.names).alias("epoch"),
    )
    everything = facts.unionByName(logged, allowMissingColumns=True).unionByName(
        stepped, allowMissingColumns=True
    )
    return everything.repartition("group_id").sortWithinPartitions("group_id", "kind", "log_offset")


def _labelled(group: Column, labels: Mapping[str, str]) -> Column:
    name = group
    for source, label in labels.items():
        if label:
            name = f.when(
                f.col("input") == source, f.concat(group, f.lit(LABEL_MARK + label))
            ).otherwise(name)
    return name


def _teller(topic_names: Mapping[str, str]) -> ArrowRows:
    def tell(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows: dict[str, list[Any]] = {name: [] for name in _TOLD}
        # Sorted by group, so a group's rows follow each other over the borders of batches.
        ordered = (row for batch in batches for row in batch.to_pylist())
        for group_id, of_group in groupby(ordered, key=itemgetter("group_id")):
            for history in histories_of(group_id, list(of_group), topic_names):
                _add(rows, history)
            if sum(map(len, rows.values())) >= _BATCH_ROWS:
                yield _tagged(rows)
                rows = {name: [] for name in _TOLD}
        yield _tagged(rows)

    return tell


def histories_of(
    group_id: str, rows: Iterable[Row], topic_names: Mapping[str, str]
) -> list[GroupHistory]:
    """The histories of a group: as a classic one, as a KIP-848 one, or both one after the other.

    Args:
        group_id: whose.
        rows: everything about it, by kind and log offset.
        topic_names: by topic id.
    """
    facts, logged, epochs = [], [], []
    for row in rows:
        if row["kind"] == _FACT:
            fact = _fact(row)
            if fact is not None:
                facts.append(fact)
        elif row["kind"] == _LOGGED:
            logged.append(row["logged"])
        else:
            epochs.append(row["epoch"])
    found = []
    if facts or logged:
        found.append(group_history(group_id, facts, list(generations_of(logged))))
    if epochs:
        found.append(epochs_history(group_id, epochs, topic_names))
    return found


def _fact(row: Row) -> Any:
    """The fact in a record of the journal; None where it can't be read (it is in `quarantine`)."""
    try:
        fact = decode_fact(row["key"], row["value"]).fact
    except MalformedFrame:
        return None
    return None if isinstance(fact, UnknownFact) else fact


def generations_of(rows: Iterable[Row]) -> Iterator[Generation | None]:
    """Rows of `group_generations` as the timeline wants them; None for a tombstone.

    A generation's time is that of its record: the state's own is that of the phase before.
    """
    for row in rows:
        if row["is_tombstone"]:
            yield None
            continue
        at = row["record_ts"] or row["state_ts"]
        if at is None:
            continue
        yield Generation(
            row["generation"],
            round(at.timestamp() * 1000),
            row["protocol_type"] or "",
            row["protocol"],
            row["leader"],
            tuple(_member(member) for member in row["members"]),
        )


def _member(row: Row) -> Member:
    return Member(
        row["member_id"],
        row["instance_id"],
        row["client_id"],
        row["client_host"],
        None if row["topics"] is None else tuple(row["topics"]),
        _partitions(row["owned"]),
        _partitions(row["assigned"]),
    )


def _partitions(listed: Iterable[Row] | None) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each["topic"], each["partition"]) for each in listed or ())


def _add(rows: dict[str, list[Any]], history: GroupHistory) -> None:
    rows["rebalances"] += map(_rebalance, history.rebalances)
    rows["partition_moves"] += map(_move, history.moves)
    rows["ownership"] += map(_interval, history.ownership)
    rows["member_sessions"] += map(_session, history.sessions)


def _tagged(rows: Mapping[str, list[Any]]) -> pa.RecordBatch:
    """Rows of every table in one batch: each in its column, the others null."""
    before = 0
    count = sum(map(len, rows.values()))
    columns = []
    for name, given in rows.items():
        kind = _TAGGED.field(name).type
        column = pa.array(given, kind)
        after = count - before - len(given)
        columns.append(pa.concat_arrays([pa.nulls(before, kind), column, pa.nulls(after, kind)]))
        before += len(given)
    return pa.RecordBatch.from_arrays(columns, schema=_TAGGED)


def _us(epoch_ms: int | None) -> int | None:
    return None if epoch_ms is None else epoch_ms * 1000


def _rebalance(told: Rebalance) -> dict[str, Any]:
    row = rebalance_columns(told)
    moments = {name: _us(row[name]) for name in ("started_ts", "completed_ts")}
    return row | moments


def _move(told: PartitionMove) -> tuple[Any, ...]:
    return (*told[:7], _us(told.at_ms), told.gap_ms)


def _interval(told: Ownership) -> tuple[Any, ...]:
    return (*told[:5], _us(told.from_ms), _us(told.to_ms))


def _session(told: MemberSession) -> tuple[Any, ...]:
    return (
        *told[:5], _us(told.first_seen_ms), _us(told.last_seen_ms), told.exit_kind,
        told.rebalances_caused,
    )  # fmt: skip
