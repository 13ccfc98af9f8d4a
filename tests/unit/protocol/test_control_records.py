"""The markers that end transactions, with the bytes that Kafka 4.3.1 writes.

Rules: [transactions/marker-batches].
"""

import pytest

from coterie.protocol.control_records import Marker, encode_marker, marker_of, read_marker
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.records import (
    Compression,
    Record,
    check_crc,
    decode_records,
    encode_batch,
    read_header,
)

NOW_MS = 1_700_000_000_000
# Offset 42, leader epoch 7, producer 5000 with epoch 3, coordinator epoch 9.
COMMIT = (
    "000000000000002a0000004200000007020efbadb20030000000000000018bcfe568000000018bcfe5680000000000"
    "000013880003ffffffff000000012000000008000000010c00000000000900"
)
ABORT = (
    "000000000000002a000000420000000702fac57bfa0030000000000000018bcfe568000000018bcfe5680000000000"
    "000013880003ffffffff000000012000000008000000000c00000000000900"
)


@pytest.mark.parametrize(("commit", "golden"), [(True, COMMIT), (False, ABORT)])
def test_markers_are_those_of_kafka(commit: bool, golden: str) -> None:
    batch = encode_marker(42, NOW_MS, 5000, 3, commit=commit, coordinator_epoch=9, leader_epoch=7)
    assert batch.hex() == golden
    header = read_header(batch)
    assert check_crc(batch, header)
    assert header.is_control
    assert header.is_transactional
    assert (header.base_sequence, header.last_sequence) == (-1, -1)
    (record,) = decode_records(batch, header)
    assert read_marker(record) == Marker(commit, 9)
    assert marker_of(b"xx" + batch, header, 2) == Marker(commit, 9)


def test_control_records_of_other_kinds_are_not_markers() -> None:
    assert read_marker(Record(0, 0, b"\0\0\0\x02", b"anything")) is None
    with pytest.raises(MalformedFrame, match="no key"):
        read_marker(Record(0, 0, b"\0\0", None))
    with pytest.raises(MalformedFrame, match="cut off"):
        read_marker(Record(0, 0, b"\0\0\0\x01", b"\0\0"))


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("value", [b"\0\0\0\0\0\x09", b"\0\0\0\0\0\x09 and more"])
def test_markers_of_other_forms_are_read(codec: Compression, value: bytes) -> None:
    batch = encode_batch([(b"\0\0\0\x01", value)], 1, NOW_MS, attributes=0x30 | codec)
    assert marker_of(batch, read_header(batch), 0) == Marker(commit=True, coordinator_epoch=9)


def test_batch_of_the_same_length_with_another_record_is_no_marker() -> None:
    other = encode_batch([(b"\0\0\0\x03", b"\0\0\0\0\0\x09")], 1, NOW_MS, attributes=0x30)
    assert marker_of(other, read_header(other), 0) is None
    shifted = encode_batch([(b"\0\0", b"\0\0\0\0\0\0\0\x09")], 1, NOW_MS, attributes=0x30)
    assert len(shifted) == len(other)
    with pytest.raises(MalformedFrame, match="no key"):
        marker_of(shifted, read_header(shifted), 0)
