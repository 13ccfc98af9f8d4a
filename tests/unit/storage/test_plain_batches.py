"""The fast path of the cleaner against the slow one: the same keys, or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.protocol.raw_records import split_records
from coterie.protocol.record_batch import CRC_START, HEADER_BYTES
from coterie.protocol.records import (
    Compression,
    Record,
    encode_batch,
    encode_records,
    iterate_batches,
    read_header,
)
from coterie.storage.plain_batches import PlainBatches, Run
from coterie.storage.scan import BadBatch

ALL = range(1 << 40)
_keys = st.sampled_from([b"a", b"b", b"cc", b"d" * 63])
_pairs = st.lists(st.tuples(_keys, st.sampled_from([b"v", b"w", b"w" * 70])), min_size=1)
_odd = st.sampled_from(["tombstone", "no key", "long key", "header", "producer", "codec"])


def taken(plain: PlainBatches, data: bytes, at: int = 0, offsets: range = ALL) -> Run | None:
    return plain.take(memoryview(data), at, offsets, position=1000)


def learnt(*batches: bytes) -> PlainBatches:
    plain = PlainBatches()
    for batch in batches:
        plain.learn(b"x" + batch, read_header(batch), 1)
    return plain


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
def test_what_is_taken_are_the_keys_of_the_records(
    contents: list[list[tuple[bytes, bytes]]], order: list[int]
) -> None:
    batches = [encode_batch(pairs, 0, 100 + n) for n, pairs in enumerate(contents)]
    plain = learnt(*batches)
    data, offset = b"", 0
    for number in order:
        pairs = contents[number % len(contents)]
        data += encode_batch(pairs, offset, 7 * offset)
        offset += len(pairs) + offset % 3
    at, keys, starts = 0, [], []
    while at < len(data):
        run = taken(plain, data, at)
        assert run is not None, "every layout has been learnt"
        for start, some in run.batches(at):
            starts.append(start)
            keys.append(some)
        facts = list(run.kept_facts(data[at : run.stop]))
        headers = [read_header(data, start) for start, _ in run.batches(at)]
        assert facts == [
            (each.base_offset, each.last_offset_delta, each.max_timestamp_ms) for each in headers
        ]
        assert run.next_offset == headers[-1].next_offset
        at = run.stop
    wanted = []
    for start, header in iterate_batches(data):
        end = start + header.length_bytes
        records = split_records(data, start + HEADER_BYTES, end, header.record_count)
        wanted.append((start, tuple(each[5] for each in records)))
    assert list(zip(starts, keys, strict=True)) == wanted


@given(_odd)
def test_what_is_not_plain_is_not_taken(kind: str) -> None:
    batch = odd_batch(kind)
    assert taken(learnt(batch), batch) is None


@pytest.mark.parametrize("records", [1, 3])
def test_no_changed_byte_is_overlooked(records: int) -> None:
    """Only the offset, the epoch, and of an unchecked batch times, keys and values may differ."""
    pairs = [(b"key %d" % n, b"value") for n in range(records)]
    batch = encode_batch(pairs, 300, 1)
    plain = learnt(batch)
    free = set(range(8)) | set(range(12, 16))
    keys = {batch.index(part) + n for pair in pairs for part in pair for n in range(len(part))}
    for at in range(len(batch)):
        changed = bytearray(batch)
        changed[at] ^= 1
        data = bytes(changed)
        if at not in free:
            refused = False
            try:
                refused = taken(plain, data) is None
            except BadBatch:
                refused = at >= CRC_START - 4
            assert refused, at
        run = plain.take(memoryview(data), 0, ALL, position=None)
        values = {n for _, value in pairs for n in find_all(batch, value)}
        assert run is None or at in free | keys | values | set(range(17, 21)) | set(range(27, 43))


def find_all(data: bytes, part: bytes) -> set[int]:
    found, at = set(), data.find(part)
    while at >= 0:
        found |= set(range(at, at + len(part)))
        at = data.find(part, at + 1)
    return found


def test_a_damaged_batch_is_named_by_its_place_in_the_file() -> None:
    for records in (1, 2):
        batches = [encode_batch([(b"k", b"v" * 9)] * records, n * 5, 1) for n in range(3)]
        data = bytearray(b"".join(batches))
        data[-3] ^= 1
        with pytest.raises(BadBatch) as caught:
            taken(learnt(batches[0]), bytes(data))
        assert caught.value.position == 1000 + 2 * len(batches[0])


def test_a_run_ends_at_the_offsets_the_slice_and_the_most() -> None:
    data = b"".join(encode_batch([(b"k", b"v"), (b"l", b"w")], 2 * n, 1) for n in range(5))
    size = len(data) // 5
    plain = learnt(data[:size])

    def stop(data: bytes, offsets: range, most: int = 9) -> int | None:
        run = plain.take(memoryview(data), 0, offsets, position=0, most=most)
        return None if run is None else run.stop // size

    assert stop(data, ALL) == 5
    assert stop(data, ALL, 2) == 2
    assert stop(data[:-1], ALL) == 4
    assert stop(data, range(7)) == 3
    assert stop(data, range(8)) == 4
    assert stop(data, range(1)) is None
    assert stop(data, range(1, 50)) is None
    assert stop(data[: size - 1], ALL) is None
    assert stop(data[size:] + data, ALL) == 4


def test_what_is_learnt_is_bounded() -> None:
    plain = PlainBatches()
    for length in range(10_000):
        batch = encode_batch([(b"k", b"v" * length)], 0, 1)
        plain.learn(batch, read_header(batch), 0)
    learnt_last = encode_batch([(b"k", b"v" * 9_999)], 0, 1)
    assert taken(plain, learnt_last) is None
    assert taken(plain, encode_batch([(b"k", b"v" * 900)], 0, 1)) is not None
