"""Records survive a round trip through a batch; any bytes are a batch or a `MalformedFrame`.

Rules: [record-batch/bounded-decoding].
"""

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.newest_records import PairLayouts
from coterie.protocol.record_batch_layout import CRC_START, MAGIC_AT
from coterie.protocol.records import (
    BatchHeader,
    Compression,
    Record,
    check_crc,
    decode_pairs,
    decode_records,
    encode_batch,
    encode_records,
    iterate_batches,
    read_header,
    record_timestamps,
)
from coterie.protocol.varints import read_varint, varint
from tests.record_batches import Pair, pairs_in, with_right_crc

_SETTINGS = settings(max_examples=200, deadline=None, derandomize=True)

_int64 = st.integers(-(2**63), 2**63 - 1)
_bytes = (
    st.none() | st.binary(max_size=200) | st.binary(min_size=1, max_size=3).map(lambda b: b * 999)
)
_headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=9)), max_size=3)


def take_all(buffer: bytes) -> list[tuple[BatchHeader | None, list[Pair]]]:
    """Read a buffer as a load does that takes no key type itself."""
    return list(PairLayouts(frozenset()).take_newest(buffer, {}))


@st.composite
def _records(draw: st.DrawFn) -> list[Record]:
    offset = draw(st.integers(0, 2**62))
    timestamp_ms = draw(st.integers(0, 2**41))
    records = []
    for _ in range(draw(st.integers(1, 6))):
        delta_ms = draw(st.integers(-(2**40), 2**40))
        headers = tuple(draw(_headers))
        records.append(Record(offset, timestamp_ms + delta_ms, draw(_bytes), draw(_bytes), headers))
        offset += draw(st.integers(1, 300))
    return records


@_SETTINGS
@given(_int64)
def test_varints_survive_a_round_trip(value: int) -> None:
    data = varint(value)
    assert len(data) <= 10
    assert read_varint(b"x" + data + b"\xff", 1) == (value, len(data) + 1)


@_SETTINGS
@given(_records(), st.sampled_from(Compression), st.binary(max_size=3))
def test_records_survive_a_round_trip(
    records: list[Record], codec: Compression, before: bytes
) -> None:
    buffer = before + encode_records(records, compression=codec) + b"\x80" * 70
    header = read_header(buffer, len(before))
    assert check_crc(buffer, header, len(before))
    assert decode_records(buffer, header, len(before)) == records
    assert list(record_timestamps(buffer, header, len(before))) == [
        (record.timestamp_ms, record.offset) for record in records
    ]


@_SETTINGS
@given(
    st.lists(st.tuples(st.binary(max_size=80), st.none() | st.binary(max_size=300)), min_size=1),
    st.integers(0, 2**62),
)
def test_the_coordinators_writer_and_the_general_one_agree(
    pairs: list[tuple[bytes, bytes | None]], base_offset: int
) -> None:
    batch = encode_batch(pairs, base_offset, 17)
    records = [Record(base_offset + at, 17, key, value) for at, (key, value) in enumerate(pairs)]
    assert batch == encode_records(records, base_sequence=0)
    assert pairs_in(batch) == pairs
    assert take_all(batch) == [(None, pairs)]


@_SETTINGS
@given(_records(), st.sampled_from(Compression), st.data())
def test_damage_behind_a_right_checksum_raises_only_malformed_frame(
    records: list[Record], codec: Compression, data: st.DataObject
) -> None:
    batch = bytearray(encode_records(records, compression=codec))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(CRC_START, len(batch) - 1))] = data.draw(st.integers(0, 255))
    damaged = with_right_crc(batch) + b"\x02" * 70
    header = read_header(damaged)
    read = []
    try:
        read = decode_records(damaged, header)
        assert decode_pairs(damaged, header) == [(each.key, each.value) for each in read]
        assert len(list(record_timestamps(damaged, header))) == len(read)
    except MalformedFrame:
        assert read == []
    with suppress(MalformedFrame):
        take_all(bytes(batch))


@_SETTINGS
@given(st.binary(max_size=200), st.integers(0, 2))
def test_any_bytes_are_batches_or_malformed(data: bytes, magic: int) -> None:
    for buffer in (data, data[:MAGIC_AT] + bytes((magic,)) + data[MAGIC_AT:]):
        with suppress(MalformedFrame):
            for position, header in iterate_batches(buffer):
                decode_records(buffer, header, position)
        with suppress(MalformedFrame):
            take_all(buffer)
