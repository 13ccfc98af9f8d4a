"""The sums of records by segment equal a plain count, however the rows are cut into stretches."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.pipeline.tables import TABLES
from coterie.pipeline.transforms.segment_sums import (
    COLUMNS,
    OF_BATCHES,
    OF_BORDER,
    OF_KEY,
    segment_sums,
)
from coterie.protocol.record_batch_layout import HAS_DELETE_HORIZON

Row = dict[str, Any]

_SCHEMA = pa.schema([TABLES["log_records"].schema.field(name) for name in COLUMNS])

_batch = st.fixed_dictionaries(
    {
        "segment_base": st.sampled_from([0, 0, 0, 1000]),
        "has_horizon": st.booleans(),
        "pairs": st.lists(
            st.tuples(
                st.one_of(st.none(), st.sampled_from([b"a", b"bb", b"ccc"])),
                st.one_of(st.none(), st.binary(max_size=4)),
            ),
            min_size=1,
            max_size=5,
        ),
    }
)


def _rows(batches: list[Row]) -> list[Row]:
    """Return the batches' records in the order of a log, one segment after the other."""
    rows: list[Row] = []
    for batch in sorted(batches, key=lambda batch: int(batch["segment_base"])):
        base = len(rows)
        for key, value in batch["pairs"]:
            rows.append(
                {
                    "input": "c",
                    "log_partition": 3,
                    "segment_base": batch["segment_base"],
                    "batch_base_offset": base,
                    "log_offset": len(rows),
                    "attributes": HAS_DELETE_HORIZON if batch["has_horizon"] else 0,
                    "key": key,
                    "value": value,
                }
            )
    return rows


def _sums(rows: list[Row]) -> list[Row]:
    sums: list[Row] = segment_sums(pa.RecordBatch.from_pylist(rows, _SCHEMA)).to_pylist()
    return sums


@settings(max_examples=150, deadline=None)
@given(st.lists(_batch, max_size=12), st.lists(st.integers(0, 40), max_size=4))
def test_sums_equal_a_plain_count_wherever_the_rows_are_cut(
    batches: list[Row], cuts: list[int]
) -> None:
    rows = _rows(batches)
    stretches = [rows[a:b] for a, b in pairwise([0, *sorted(cuts), len(rows)])]
    sums = [row for stretch in stretches for row in _sums(stretch)]
    keys: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in rows:
        counted = keys[row["segment_base"], row["key"]]
        counted[0] += 1
        counted[1] += row["value"] is None and row["key"] is not None
        counted[2] += len(row["key"] or b"") + len(row["value"] or b"")
    found: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    offsets: dict[int, list[int]] = defaultdict(list)
    borders: dict[int, dict[int, int]] = defaultdict(dict)
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in sums:
        segment = row["segment_base"]
        if row["kind"] == OF_KEY:
            counted = found[segment, row["key"]]
            for index, name in enumerate(("records", "tombstones", "bytes")):
                counted[index] += row[name]
            offsets[segment] += [row["first_offset"], row["last_offset"]]
        elif row["kind"] == OF_BORDER:
            assert row["batches"] == 1
            borders[segment][row["first_offset"]] = row["horizon_batches"]
        else:
            assert row["kind"] == OF_BATCHES
            counts[segment][0] += row["batches"]
            counts[segment][1] += row["horizon_batches"]
    assert dict(found) == dict(keys)
    for segment in {row["segment_base"] for row in rows}:
        of_segment = [row for row in rows if row["segment_base"] == segment]
        assert min(offsets[segment]) == of_segment[0]["log_offset"]
        assert max(offsets[segment]) == of_segment[-1]["log_offset"]
        bases = {row["batch_base_offset"]: row["attributes"] > 0 for row in of_segment}
        assert counts[segment][0] + len(borders[segment]) == len(bases)
        assert counts[segment][1] + sum(borders[segment].values()) == sum(bases.values())


def test_records_without_batches_are_summed_by_key_only() -> None:
    rows = [
        row | {"batch_base_offset": None, "attributes": None}
        for row in _rows([{"segment_base": 0, "has_horizon": False, "pairs": [(b"a", b"1")] * 2}])
    ]
    assert [(row["kind"], row["records"]) for row in _sums(rows)] == [(OF_KEY, 2)]
