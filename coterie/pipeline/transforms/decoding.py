"""Decode rows of bronze to the rows of a view, with the codec that reads the files.

A row of bronze has the key and value of a record as bytes. The codec decodes a buffer at arrays of
positions, so the keys and values of an Arrow batch become that buffer, and each row a batch of one
record. Records that cannot be decoded are left out: the run that read them has put them into
`quarantine`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.codec.framing import Batches
from coterie.pipeline.codec.journal import fact_fields
from coterie.pipeline.codec.numbers import Buffer, Int64s
from coterie.pipeline.codec.piece import NO_KEY_TYPE, Piece, Source
from coterie.pipeline.codec.records import Records
from coterie.pipeline.codec.views import DECODERS
from coterie.pipeline.schemas import VIEWS
from coterie.pipeline.tables import TABLES
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.journal_records import UnknownFact, decode_fact

ArrowRows = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

# Separates a group's id from the label of its input [pipeline/input-identity].
LABEL_MARK = "@"

_GROUP_EVENTS = TABLES["group_events"].schema
# The fields of a fact that have a column of their own in `group_events`; `detail` has the others.
_OWN_COLUMNS = frozenset(
    (
        "at_ts", "group_id", "event", "generation_id", "member_id", "group_instance_id",
        "client_id", "client_host", "cause", "reason",
    )
)  # fmt: skip


def view_of(view: str, labels: Mapping[str, str]) -> ArrowRows:
    """Return a function for mapInArrow that decodes rows of bronze to rows of a view.

    Args:
        view: commits, groups, consumer_epochs or share_states.
        labels: by input the label of its groups; empty for none.
    """

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in _by_partition(batches):
            piece = _piece(rows)
            decoded = DECODERS[view](piece).rows
            label = labels.get(rows.column("input")[0].as_py(), "")
            if decoded.num_rows:
                yield _labelled(decoded, label, VIEWS[view])

    return decode


def events_of(labels: Mapping[str, str]) -> ArrowRows:
    """Return a function for mapInArrow that decodes rows of a journal to rows of `group_events`."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            events = [_event(row, labels) for row in rows.to_pylist()]
            yield pa.RecordBatch.from_pylist(
                [event for event in events if event is not None], _GROUP_EVENTS
            )

    return decode


def _event(row: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any] | None:
    """Return a fact as a row; None if it is unknown or cannot be decoded."""
    try:
        group_id, fact = decode_fact(row["key"], row["value"])
    except MalformedFrame:
        return None
    if isinstance(fact, UnknownFact):
        return None
    fields = fact_fields(group_id, fact)
    label = labels.get(row["input"], "")
    detail = {
        _json_name(name): _json_value(name, value)
        for name, value in fields.items()
        if name not in _OWN_COLUMNS and value is not None
    }
    return {
        "log_partition": row["log_partition"],
        "log_offset": row["log_offset"],
        "at_ts": fields["at_ts"],
        "group_id": labelled_name(group_id, label) if group_id else None,
        "fact": fields["event"],
        "generation": fields["generation_id"],
        "member_key": fields["group_instance_id"] or fields["member_id"],
        "member_id": fields["member_id"],
        "client_id": fields["client_id"],
        "client_host": fields["client_host"],
        "cause": fields["cause"],
        "reason": fields["reason"],
        "detail": json.dumps(detail, separators=(",", ":"), ensure_ascii=False),
    }


def _json_name(name: str) -> str:
    return f"{name.removesuffix('_ts')}_ms" if name.endswith("_ts") else name


def _json_value(name: str, value: Any) -> Any:
    """Return a value for JSON, with times as epoch milliseconds."""
    return value // 1000 if name.endswith("_ts") else value


def labelled_name(group_id: str, label: str) -> str:
    """Return a group's id with the label of its input, if it has one."""
    return f"{group_id}{LABEL_MARK}{label}" if label else group_id


def _labelled(rows: pa.RecordBatch, label: str, schema: pa.Schema) -> pa.RecordBatch:
    if not label:
        return rows
    columns = list(rows.columns)
    index = schema.get_field_index("group_id")
    columns[index] = pc.binary_join_element_wise(columns[index], LABEL_MARK + label, "")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _by_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut batches where rows of another partition or input begin: a piece is of one partition."""
    for rows in batches:
        if not rows.num_rows:
            continue
        partitions = rows.column("log_partition").to_numpy()
        inputs = rows.column("input").dictionary_encode().indices.to_numpy()
        changes = (np.diff(partitions) != 0) | (np.diff(inputs) != 0)
        cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), rows.num_rows]
        for begin, end in pairwise(cuts):
            yield rows.slice(begin, end - begin)


def _piece(rows: pa.RecordBatch) -> Piece:
    """Return rows of one partition as a piece of its log: the keys, followed by the values."""
    count = rows.num_rows
    key_data, key_start, key_size = _spans(rows.column("key"))
    value_data, value_start, value_size = _spans(rows.column("value"))
    value_start = value_start + len(key_data)
    none = np.zeros(count, np.int64)
    # Rows that an earlier version read through Spark's connector have no attributes or batches.
    attributes = rows.column("attributes").fill_null(0).to_numpy().astype(np.int64)
    times = rows.column("record_ts").cast(pa.int64())
    timestamp_ms = times.fill_null(-1000).to_numpy(zero_copy_only=False) // 1000
    offset = rows.column("log_offset").to_numpy()
    batches = Batches(
        position=none,
        length_bytes=none,
        base_offset=_numbers(rows.column("batch_base_offset")),
        leader_epoch=_numbers(rows.column("leader_epoch")),
        magic=none + 2,
        crc=none,
        attributes=attributes,
        last_offset_delta=none,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=_numbers(rows.column("producer_id")),
        producer_epoch=none,
        base_sequence=none,
        record_count=none + 1,
    )
    records = Records(
        batch=np.arange(count),
        offset=offset,
        timestamp_ms=timestamp_ms,
        start=key_start,
        stop=key_start,
        key_start=key_start,
        key_size=key_size,
        value_start=value_start,
        value_size=value_size,
    )
    types = rows.column("key_type").fill_null(NO_KEY_TYPE)
    key_types = types.to_numpy(zero_copy_only=False).astype(np.int64)
    source = Source(rows.column("log_partition")[0].as_py(), "", 0)
    return Piece(source, 0, Buffer(key_data + value_data), batches, records, key_types)


def _numbers(column: pa.Array) -> Int64s:
    """Return integers with -1 for null, as in a header."""
    numbers: Int64s = column.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _spans(column: pa.Array) -> tuple[bytes, Int64s, Int64s]:
    """Return the bytes of a binary column, and position and size of each value; -1 is null."""
    _, offsets, data = column.buffers()
    count = len(column)
    ends = np.frombuffer(offsets, np.int32, count + 1, column.offset * 4).astype(np.int64)
    sizes = np.diff(ends)
    if column.null_count:
        sizes[column.is_null().to_numpy(zero_copy_only=False)] = -1
    held = b"" if data is None else data[int(ends[0]) : int(ends[-1])].to_pybytes()
    return held, ends[:-1] - ends[0], sizes
