"""Histories of groups, worked out by `timeline`, as rows of four tables.

All records of a group but its commits are brought together in one task, sorted and applied in one
pass; they must fit into its memory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.schemas import CONSUMER_EPOCHS, GROUPS
from coterie.pipeline.tables import TABLES
from coterie.pipeline.timeline.columns import (
    bump_columns,
    handover_columns,
    member_columns,
    rebalance_columns,
    session_columns,
)
from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.from_rows import generations_of
from coterie.pipeline.timeline.model import (
    GroupHistory,
    MemberSession,
    Ownership,
    PartitionMove,
    Rebalance,
)
from coterie.pipeline.transforms.commit_runs import name_codes
from coterie.pipeline.transforms.decoding import labelled_name
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.journal_records import UnknownFact, decode_fact

# A key of the journal begins with the record type and the length of the group id.
_KEY_PREFIX_BYTES = 4
# The length of the group id is a number of 15 bits.
_LONGEST_KEY_BYTES = _KEY_PREFIX_BYTES + (1 << 15)

FACTS = pa.schema(
    [
        ("group_id", pa.string()),
        ("log_offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
# The kinds of rows from which histories are worked out.
HISTORY_ROWS = {"facts": FACTS, "logged": GROUPS, "epochs": CONSUMER_EPOCHS}
JOURNAL_COLUMNS = pa.schema(
    [
        TABLES["journal_records"].schema.field(name)
        for name in ("input", "log_offset", "key", "value")
    ]
)

# The offsets at handover are added later, from the commits.
MOVES = pa.schema(
    [field for field in TABLES["partition_moves"].schema if field.name != "committed_at_handover"]
)
# Groups whose records could not be made a history, and the error.
UNREADABLE = pa.schema([("group_id", pa.string()), ("error", pa.string())])
# The kinds of rows that histories have.
HISTORY_TABLES = {
    "rebalances": TABLES["rebalances"].schema,
    "partition_moves": MOVES,
    "ownership": TABLES["ownership"].schema,
    "member_sessions": TABLES["member_sessions"].schema,
    "epoch_bumps": TABLES["epoch_bumps"].schema,
    "epoch_handovers": TABLES["epoch_handovers"].schema,
    "epoch_members": TABLES["epoch_members"].schema,
    "unreadable": UNREADABLE,
}
# The tables of `GroupHistory.epochs`, with what makes rows of them.
_EPOCHS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "epoch_bumps": bump_columns,
    "epoch_handovers": handover_columns,
    "epoch_members": member_columns,
}


class GroupRecords(NamedTuple):
    """The records of one group, by kind and in the order of the log [pipeline/journal-then-log]."""

    group_id: str
    facts: list[dict[str, Any]]
    logged: list[dict[str, Any]]
    epochs: list[dict[str, Any]]


def facts(rows: pa.RecordBatch, labels: Mapping[str, str]) -> pa.RecordBatch:
    """Return rows of `journal_records` that belong to groups as rows of `FACTS`.

    Args:
        rows: rows with `JOURNAL_COLUMNS`.
        labels: by input the label of its groups [pipeline/input-identity].
    """
    group = named_groups(rows, labels)
    columns = [group, *(rows.column(name) for name in FACTS.names[1:])]
    return pa.RecordBatch.from_arrays(columns, schema=FACTS).filter(group.is_valid())


def named_groups(rows: pa.RecordBatch, labels: Mapping[str, str], rest_bytes: int = 0) -> pa.Array:
    """Return the group in the key of each record, labelled; null if it has none.

    Args:
        rows: rows with the columns `input` and `key`, whose keys begin with a type and a group.
        labels: by input the label of its groups [pipeline/input-identity].
        rest_bytes: how many bytes of a key follow the group.
    """
    stop = -rest_bytes if rest_bytes else _LONGEST_KEY_BYTES
    ids = pc.binary_slice(rows.column("key"), _KEY_PREFIX_BYTES, stop)
    ids = ids.dictionary_encode()
    inputs = rows.column("input").dictionary_encode()
    # Few different groups have many facts, so their names are decoded once for each input.
    id_index = ids.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    input_index = inputs.indices.to_numpy().astype(np.int64)
    pairs, place = np.unique(np.stack([input_index, id_index]), axis=1, return_inverse=True)
    encoded, sources = ids.dictionary.to_pylist(), inputs.dictionary.to_pylist()
    names = [
        _group_name(encoded[which] if which >= 0 else b"", labels.get(sources[source], ""))
        for source, which in pairs.T.tolist()
    ]
    return pa.array(names, pa.string()).take(pa.array(place.reshape(-1)))


def _group_name(encoded: bytes, label: str) -> str | None:
    try:
        name = encoded.decode()
    except UnicodeDecodeError:
        return None
    return labelled_name(name, label) if name else None


def records_by_group(tables: Mapping[str, pa.Table]) -> Iterator[GroupRecords]:
    """Yield the records of each group.

    Args:
        tables: the rows of the kinds `HISTORY_ROWS`, all of some groups.
    """
    slices: dict[str, dict[str, pa.Table]] = {}
    for kind in HISTORY_ROWS:
        for group_id, rows in by_group(tables[kind], "log_offset"):
            slices.setdefault(group_id, {})[kind] = rows
    for group_id in sorted(slices):
        lists = {kind: rows.to_pylist() for kind, rows in slices[group_id].items()}
        yield GroupRecords(group_id, *(lists.get(kind, []) for kind in HISTORY_ROWS))


def history_of(records: GroupRecords, topic_names: Mapping[str, str]) -> GroupHistory:
    """Work out the history of a group.

    Args:
        records: its records.
        topic_names: names by topic id.
    """
    decoded = [fact for row in records.facts if (fact := fact_of(row)) is not None]
    logged = generations_of(records.logged)
    return group_history(records.group_id, decoded, logged, records.epochs, topic_names)


def history_rows(
    groups: Iterable[GroupRecords], topic_names: Mapping[str, str]
) -> dict[str, pa.Table]:
    """Work out the histories of groups, as rows of `HISTORY_TABLES`.

    An error in one group's records leaves the other groups as they are [pipeline/journal-then-log].

    Args:
        groups: the records of each group.
        topic_names: names by topic id.
    """
    rows: dict[str, list[Any]] = {name: [] for name in HISTORY_TABLES}
    for records in groups:
        try:
            history = history_of(records, topic_names)
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this group only
            rows["unreadable"].append((records.group_id, f"{type(error).__name__}: {error}"))
            continue
        rows["rebalances"] += map(_rebalance, history.rebalances)
        rows["partition_moves"] += map(_move, history.moves)
        rows["ownership"] += map(_interval, history.ownership)
        rows["member_sessions"] += map(_session, history.sessions)
        if history.epochs is not None:
            for table, columns in _EPOCHS.items():
                parts = getattr(history.epochs, table.removeprefix("epoch_"))
                rows[table] += [in_us(columns(part)) for part in parts]
    return {name: table_of(rows[name], schema) for name, schema in HISTORY_TABLES.items()}


def table_of(rows: list[Any], schema: pa.Schema) -> pa.Table:
    """Return rows, dictionaries or tuples in the order of the columns, as a table."""
    column = pa.array(rows, pa.struct(list(schema)))
    return pa.Table.from_arrays(column.flatten(), schema=schema)


def fact_of(row: Mapping[str, Any]) -> Any:
    """Decode the fact in a record of the journal; None if it is unknown or cannot be decoded."""
    try:
        fact = decode_fact(row["key"], row["value"]).fact
    except MalformedFrame:
        return None
    return None if isinstance(fact, UnknownFact) else fact


def _us(epoch_ms: int | None) -> int | None:
    return None if epoch_ms is None else epoch_ms * 1000


# The rows of rebalances and sessions are dictionaries, those of the other tables tuples in the
# order of the table's columns: pyarrow converts tuples faster, and there are many of these rows.


def in_us(row: dict[str, Any]) -> dict[str, Any]:
    """Return columns with their times in microseconds."""
    return row | {name: _us(value) for name, value in row.items() if name.endswith("_ts")}


def _rebalance(rebalance: Rebalance) -> dict[str, Any]:
    return in_us(rebalance_columns(rebalance))


def _move(move: PartitionMove) -> tuple[Any, ...]:
    return (
        move.group_id, move.topic, move.partition, move.from_generation, move.to_generation,
        move.from_member_key, move.to_member_key, _us(move.at_ms), move.gap_ms,
    )  # fmt: skip


def _interval(owned: Ownership) -> tuple[Any, ...]:
    return (
        owned.group_id, owned.topic, owned.partition, owned.member_key, owned.generation,
        _us(owned.from_ms), _us(owned.to_ms), owned.role, owned.reads,
    )  # fmt: skip


def _session(session: MemberSession) -> dict[str, Any]:
    return in_us(session_columns(session))


def by_group(rows: pa.Table, *order: str) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each group, the groups by name. Rows without a group are left out.

    Args:
        rows: rows with a column `group_id`.
        order: the columns by which the rows of a group are sorted.
    """
    keys = [("group_id", "ascending"), *((name, "ascending") for name in order)]
    ordered = rows.filter(rows.column("group_id").is_valid()).sort_by(keys).combine_chunks()
    if not ordered.num_rows:
        return
    codes = name_codes(ordered, "group_id")
    starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])).tolist()
    names = ordered.column("group_id")
    for begin, end in zip(starts, [*starts[1:], ordered.num_rows], strict=True):
        yield names[begin].as_py(), ordered.slice(begin, end - begin)
