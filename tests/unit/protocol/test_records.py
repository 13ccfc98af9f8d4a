"""Record batches of magic 2: encoding, decoding, stamping, and refusals."""

import struct

import pytest

from coterie.protocol import checksum
from coterie.protocol.control_records import encode_marker
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.newest_records import PairLayouts
from coterie.protocol.raw_records import open_body, split_keys
from coterie.protocol.record_batch_layout import (
    CRC_AT,
    CRC_START,
    HEADER_BYTES,
    LEADER_EPOCH_AT,
    LEGACY_HEADER,
    LENGTH,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    position_of,
)
from coterie.protocol.records import (
    BatchHeader,
    Compression,
    Record,
    batch_extents,
    check_crc,
    decode_pairs,
    decode_records,
    encode_batch,
    encode_records,
    iterate_batches,
    read_header,
    record_timestamps,
)
from tests.record_batches import (
    pairs_in,
    with_append_time,
    with_offset,
    with_right_crc,
)

RECORD_COUNT_AT = position_of("record_count")
NOW_MS = 1_700_000_000_000
RECORDS = [
    Record(7, NOW_MS, b"key", b"value", (("h", b"1"), ("h", None), ("", b""))),
    Record(8, NOW_MS + 5, None, b"", ()),
    Record(11, NOW_MS - 3, b"", None, (("ü", b"\xff"),)),
]


def patched(batch: bytes, position: int, form: str, value: int) -> bytes:
    """Return the batch with another number in its header, and a right CRC."""
    out = bytearray(batch)
    struct.pack_into(form, out, position, value)
    return with_right_crc(out)


def test_the_coordinators_batch_has_the_header_that_kafka_writes() -> None:
    batch = encode_batch([(b"k", b"v"), (b"removed", None)], 41, NOW_MS, leader_epoch=3)
    assert read_header(batch) == BatchHeader(
        base_offset=41,
        length_bytes=len(batch),
        leader_epoch=3,
        magic=2,
        crc=checksum.crc32c(batch[CRC_START:]),
        attributes=0,
        last_offset_delta=1,
        base_timestamp_ms=NOW_MS,
        max_timestamp_ms=NOW_MS,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=0,
        record_count=2,
    )
    assert decode_records(batch, read_header(batch)) == [
        Record(41, NOW_MS, b"k", b"v"),
        Record(42, NOW_MS, b"removed", None),
    ]


def test_the_bytes_of_one_commit() -> None:
    # Key and value are bytes of Kafka's own serializers; the format fixes every other byte.
    key = bytes.fromhex("000100036772700003666f6f00000002")
    value = bytes.fromhex("00040000000000000064ffffffff010000018bcfe5680000")
    batch = encode_batch([(key, value)], 0, NOW_MS)
    assert batch[:17] == bytes.fromhex("0000000000000000 00000060 00000000 02")
    assert batch[21:61] == bytes.fromhex(
        "0000 00000000 0000018bcfe56800 0000018bcfe56800 ffffffffffffffff ffff 00000000 00000001"
    )
    assert batch[61:] == b"\x5c\0\0\0\x20" + key + b"\x30" + value + b"\0"


@pytest.mark.parametrize("size", [0, 1, 63, 64, 2047, 2048, 100_000])
def test_lengths_within_and_beyond_the_varint_table(size: int) -> None:
    batch = encode_batch([(b"k" * size, b"v" * size), (b"a", None)], 0, NOW_MS)
    header = read_header(batch)
    assert decode_pairs(batch, header) == [(b"k" * size, b"v" * size), (b"a", None)]
    assert check_crc(batch, header)


@pytest.mark.parametrize("epoch", [0, 7])
@pytest.mark.parametrize("key_bytes", [0, 40, 63, 64, 1_000, 2_031, 2_032, 100_000])
@pytest.mark.parametrize("value_bytes", [0, 45, 63, 64, 1_031, 1_032, 100_000])
def test_a_record_that_comes_alone_has_the_bytes_of_any_other(
    key_bytes: int, value_bytes: int, epoch: int
) -> None:
    key, value = b"k" * key_bytes, b"v" * value_bytes
    general = encode_records(
        [Record(1 << 40, NOW_MS, key, value)], leader_epoch=epoch, base_sequence=0
    )
    assert encode_batch([(key, value)], 1 << 40, NOW_MS, leader_epoch=epoch) == general


def test_a_record_that_comes_alone_keeps_the_epoch_of_its_producer() -> None:
    batch = encode_batch([(b"k", b"v")], 0, NOW_MS, producer_epoch=3)
    general = encode_records([Record(0, NOW_MS, b"k", b"v")], producer_epoch=3, base_sequence=0)
    assert batch == general


def test_more_records_than_the_table_of_starts() -> None:
    pairs = [(str(number).encode(), b"v") for number in range(1000)]
    batch = encode_batch(pairs, 0, NOW_MS)
    assert decode_pairs(batch, read_header(batch)) == pairs
    records = decode_records(batch, read_header(batch))
    assert [record.offset for record in records] == list(range(1000))


@pytest.mark.parametrize("compression", list(Compression))
def test_records_of_every_compression_are_decoded_again(compression: Compression) -> None:
    batch = encode_records(
        RECORDS, compression=compression, producer_id=9, producer_epoch=1, base_sequence=4
    )
    header = read_header(batch)
    assert (header.compression, header.record_count) == (compression, 3)
    assert (header.base_offset, header.last_offset, header.next_offset) == (7, 11, 12)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (NOW_MS, NOW_MS + 5)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 4)
    assert decode_records(batch, header) == RECORDS
    assert list(record_timestamps(batch, header)) == [
        (record.timestamp_ms, record.offset) for record in RECORDS
    ]


def test_a_batch_is_read_at_its_position() -> None:
    first, second = encode_records(RECORDS[:1]), encode_records(RECORDS[1:])
    buffer = b"xyz" + first + second
    assert [position for position, _ in iterate_batches(buffer, 3)] == [3, 3 + len(first)]
    for position, header in iterate_batches(buffer, 3):
        assert check_crc(buffer, header, position)
    position = 3 + len(first)
    assert decode_records(buffer, read_header(buffer, position), position) == RECORDS[1:]


def test_extents_of_batches_are_those_of_their_headers() -> None:
    legacy = LEGACY_HEADER.pack(70, 14, 0, 0, 0) + b"\xff" * 8
    later = encode_batch([(b"k", b"v")] * 9, 80, NOW_MS)
    buffer = encode_records(RECORDS) + legacy + later + legacy
    assert list(batch_extents(buffer)) == [
        (header.base_offset, header.last_offset, position + header.length_bytes)
        for position, header in iterate_batches(buffer)
    ]
    impossible = bytearray(buffer)
    LENGTH.pack_into(impossible, LENGTH_AT, -12)
    with pytest.raises(MalformedFrame):
        list(batch_extents(bytes(impossible)))


def test_header_names_that_are_not_utf8_keep_their_bytes() -> None:
    record = Record(
        0, NOW_MS, None, None, ((b"\xff\xfe".decode("utf-8", "surrogateescape"), b"x"),)
    )
    batch = encode_records([record])
    assert b"\xff\xfe" in batch
    assert decode_records(batch, read_header(batch)) == [record]


def test_new_offset_and_epoch_leave_the_checksum_right() -> None:
    batch = with_offset(encode_records(RECORDS), 1 << 40, 17)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (1 << 40, 17)
    assert check_crc(batch, header)
    assert [record.offset - (1 << 40) for record in decode_records(batch, header)] == [0, 1, 4]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_log_append_time_is_the_time_of_every_record(compression: Compression) -> None:
    batch = with_append_time(encode_records(RECORDS, compression=compression), NOW_MS + 99)
    header = read_header(batch)
    assert header.log_append_time
    assert check_crc(batch, header)
    assert {record.timestamp_ms for record in decode_records(batch, header)} == {NOW_MS + 99}
    assert {timestamp for timestamp, _ in record_timestamps(batch, header)} == {NOW_MS + 99}
    written = encode_records(RECORDS, compression=compression, log_append_time_ms=NOW_MS + 99)
    assert written == batch


def test_sequences_wrap_to_zero() -> None:
    batch = encode_records(
        [Record(offset, NOW_MS, b"", b"") for offset in range(3)],
        producer_id=1,
        producer_epoch=0,
        base_sequence=2**31 - 2,
    )
    assert read_header(batch).last_sequence == 0


def test_every_changed_or_missing_byte_is_noticed() -> None:
    batch = encode_batch([(b"a", b"b"), (b"c", b"d")], 0, NOW_MS)
    for position in range(LENGTH_AT, len(batch)):
        if LEADER_EPOCH_AT <= position < MAGIC_AT:
            continue  # The checksum does not cover the leader epoch.
        damaged = bytearray(batch)
        damaged[position] ^= 1
        assert not is_intact(bytes(damaged)), position
    for length in range(1, len(batch)):
        assert not is_intact(batch[:length])
    assert not is_intact(batch + b"\0")


def is_intact(data: bytes) -> bool:
    try:
        return all(check_crc(data, header, position) for position, header in iterate_batches(data))
    except MalformedFrame:
        return False


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_a_record_count_without_records_is_refused(
    compression: Compression,
) -> None:
    batch = encode_records(RECORDS, compression=compression)
    for position, value in (
        (RECORD_COUNT_AT, 2**31 - 1),
        (RECORD_COUNT_AT, 4),
        (RECORD_COUNT_AT, 2),
    ):
        lying = patched(batch, position, ">i", value)
        with pytest.raises(MalformedFrame):
            decode_records(lying, read_header(lying))
    lying = patched(batch, RECORD_COUNT_AT, ">i", 2**31 - 1)
    with pytest.raises(MalformedFrame):
        list(record_timestamps(lying, read_header(lying)))


def batch_with_body(body: bytes) -> bytes:
    """Return a batch with one record that consists of `body`, including its length."""
    batch = bytearray(encode_batch([(b"", b"")], 0, NOW_MS)[:HEADER_BYTES] + body)
    LENGTH.pack_into(batch, 0, len(batch) - LOG_OVERHEAD_BYTES)
    return with_right_crc(batch)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x0c\0\0\0\x01\x01",  # six bytes, five there
        b"\x0e\0\0\0\x01\x01\0",  # seven bytes, six there
        b"\x0a\0\0\0\x01\x01\0",  # five bytes, and one too many
        b"\x0c\0\0\0\x03\x01\0",  # a key of -2 bytes
        b"\x0c\0\0\0\x01\x03\0",  # a value of -2 bytes
        b"\x0c\0\0\0\x7e\x01\0",  # a key of 63 bytes
        b"\x01\0\0\0\x01\x01\0",  # a record of -1 bytes
        b"\x7f\0\0\0\x01\x01\0" + bytes(70),  # a record of -64 bytes
        b"\xff" * 12,  # a varint without end
        b"\x0c\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ],
)
def test_impossible_records_are_refused_by_every_reader(body: bytes) -> None:
    batch = batch_with_body(body)
    header = read_header(batch)
    with pytest.raises(MalformedFrame):
        decode_records(batch, header)
    with pytest.raises(MalformedFrame):
        split_keys(*open_body(batch, header), header.record_count)
    with pytest.raises(MalformedFrame):
        list(PairLayouts(frozenset()).take_newest(batch, {}))


@pytest.mark.parametrize(
    "body",
    [
        b"\x0c\0\0\0\x01\x01\x02",  # a header that is not there
        b"\x0c\0\0\0\x01\x01\x01",  # minus one headers
        b"\x10\0\0\0\x01\x01\x02\x01\x01",  # a header with a null name
    ],
)
def test_impossible_headers_are_refused_unless_they_are_skipped(body: bytes) -> None:
    batch = batch_with_body(body)
    with pytest.raises(MalformedFrame):
        decode_records(batch, read_header(batch))
    assert list(PairLayouts(frozenset()).take_newest(batch, {})) == [(None, [(None, None)])]


def test_a_load_reads_the_same_pairs() -> None:
    plain = [encode_batch([(b"k%d" % at, b"v" * at), (b"", None)], at, NOW_MS) for at in range(150)]
    null_key = encode_records([Record(0, NOW_MS, None, b"x", (("h", b"1"),))])
    odd = encode_records(RECORDS)
    packed = encode_records(RECORDS, compression=Compression.ZSTD)
    marker = encode_marker(5, NOW_MS, 77, 2, commit=True)
    data = b"".join([*plain, null_key, packed, odd, marker])
    found = list(PairLayouts(frozenset()).take_newest(data, {}))
    assert [header for header, _ in found if header] == [read_header(packed), read_header(marker)]
    assert [pair for _, pairs in found for pair in pairs] == pairs_in(data)


def test_a_load_refuses_incomplete_batches() -> None:
    batch = encode_batch([(b"key", b"value")], 0, NOW_MS)
    for length in range(1, len(batch)):
        with pytest.raises(MalformedFrame):
            list(PairLayouts(frozenset()).take_newest(batch[:length], {}))


def test_a_header_that_is_cut_off_or_too_short_is_refused() -> None:
    batch = encode_batch([(b"key", b"value")], 0, NOW_MS)
    for length in range(HEADER_BYTES):
        with pytest.raises(MalformedFrame, match="cut off"):
            read_header(batch[:length])
    with pytest.raises(MalformedFrame, match="less than a header"):
        read_header(patched(batch, LENGTH_AT, ">i", HEADER_BYTES - LOG_OVERHEAD_BYTES - 1))
    with pytest.raises(MalformedFrame, match="magic 3"):
        read_header(batch[:MAGIC_AT] + b"\x03" + batch[CRC_AT:])
