"""Runs of plain batches: their keys are those that the slow reader finds, or there is no run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.protocol.raw_records import open_body, split_keys
from coterie.protocol.record_batch_layout import (
    BASE_TIMESTAMP_AT,
    CRC_AT,
    CRC_START,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    MAGIC_AT,
    PRODUCER_ID_AT,
)
from coterie.protocol.records import (
    Compression,
    Record,
    encode_batch,
    encode_records,
    iterate_batches,
    read_header,
)
from coterie.storage.key_runs import KeyLayouts, Run
from tests.record_batches import with_right_crc

ALL = range(1 << 62)
_keys = st.sampled_from([b"a", b"b", b"cc", b"d" * 63])
_pairs = st.lists(st.tuples(_keys, st.sampled_from([b"v", b"w", b"w" * 70])), min_size=1)
_odd = st.sampled_from(["tombstone", "no key", "long key", "header", "producer", "codec"])


def take(
    layouts: KeyLayouts, data: bytes, at: int = 0, offsets: range = ALL, *, check_crc: bool = True
) -> Run | None:
    return layouts.take(data, at, offsets, check_crc=check_crc)


def learned(*batches: bytes) -> KeyLayouts:
    layouts = KeyLayouts()
    for batch in batches:
        layouts.learn(b"x" + batch, read_header(batch), 1)
    return layouts


def odd_batch(kind: str) -> bytes:
    key = {"no key": None, "long key": b"k" * 64}.get(kind, b"key")
    value = None if kind == "tombstone" else b"value"
    headers = (("h", b"\0"),) if kind == "header" else ()
    return encode_records(
        [Record(0, 5, b"other", b"value"), Record(1, 5, key, value, headers)],
        compression=Compression.GZIP if kind == "codec" else Compression.NONE,
        producer_id=7 if kind == "producer" else -1,
    )


@given(st.lists(_pairs, min_size=1, max_size=6), st.lists(st.integers(0, 5), max_size=12))
def test_runs_have_the_keys_of_their_records(
    contents: list[list[tuple[bytes, bytes]]], order: list[int]
) -> None:
    batches = [encode_batch(pairs, 0, 100 + n) for n, pairs in enumerate(contents)]
    layouts = learned(*batches)
    data, offset = b"", 0
    for number in order:
        pairs = contents[number % len(contents)]
        data += encode_batch(pairs, offset, 7 * offset)
        offset += len(pairs) + offset % 3
    at, keys, starts = 0, [], []
    while at < len(data):
        run = take(layouts, data, at)
        if run is None:
            # Only four layouts are kept that are looked up by the same bytes.
            at += read_header(data, at).length_bytes
            continue
        for start, some in run.batches(at):
            starts.append(start)
            keys.append(some)
        facts = list(run.offsets_and_times(data[at : run.stop]))
        headers = [read_header(data, start) for start, _ in run.batches(at)]
        assert facts == [
            (each.base_offset, each.last_offset_delta, each.max_timestamp_ms) for each in headers
        ]
        assert run.next_offset == headers[-1].next_offset
        at = run.stop
    expected = {}
    for start, header in iterate_batches(data):
        body, first, end = open_body(data, header, start)
        expected[start] = tuple(split_keys(body, first, end, header.record_count))
    assert dict(zip(starts, keys, strict=True)).items() <= expected.items()
    if len(contents) <= 4:
        assert starts == list(expected), "every layout was learned"


@given(_odd)
def test_batches_that_are_not_plain_are_not_taken(kind: str) -> None:
    batch = odd_batch(kind)
    assert take(learned(batch), batch) is None


@pytest.mark.parametrize("records", [1, 3])
def test_every_changed_byte_is_noticed(records: int) -> None:
    """Offset and epoch may differ; timestamps, keys and values if the checksum is right."""
    pairs = [(b"key %d" % n, b"value") for n in range(records)]
    batch = encode_batch(pairs, 300, 1)
    layouts = learned(batch)
    free = {*range(LENGTH_AT), *range(LEADER_EPOCH_AT, MAGIC_AT)}
    contents = {n for pair in pairs for part in pair for n in places_of(batch, part)}
    contents |= set(range(BASE_TIMESTAMP_AT, PRODUCER_ID_AT))
    # A layout is looked up by a byte of the first key, too.
    contents.discard(batch.index(b"key 0"))
    for at in range(len(batch)):
        changed = bytearray(batch)
        changed[at] ^= 1
        run = take(layouts, bytes(changed))
        assert (run is None) == (at not in free), at
        sealed = with_right_crc(changed)
        run = take(layouts, sealed)
        assert (run is None) == (at not in free | contents | set(range(CRC_AT, CRC_START))), at
        assert take(layouts, sealed, check_crc=False) == run


def places_of(data: bytes, part: bytes) -> set[int]:
    found, at = set(), data.find(part)
    while at >= 0:
        found |= set(range(at, at + len(part)))
        at = data.find(part, at + 1)
    return found


@pytest.mark.parametrize("records", [1, 2])
def test_a_run_ends_before_a_damaged_batch(records: int) -> None:
    batches = [encode_batch([(b"k", b"v" * 9)] * records, n * 5, 1) for n in range(4)]
    size = len(batches[0])
    data = bytearray(b"".join(batches))
    data[3 * size - 3] ^= 1
    layouts = learned(batches[0])
    run = take(layouts, bytes(data))
    assert run is not None
    assert run.stop == 2 * size
    assert take(layouts, bytes(data), run.stop) is None
    unchecked = take(layouts, bytes(data), check_crc=False)
    assert unchecked is not None
    assert unchecked.stop == 4 * size


def test_a_run_ends_with_the_offsets_the_slice_and_the_limit() -> None:
    data = b"".join(encode_batch([(b"k", b"v"), (b"l", b"w")], 2 * n, 1) for n in range(5))
    size = len(data) // 5
    layouts = learned(data[:size])

    def batches(data: bytes, offsets: range, most: int = 9) -> int | None:
        run = layouts.take(data, 0, offsets, check_crc=True, most=most)
        return None if run is None else run.stop // size

    assert batches(data, ALL) == 5
    assert batches(data, ALL, 2) == 2
    assert batches(data[:-1], ALL) == 4
    assert batches(data, range(7)) == 3
    assert batches(data, range(8)) == 4
    assert batches(data, range(1)) is None
    assert batches(data, range(1, 50)) is None
    assert batches(data[: size - 1], ALL) is None
    assert batches(data[size:] + data, ALL) == 4


def test_layouts_that_are_looked_up_by_the_same_bytes_are_kept_beside_each_other() -> None:
    """They differ behind the first key only."""
    batches = [
        encode_batch([(b"k", b"v"), (b"k" * n, b"v" * (20 - n)), (b"k", b"v")], 0, 1)
        for n in range(1, 7)
    ]
    assert len({len(batch) for batch in batches}) == 1
    layouts = learned(*batches)
    assert [take(layouts, batch) is not None for batch in batches] == [True] * 4 + [False] * 2


def test_what_is_learned_is_bounded() -> None:
    layouts = KeyLayouts()
    for length in range(10_000):
        batch = encode_batch([(b"k", b"v" * length)], 0, 1)
        layouts.learn(batch, read_header(batch), 0)
    last = encode_batch([(b"k", b"v" * 9_999)], 0, 1)
    assert take(layouts, last) is None
    assert take(layouts, encode_batch([(b"k", b"v" * 900)], 0, 1)) is not None
