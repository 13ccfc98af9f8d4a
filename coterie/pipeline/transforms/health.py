"""The state of the log by segment: how much of it is outdated, deleted or damaged."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.codec.numbers import Int64s
from coterie.pipeline.exchange import text_codes
from coterie.pipeline.tables import TABLES
from coterie.pipeline.transforms.commit_runs import int64s
from coterie.pipeline.transforms.segment_sums import OF_BATCHES, OF_BORDER, OF_KEY
from coterie.protocol.topic_names import OFFSETS_TOPIC

_SEGMENT = ["input", "log_partition", "segment_base"]
_SEGMENT_FILE = re.compile(rf"/{re.escape(OFFSETS_TOPIC)}-\d+/(\d{{20}})\.log[^/]*$")

# A piece of damage in a segment of the group log.
DAMAGED = pa.schema(
    [("input", pa.string()), ("log_partition", pa.int32()), ("segment_base", pa.int64())]
)
QUARANTINE_COLUMNS = pa.schema(
    [TABLES["quarantine"].schema.field(name) for name in ("input", "log_partition", "file")]
)


def segment_codes(rows: pa.Table) -> Int64s:
    """Return a number for each row; rows of one segment have the same."""
    codes = text_codes(rows.column("input"))
    # Segments of neighbouring partitions get different numbers, so that buckets are even.
    return codes + 31 * int64s(rows, "log_partition") + int64s(rows, "segment_base")


def damaged(rows: pa.RecordBatch) -> pa.Table:
    """Return rows of `quarantine` that are in segments of the group log as rows of `DAMAGED`."""
    files = rows.column("file").dictionary_encode()
    found = [_SEGMENT_FILE.search(name or "") for name in files.dictionary.to_pylist()]
    bases = pa.array([int(each[1]) if each else None for each in found], pa.int64())
    base = bases.take(files.indices)
    columns = [rows.column("input"), rows.column("log_partition"), base]
    return pa.Table.from_arrays(columns, schema=DAMAGED).filter(base.is_valid())


def log_health(sums: pa.Table, damage: pa.Table) -> pa.Table:
    """Return a row for each segment of the group log, as it was when it was read.

    `bytes` are those of keys and values. A key counts once for each segment, a batch in two
    stretches once. Batches are unknown for records that an earlier version read through Spark's
    connector.

    Args:
        sums: all sums of some segments, see `segment_sums`.
        damage: all rows of `DAMAGED` of these segments.
    """
    segments = _by_segment(sums)
    # A segment may contain nothing but damage, hence the full join.
    joined = segments.join(_batches(sums), _SEGMENT, join_type="left outer").join(
        damage.append_column("one", pa.array(np.ones(damage.num_rows, np.int64)))
        .group_by(_SEGMENT)
        .aggregate([("one", "sum")])
        .rename_columns([*_SEGMENT, "quarantined"]),
        _SEGMENT,
        join_type="full outer",
    )
    has_records = joined.column("records").is_valid()
    for name in ("batches", "horizon_batches"):
        # Null if the number is unknown, but 0 for a segment without records.
        number = pc.if_else(has_records, joined.column(name), 0)
        joined = joined.set_column(joined.schema.get_field_index(name), name, number)
    for name in ("records", "keys", "tombstones", "quarantined", "bytes"):
        number = joined.column(name).fill_null(0)
        joined = joined.set_column(joined.schema.get_field_index(name), name, number)
    schema = TABLES["log_health"].schema
    return joined.select(schema.names).cast(schema)


def _by_segment(sums: pa.Table) -> pa.Table:
    of_keys = sums.filter(pc.equal(sums.column("kind"), OF_KEY))
    by_key = of_keys.group_by([*_SEGMENT, "key"]).aggregate(
        [
            ("records", "sum"), ("tombstones", "sum"), ("first_offset", "min"),
            ("last_offset", "max"), ("bytes", "sum"),
        ]
    )  # fmt: skip
    has_key = by_key.column("key").is_valid()
    keyed = pc.if_else(has_key, by_key.column("records_sum"), 0)
    segments = (
        by_key.append_column("keyed", keyed)
        .append_column("keys", has_key.cast(pa.int64()))
        .group_by(_SEGMENT)
        .aggregate(
            [
                ("records_sum", "sum"), ("keys", "sum"), ("tombstones_sum", "sum"),
                ("first_offset_min", "min"), ("last_offset_max", "max"), ("bytes_sum", "sum"),
                ("keyed", "sum"),
            ]
        )
        .rename_columns(
            [*_SEGMENT, "records", "keys", "tombstones", "first_offset", "last_offset", "bytes",
             "keyed"]
        )
    )  # fmt: skip
    keyed = segments.column("keyed").cast(pa.float64())
    share = pc.divide(segments.column("keys").cast(pa.float64()), keyed)
    ratio = pc.if_else(pc.equal(keyed, 0.0), None, pc.subtract(1.0, share))
    return segments.drop_columns(["keyed"]).append_column("duplicate_ratio", ratio)


def _batches(sums: pa.Table) -> pa.Table:
    """Count the batches, and those with a delete horizon."""
    counted = ["batches", "horizon_batches"]
    kind = sums.column("kind")
    # Two neighbouring stretches both report a batch that lies in both, with its base offset.
    borders = (
        sums.filter(pc.equal(kind, OF_BORDER))
        .group_by([*_SEGMENT, "first_offset"])
        .aggregate([(name, "min") for name in counted])
        .rename_columns([*_SEGMENT, "first_offset", *counted])
    )
    inner = sums.filter(pc.equal(kind, OF_BATCHES))
    every = pa.concat_tables(each.select([*_SEGMENT, *counted]) for each in (inner, borders))
    sums_of = every.group_by(_SEGMENT).aggregate([(name, "sum") for name in counted])
    return sums_of.rename_columns([*_SEGMENT, *counted])
