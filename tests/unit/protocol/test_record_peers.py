"""Batches against independent codecs: kafka-python's and aiokafka's, both directions."""

import struct
import zlib

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder as AioLegacyBuilder
from kafka.record.default_records import DefaultRecordBatch as PyBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as PyBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder as PyLegacyBuilder

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.records import (
    Compression,
    Record,
    check_crc,
    compress,
    decode_records,
    decompress,
    encode_batch,
    encode_records,
    iterate_batches,
    read_header,
    record_timestamps,
)
from tests.record_batches import with_append_time

NOW_MS = 1_700_000_000_000
RECORDS = [
    Record(0, NOW_MS, b"key", b"value", (("first", b"1"), ("second", b""))),
    Record(1, NOW_MS + 1, None, b"v" * 3000, ()),
    Record(2, NOW_MS - 70, b"k" * 100, None, (("third", None),)),
]
PLAIN = [record._replace(headers=()) for record in RECORDS]


def theirs(batch: object) -> list[Record]:
    """The records that a peer's reader finds in a batch."""
    return [
        Record(each.offset, each.timestamp, each.key, each.value, tuple(map(tuple, each.headers)))
        for each in batch  # type: ignore[attr-defined]
    ]


@pytest.mark.parametrize("compression", list(Compression))
def test_we_and_aiokafka_read_each_other(compression: Compression) -> None:
    ours = encode_records(RECORDS, compression=compression)
    batch = AioBatch(ours)
    assert batch.validate_crc()
    assert theirs(batch) == RECORDS
    builder = AioBuilder(2, int(compression), 0, -1, -1, -1, 1 << 20)
    for offset, timestamp_ms, key, value, headers in RECORDS:
        builder.append(offset, timestamp_ms, key, value, list(headers))
    built = bytes(builder.build())
    header = read_header(built)
    assert check_crc(built, header)
    assert decode_records(built, header) == RECORDS
    if compression is Compression.NONE:
        # The leader epoch is the only field in which the two encoders may differ.
        assert ours[:12] + ours[16:] == built[:12] + built[16:]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_we_and_kafka_python_read_each_other(compression: Compression) -> None:
    ours = encode_records(RECORDS, compression=compression)
    batch = PyBatch(ours)
    assert batch.validate_crc()
    assert theirs(batch) == RECORDS
    builder = PyBuilder(2, int(compression), False, -1, -1, -1, 1 << 20)
    for offset, timestamp_ms, key, value, headers in RECORDS:
        builder.append(offset, timestamp_ms, key, value, list(headers))
    built = bytes(builder.build())
    header = read_header(built)
    assert check_crc(built, header)
    assert decode_records(built, header) == RECORDS


def test_both_peers_read_the_coordinators_batches() -> None:
    ours = encode_batch([(b"key", b"value"), (b"removed", None)], 41, NOW_MS)
    for batch in (AioBatch(ours), PyBatch(ours)):
        assert batch.validate_crc()
        assert theirs(batch) == [
            Record(41, NOW_MS, b"key", b"value"),
            Record(42, NOW_MS, b"removed", None),
        ]


def test_both_peers_agree_on_log_append_time() -> None:
    ours = with_append_time(encode_records(RECORDS), NOW_MS + 9)
    for batch in (AioBatch(ours), PyBatch(ours)):
        assert batch.validate_crc()
        assert theirs(batch) == decode_records(ours, read_header(ours))


def legacy(kind: type, magic: int, compression: int) -> bytes:
    builder = kind(magic, compression, 1 << 20)
    for offset, timestamp_ms, key, value, _ in PLAIN:
        if kind is AioLegacyBuilder:
            builder.append(offset, timestamp_ms if magic else None, key, value)
        else:
            builder.append(offset, timestamp_ms, key, value)
    built = bytearray(builder.build())
    if compression:
        # A producer leaves it to the broker to write the last offset here.
        built[:8] = len(PLAIN[1:]).to_bytes(8, "big")
    return bytes(built)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    ("kind", "compression"),
    [(PyLegacyBuilder, 0), (PyLegacyBuilder, 1)]
    + [(AioLegacyBuilder, codec) for codec in range(3)],
)
def test_message_sets_of_magic_0_and_1_are_read(kind: type, magic: int, compression: int) -> None:
    buffer = legacy(kind, magic, compression)
    records = []
    stamps = []
    for position, header in iterate_batches(buffer):
        assert header.magic == magic
        assert header.compression == compression
        assert check_crc(buffer, header, position)
        records += decode_records(buffer, header, position)
        stamps += list(record_timestamps(buffer, header, position))
    expected = PLAIN if magic else [record._replace(timestamp_ms=-1) for record in PLAIN]
    assert records == expected
    assert stamps == [(record.timestamp_ms, record.offset) for record in expected]


def test_lz4_is_read_in_magic_1_and_with_the_wrong_checksum_of_magic_0() -> None:
    assert lz4_wrapped(1) == PLAIN
    assert lz4_wrapped(0) == [record._replace(timestamp_ms=-1) for record in PLAIN]


def lz4_wrapped(magic: int) -> list[Record]:
    """The records read from an LZ4 wrapper; for magic 0 no peer writes one (KAFKA-3160)."""
    frame = compress(Compression.LZ4, legacy(AioLegacyBuilder, magic, 0))
    if magic == 0:
        # Kafka's checksum included the frame's magic bytes. Any other wrong byte serves as well.
        end = 14 if frame[4] & 0x08 else 6
        frame = frame[:end] + bytes((frame[end] ^ 0xFF,)) + frame[end + 1 :]
        with pytest.raises(MalformedFrame):
            decompress(Compression.LZ4, frame)
    form = ">bbqii" if magic else ">bbii"
    stamps = [NOW_MS] if magic else []
    tail = struct.pack(form, magic, 3, *stamps, -1, len(frame)) + frame
    wrapper = struct.pack(">qiI", 2, len(tail) + 4, zlib.crc32(tail)) + tail
    header = read_header(wrapper)
    assert check_crc(wrapper, header)
    return decode_records(wrapper, header)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_message_of_magic_1_has_the_last_offset(magic: int) -> None:
    moved = bytearray(legacy(AioLegacyBuilder, magic, 1))
    moved[:8] = (1002).to_bytes(8, "big")
    (_, header), *_ = iterate_batches(bytes(moved))
    offsets = [record.offset for record in decode_records(bytes(moved), header)]
    # In magic 0 the inner offsets are absolute and the wrapper's is not used.
    assert offsets == ([1000, 1001, 1002] if magic else [0, 1, 2])


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", [0, 1, 2])
def test_damaged_message_sets_raise_one_exception(magic: int, compression: int) -> None:
    buffer = legacy(AioLegacyBuilder, magic, compression)
    (_, first), *_ = iterate_batches(buffer)
    entry = buffer[: first.length_bytes]
    for position in range(12, len(entry), 1 if len(entry) < 400 else 13):
        damaged = bytearray(entry)
        damaged[position] ^= 0x41
        try:
            header = read_header(bytes(damaged))
            if check_crc(bytes(damaged), header):
                decode_records(bytes(damaged), header)
                pytest.fail(f"no check covers byte {position}")
            decode_records(bytes(damaged), header)
        except MalformedFrame:
            continue
    for length in range(len(entry)):
        with pytest.raises(MalformedFrame):
            decode_records(entry[:length], first)
