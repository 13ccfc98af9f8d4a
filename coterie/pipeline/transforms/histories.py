"""Histories of groups, worked out by `timeline` in Spark's workers, one group at a time.

All records of a group but its commits are brought together in one worker, sorted and applied in one
pass; they must fit into its memory. Rebalances, moves, ownership and sessions leave the worker as
one frame of tagged rows, so that the histories are computed once for four tables.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from coterie.pipeline.schemas import CONSUMER_EPOCHS, GROUPS, spark_schema
from coterie.pipeline.tables import TABLES
from coterie.pipeline.timeline.columns import rebalance_columns, session_columns
from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.from_epochs import epochs_history
from coterie.pipeline.timeline.from_rows import generations_of
from coterie.pipeline.timeline.model import (
    GroupHistory,
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

# The tables that come from histories. The offsets at handover are added later, from the commits.
_MOVE_COLUMNS = [name for name in TABLES["partition_moves"].schema.names if name[:9] != "committed"]
_HISTORY_TABLES = {
    "rebalances": TABLES["rebalances"].schema,
    "partition_moves": pa.schema(
        [TABLES["partition_moves"].schema.field(name) for name in _MOVE_COLUMNS]
    ),
    "ownership": TABLES["ownership"].schema,
    "member_sessions": TABLES["member_sessions"].schema,
}
_TAGGED = pa.schema([(name, pa.struct(list(schema))) for name, schema in _HISTORY_TABLES.items()])


class HistoryTables(NamedTuple):
    """The tables that come from histories."""

    rebalances: DataFrame
    partition_moves: DataFrame
    ownership: DataFrame
    member_sessions: DataFrame


def split_histories(histories: DataFrame) -> HistoryTables:
    """Separate the tagged rows of `histories` by table."""
    return HistoryTables(
        *(histories.where(f.col(name).isNotNull()).select(f"{name}.*") for name in _HISTORY_TABLES)
    )


def histories(
    journal: DataFrame,
    generations: DataFrame,
    epochs: DataFrame,
    labels: Mapping[str, str],
    topic_names: Mapping[str, str],
) -> DataFrame:
    """Work out the histories of all groups, as tagged rows for `split_histories`.

    Args:
        journal, generations, epochs, labels: see `by_group`.
        topic_names: names by topic id.
    """
    ordered = by_group(journal, generations, epochs, labels)
    return ordered.mapInArrow(_tagged_histories(dict(topic_names)), spark_schema(_TAGGED))


def topic_names(epochs: DataFrame, commits: DataFrame) -> dict[str, str]:
    """Return topic names by id, as far as commits have both [pipeline/topic-ids].

    Args:
        epochs: `consumer_epochs`; only these records need names.
        commits: `offset_commits`.
    """
    if epochs.isEmpty():
        return {}
    named = commits.where("topic_id is not null").select("topic_id", "topic").distinct()
    return {row["topic_id"]: row["topic"] for row in named.collect()}


def by_group(
    journal: DataFrame, generations: DataFrame, epochs: DataFrame, labels: Mapping[str, str]
) -> DataFrame:
    """Return the records of all histories, those of a group together and in order.

    Args:
        journal: `journal_records`.
        generations: `group_generations`.
        epochs: `consumer_epochs`.
        labels: by input the label of its groups [pipeline/group-labels].
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


def _tagged_histories(topic_names: Mapping[str, str]) -> ArrowRows:
    def work_out(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows: dict[str, list[Any]] = {name: [] for name in _HISTORY_TABLES}
        # The rows are sorted by group. Those of one group may be in several batches.
        ordered = (row for batch in batches for row in batch.to_pylist())
        for group_id, of_group in groupby(ordered, key=itemgetter("group_id")):
            for history in histories_of(group_id, list(of_group), topic_names):
                _add(rows, history)
            if sum(map(len, rows.values())) >= _BATCH_ROWS:
                yield _tagged(rows)
                rows = {name: [] for name in _HISTORY_TABLES}
        yield _tagged(rows)

    return work_out


def histories_of(
    group_id: str, rows: Iterable[Row], topic_names: Mapping[str, str]
) -> list[GroupHistory]:
    """Work out the histories of a group: as a classic group, as a KIP-848 group, or both.

    Args:
        group_id: the group.
        rows: its rows of `by_group`, ordered by kind and log offset [pipeline/replay-order].
        topic_names: names by topic id.
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
    """Decode the fact in a record of the journal; None if it is unknown or cannot be decoded."""
    try:
        fact = decode_fact(row["key"], row["value"]).fact
    except MalformedFrame:
        return None
    return None if isinstance(fact, UnknownFact) else fact


def _add(rows: dict[str, list[Any]], history: GroupHistory) -> None:
    rows["rebalances"] += map(_rebalance, history.rebalances)
    rows["partition_moves"] += map(_move, history.moves)
    rows["ownership"] += map(_interval, history.ownership)
    rows["member_sessions"] += map(_session, history.sessions)


def _tagged(rows: Mapping[str, list[Any]]) -> pa.RecordBatch:
    """Return the rows of all tables as one batch: each in the column of its table, others null."""
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


# The rows of rebalances and sessions are dictionaries, those of the other tables tuples in the
# order of the table's columns: pyarrow converts tuples faster, and there are many of these rows.


def _rebalance(rebalance: Rebalance) -> dict[str, Any]:
    row = rebalance_columns(rebalance)
    times = {name: _us(row[name]) for name in ("started_ts", "completed_ts")}
    return row | times


def _move(move: PartitionMove) -> tuple[Any, ...]:
    return (
        move.group_id, move.topic, move.partition, move.from_generation, move.to_generation,
        move.from_member_key, move.to_member_key, _us(move.at_ms), move.gap_ms,
    )  # fmt: skip


def _interval(owned: Ownership) -> tuple[Any, ...]:
    return (
        owned.group_id, owned.topic, owned.partition, owned.member_key, owned.generation,
        _us(owned.from_ms), _us(owned.to_ms),
    )  # fmt: skip


def _session(session: MemberSession) -> dict[str, Any]:
    row = session_columns(session)
    times = {name: _us(row[name]) for name in ("first_seen_ts", "last_seen_ts")}
    return row | times
