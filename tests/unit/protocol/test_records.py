"""Record batches of magic 2: written, read, stamped, and refused."""

import struct

import pytest

from coterie.protocol import checksum
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.records import (
    BatchHeader,
    Compression,
    InvalidRecord,
    Marker,
    Record,
    check_crc,
    decode_pairs,
    decode_records,
    encode_batch,
    encode_marker,
    encode_records,
    iterate_batches,
    iterate_pairs,
    read_header,
    read_marker,
    record_timestamps,
    stamp,
    stamp_append_time,
    validate_batches,
)

NOW_MS = 1_700_000_000_000
RECORDS = [
    Record(7, NOW_MS, b"key", b"value", (("h", b"1"), ("h", None), ("", b""))),
    Record(8, NOW_MS + 5, None, b"", ()),
    Record(11, NOW_MS - 3, b"", None, (("ü", b"\xff"),)),
]


def resealed(batch: bytes | bytearray) -> bytes:
    """The batch with the CRC of what it now holds."""
    crc = checksum.crc32c(bytes(batch[21:]))
    return bytes(batch[:17]) + struct.pack(">I", crc) + bytes(batch[21:])


def read_crc(batch: bytes | bytearray) -> int:
    return int.from_bytes(batch[17:21], "big")


def patched(batch: bytes, position: int, form: str, value: int) -> bytes:
    """The batch with another number in its header, and the CRC right."""
    out = bytearray(batch)
    struct.pack_into(form, out, position, value)
    return resealed(out)


def test_the_coordinators_batch_has_the_header_that_kafka_writes() -> None:
    batch = encode_batch([(b"k", b"v"), (b"gone", None)], 41, NOW_MS, leader_epoch=3)
    assert read_header(batch) == BatchHeader(
        base_offset=41,
        length_bytes=len(batch),
        leader_epoch=3,
        magic=2,
        crc=read_crc(batch),
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
        Record(42, NOW_MS, b"gone", None),
    ]


def test_the_golden_bytes_of_one_commit() -> None:
    # Key and value are spec section 14.1's; every other byte is told by the format.
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


def test_more_records_than_the_table_of_starts() -> None:
    pairs = [(str(number).encode(), b"v") for number in range(1000)]
    batch = encode_batch(pairs, 0, NOW_MS)
    assert decode_pairs(batch, read_header(batch)) == pairs
    records = decode_records(batch, read_header(batch))
    assert [record.offset for record in records] == list(range(1000))


@pytest.mark.parametrize("compression", list(Compression))
def test_records_of_every_compression_read_back(compression: Compression) -> None:
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


def test_a_batch_is_read_where_it_stands() -> None:
    first, second = encode_records(RECORDS[:1]), encode_records(RECORDS[1:])
    buffer = b"xyz" + first + second
    assert [position for position, _ in iterate_batches(buffer, 3)] == [3, 3 + len(first)]
    for position, header in iterate_batches(buffer, 3):
        assert check_crc(buffer, header, position)
    position = 3 + len(first)
    assert decode_records(buffer, read_header(buffer, position), position) == RECORDS[1:]


def test_header_names_that_are_no_utf8_keep_their_bytes() -> None:
    record = Record(
        0, NOW_MS, None, None, ((b"\xff\xfe".decode("utf-8", "surrogateescape"), b"x"),)
    )
    batch = encode_records([record])
    assert b"\xff\xfe" in batch
    assert decode_records(batch, read_header(batch)) == [record]


def test_stamping_leaves_the_checksum_right() -> None:
    batch = stamp(encode_records(RECORDS), 1 << 40, 17)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (1 << 40, 17)
    assert check_crc(batch, header)
    assert [record.offset - (1 << 40) for record in decode_records(batch, header)] == [0, 1, 4]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_log_append_time_is_every_records_time(compression: Compression) -> None:
    batch = stamp_append_time(encode_records(RECORDS, compression=compression), NOW_MS + 99)
    header = read_header(batch)
    assert header.log_append_time
    assert check_crc(batch, header)
    assert {record.timestamp_ms for record in decode_records(batch, header)} == {NOW_MS + 99}
    assert {timestamp for timestamp, _ in record_timestamps(batch, header)} == {NOW_MS + 99}
    written = encode_records(RECORDS, compression=compression, log_append_time_ms=NOW_MS + 99)
    assert written == batch


@pytest.mark.parametrize("commit", [True, False])
def test_markers_end_transactions(commit: bool) -> None:
    batch = encode_marker(5, NOW_MS, 77, 2, commit=commit, coordinator_epoch=6)
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.base_sequence, header.last_sequence) == (-1, -1)
    (record,) = decode_records(batch, header)
    assert read_marker(record) == Marker(commit, 6)


def test_control_records_of_other_kinds_are_no_markers() -> None:
    assert read_marker(Record(0, 0, b"\0\0\0\x02", b"anything")) is None
    with pytest.raises(MalformedFrame, match="no key"):
        read_marker(Record(0, 0, b"\0\0", None))
    with pytest.raises(MalformedFrame, match="cut off"):
        read_marker(Record(0, 0, b"\0\0\0\x01", b"\0\0"))


def test_sequences_wrap_to_zero() -> None:
    batch = encode_records(
        [Record(offset, NOW_MS, b"", b"") for offset in range(3)],
        producer_id=1,
        producer_epoch=0,
        base_sequence=2**31 - 2,
    )
    assert read_header(batch).last_sequence == 0


def test_validation_returns_the_headers() -> None:
    batches = encode_batch([(b"a", b"b")], 0, NOW_MS) + encode_batch([(b"c", b"d")] * 3, 0, NOW_MS)
    assert [header.record_count for header in validate_batches(batches)] == [1, 3]
    assert validate_batches(b"") == []


def test_validation_refuses_damage() -> None:
    batch = encode_batch([(b"a", b"b"), (b"c", b"d")], 0, NOW_MS)
    for position in range(12, len(batch)):
        if 12 <= position < 16:
            continue  # The leader epoch is the broker's to set, and nothing guards it.
        damaged = bytearray(batch)
        damaged[position] ^= 1
        with pytest.raises(MalformedFrame):
            validate_batches(bytes(damaged))
    for length in range(1, len(batch)):
        with pytest.raises(MalformedFrame):
            validate_batches(batch[:length])
    with pytest.raises(MalformedFrame):
        validate_batches(batch + b"\0")


@pytest.mark.parametrize(
    ("position", "form", "value", "why"),
    [
        (57, ">i", 3, "3 records for 2 offsets"),
        (57, ">i", 0, "0 records"),
        (57, ">i", -1, "-1 records"),
        (23, ">i", 0x7FFFFFFF, "2147483648 offsets"),
        (23, ">i", -1, "0 offsets"),
        (21, ">h", 0x30, "control batch"),
        (43, ">q", 5, "no sequence"),
    ],
)
def test_validation_refuses_what_only_a_bad_producer_writes(
    position: int, form: str, value: int, why: str
) -> None:
    batch = encode_records([record._replace(offset=at) for at, record in enumerate(RECORDS[:2])])
    with pytest.raises(InvalidRecord, match=why):
        validate_batches(patched(batch, position, form, value))


def test_validation_refuses_unknown_codecs_and_old_magic() -> None:
    batch = encode_batch([(b"a", b"b")], 0, NOW_MS)
    with pytest.raises(MalformedFrame, match="unknown compression 5"):
        validate_batches(patched(batch, 21, ">h", 5))
    old = b"\0" * 8 + struct.pack(">iIbbqii", 22, 0, 1, 0, NOW_MS, -1, -1)
    with pytest.raises(MalformedFrame, match="magic 1; producers write 2"):
        validate_batches(old)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_claims_without_bytes_are_refused_at_the_first_missing_one(
    compression: Compression,
) -> None:
    batch = encode_records(RECORDS, compression=compression)
    for position, value in ((57, 2**31 - 1), (57, 4), (57, 2)):
        lying = patched(batch, position, ">i", value)
        with pytest.raises(MalformedFrame):
            decode_records(lying, read_header(lying))
    lying = patched(batch, 57, ">i", 2**31 - 1)
    with pytest.raises(MalformedFrame):
        list(record_timestamps(lying, read_header(lying)))


def record_of(body: bytes) -> bytes:
    """A batch with one record that consists of `body`, length included."""
    batch = bytearray(encode_batch([(b"", b"")], 0, NOW_MS)[:61] + body)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    return resealed(batch)


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
def test_records_that_can_not_be_are_refused_by_both_readers(body: bytes) -> None:
    batch = record_of(body)
    with pytest.raises(MalformedFrame):
        decode_records(batch, read_header(batch))
    with pytest.raises(MalformedFrame):
        list(iterate_pairs(batch))


@pytest.mark.parametrize(
    "body",
    [
        b"\x0c\0\0\0\x01\x01\x02",  # a header that is not there
        b"\x0c\0\0\0\x01\x01\x01",  # minus one headers
        b"\x10\0\0\0\x01\x01\x02\x01\x01",  # a header with a null name
    ],
)
def test_bad_headers_are_refused_and_the_bulk_reader_steps_over_them(body: bytes) -> None:
    batch = record_of(body)
    with pytest.raises(MalformedFrame):
        decode_records(batch, read_header(batch))
    assert list(iterate_pairs(batch)) == [(None, [(None, None)])]


def test_bulk_reading_gives_the_same_pairs() -> None:
    plain = [encode_batch([(b"k%d" % at, b"v" * at), (b"", None)], at, NOW_MS) for at in range(150)]
    null_key = encode_records([Record(0, NOW_MS, None, b"x", (("h", b"1"),))])
    odd = encode_records(RECORDS)
    packed = encode_records(RECORDS, compression=Compression.ZSTD)
    marker = encode_marker(5, NOW_MS, 77, 2, commit=True)
    buffer = b"".join([*plain, null_key, packed, odd, marker])
    seen = list(iterate_pairs(buffer))
    assert [header is None for header, _ in seen] == [True, False, True, False]
    assert seen[1][0] == read_header(packed)
    assert seen[3][0] == read_header(marker)
    expected = []
    for position, header in iterate_batches(buffer):
        expected += decode_pairs(buffer, header, position)
    assert [pair for _, pairs in seen for pair in pairs] == expected


def test_bulk_reading_refuses_what_is_cut_off() -> None:
    batch = encode_batch([(b"key", b"value")], 0, NOW_MS)
    for length in range(1, len(batch)):
        with pytest.raises(MalformedFrame):
            list(iterate_pairs(batch[:length]))


def test_a_header_that_is_cut_off_or_too_short_is_refused() -> None:
    batch = encode_batch([(b"key", b"value")], 0, NOW_MS)
    for length in range(61):
        with pytest.raises(MalformedFrame, match="cut off"):
            read_header(batch[:length])
    with pytest.raises(MalformedFrame, match="less than a header"):
        read_header(patched(batch, 8, ">i", 48))
    with pytest.raises(MalformedFrame, match="magic 3"):
        read_header(batch[:16] + b"\x03" + batch[17:])
