"""The check of records: runs of equal records, mixed ones, and changed bytes."""

import random

import pytest

from coterie.protocol import record_check
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.raw_records import split_records
from coterie.protocol.record_batch_layout import HEADER_BYTES
from coterie.protocol.record_check import CheckedRecords, check_records
from coterie.protocol.records import Record, encode_records

Body = tuple[bytes, int]


def body_of(*records: Record) -> Body:
    """Return the bytes of some records, and their number."""
    return encode_records(records)[HEADER_BYTES:], len(records)


def equal_records(
    count: int, value_bytes: int, delta_ms: int = 0, key: bytes | None = b"k"
) -> Body:
    """Return records of one size."""
    return body_of(
        *(Record(at, 1000 + at * delta_ms % 60, key, b"v" * value_bytes) for at in range(count))
    )


def mixed_records(count: int, seed: int) -> Body:
    """Return records of many sizes."""
    rng = random.Random(seed)
    keys = [None, b"", b"key", b"k" * 70]
    headers: list[tuple[tuple[str, bytes | None], ...]] = [(), (("h", b"v"), ("n", None))]
    return body_of(
        *(
            Record(
                at,
                1000 + rng.choice([0, 1, 70, 10_000, -1, -500]),
                rng.choice(keys),
                rng.choice([None, b"", b"v" * rng.choice([1, 63, 64, 200, 9000])]),
                rng.choice(headers),
            )
            for at in range(count)
        )
    )


def expected(body: bytes, count: int) -> CheckedRecords:
    """Return what `check_records` returns, by another reader."""
    records = split_records(body, 0, len(body), count)
    deltas = [delta for _, _, delta, _, _, _, _, _, _ in records]
    return min(deltas), max(deltas), any(key < 0 for _, _, _, _, _, _, key, _, _ in records)


@pytest.mark.parametrize("count", [1, 7, 8, 63, 64, 65, 72, 1000, 8191, 8192, 8200])
@pytest.mark.parametrize("value_bytes", [0, 1, 54, 55, 56, 63, 64, 200])
@pytest.mark.parametrize("delta_ms", [0, 1, -1])
def test_records_of_one_size(count: int, value_bytes: int, delta_ms: int) -> None:
    for key in (b"k", b"", None):
        body, _ = equal_records(count, value_bytes, delta_ms, key)
        assert check_records(body, 0, len(body), count) == expected(body, count)


@pytest.mark.parametrize("count", [1, 9, 100, 700])
@pytest.mark.parametrize("seed", range(10))
def test_records_of_many_sizes(count: int, seed: int) -> None:
    body, _ = mixed_records(count, seed)
    assert check_records(b"xyz" + body, 3, 3 + len(body), count) == expected(body, count)


def outcome(body: bytes, count: int) -> CheckedRecords | None:
    """Return what the check returns, None if it refuses the records."""
    try:
        return check_records(body, 0, len(body), count)
    except MalformedFrame:
        return None


@pytest.mark.parametrize("value_bytes", [1, 60, 100])
def test_a_changed_byte_has_the_same_effect_in_a_run(
    monkeypatch: pytest.MonkeyPatch, value_bytes: int
) -> None:
    body, count = equal_records(20, value_bytes, 1)
    changed = [
        body[:at] + bytes([value]) + body[at + 1 :]
        for at in range(len(body))
        for value in (0, 1, 2, 3, 127, 128, 255, body[at] ^ 4)
    ]
    at_once = [outcome(each, count) for each in changed]
    monkeypatch.setattr(record_check, "_LEAST_RUN", count + 1)
    assert at_once == [outcome(each, count) for each in changed]
    assert None in at_once


@pytest.mark.parametrize("count", [19, 21, 64, 100])
def test_wrong_number_of_equal_records(count: int) -> None:
    body, _ = equal_records(20, 10)
    assert outcome(body, count) is None
    assert outcome(body + b"\0", 20) is None
    assert outcome(body[:-1], 20) is None
