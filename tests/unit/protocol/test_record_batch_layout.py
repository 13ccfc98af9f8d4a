"""The derived layout of the header against Kafka's numbers (`DefaultRecordBatch`, `Records`)."""

import struct

from coterie.protocol import record_batch_layout as layout
from coterie.protocol.records import BatchHeader


def test_positions_are_kafkas() -> None:
    positions = [layout.position_of(name) for name, _ in layout.HEADER_FIELDS]
    assert positions == [0, 8, 12, 16, 17, 21, 23, 27, 35, 43, 51, 53, 57]
    assert (layout.HEADER_BYTES, layout.LOG_OVERHEAD_BYTES) == (61, 12)
    assert (layout.HEADER_UP_TO_MAGIC_BYTES, layout.CRC_START) == (17, 21)
    assert layout.LEGACY_MIN_BYTES == (26, 34)


def test_structs_of_some_fields_read_the_fields_of_the_whole_header() -> None:
    header = layout.HEADER.pack(1, 2, 3, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13)
    assert layout.APPEND_FIELDS.unpack_from(header) == (1, 2, 3, 2, 7, 9, 10)
    assert layout.SCAN_FIELDS.unpack_from(header) == (1, 2, 2, 5, 7, 9)
    assert layout.OFFSETS_AND_TIME.unpack_from(header) == (1, 7, 9)
    assert layout.LENGTH.unpack_from(header) == (2,)
    assert layout.LENGTH.size == layout.LOG_OVERHEAD_BYTES


def test_the_batch_header_has_the_fields_of_the_layout() -> None:
    names = [name for name, _ in layout.HEADER_FIELDS]
    assert [name.removesuffix("_bytes") for name in BatchHeader._fields] == names
    for name, character in layout.HEADER_FIELDS:
        at = layout.position_of(name)
        data = bytearray(layout.HEADER_BYTES)
        struct.pack_into(f">{character}", data, at, 1)
        assert layout.HEADER.unpack(data)[names.index(name)] == 1
