"""Segments that Apache Kafka 4.3.1 wrote (tests/golden/segments) are read and written alike."""

from pathlib import Path

import pytest

from coterie.protocol.control_records import encode_marker
from coterie.protocol.newest_records import PairLayouts
from coterie.protocol.records import (
    Compression,
    Marker,
    Record,
    check_crc,
    decode_records,
    encode_batch,
    iterate_batches,
    read_marker,
)
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.unit.storage.conftest import Place

GOLDEN = Path(__file__).parent.parent.parent / "golden" / "segments"
FOX = " the quick brown fox jumps over the lazy dog the quick brown fox"


def copied(name: str, *, zeros: int = 0, indexes: bool = True) -> Place:
    """Return a golden directory in memory, with zeros at the end of its indexes.

    Kafka leaves such zeros after a crash.
    """
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/data")
    place = Place(filesystem, "/data")
    for path in sorted((GOLDEN / name).iterdir()):
        is_index = path.suffix in (".index", ".timeindex")
        if indexes or not is_index:
            place.write(path.name, path.read_bytes() + bytes(zeros if is_index else 0))
    return place


def opened(place: Place, config: LogConfig | None = None) -> Log:
    log = Log.open(place.filesystem, place.directory, config)
    assert log.tail_cut is None
    return log


def records_of(log: Log) -> list[Record]:
    records = []
    for chunk in log.chunks():
        for position, header in iterate_batches(chunk):
            assert check_crc(chunk, header, position)
            records += decode_records(chunk, header, position)
    return records


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_compressed_by_javas_producer_are_read(name: str) -> None:
    log = opened(copied(name))
    codecs = {header.compression for chunk in log.chunks() for _, header in iterate_batches(chunk)}
    assert codecs == {Compression[name.upper()]}
    records = records_of(log)
    assert [(record.offset, record.key) for record in records] == [
        (at, b"key-%d" % at) for at in range(40)
    ]
    assert records[0].value == b"value-0"
    assert records[0].headers == (("h1", b"first"), ("h2", b"second"))
    for at, record in enumerate(records[1:], 1):
        assert record.value == f"value-{at}{FOX}".encode()
        assert record.headers == (("n", b"%d" % at),)
    assert log.epochs.entries == [(0, 0)]
    for record in records:
        later = [each for each in records if each.timestamp_ms >= record.timestamp_ms]
        found = log.offset_for_timestamp(record.timestamp_ms)
        assert found == (later[0].timestamp_ms, later[0].offset)


@pytest.mark.parametrize("zeros", [0, 24 * 1000])
@pytest.mark.parametrize("indexes", [True, False])
def test_a_rolled_log_is_read_with_kafkas_indexes_and_without(zeros: int, indexes: bool) -> None:
    log = opened(copied("rolled", zeros=zeros, indexes=indexes))
    assert [segment.base_offset for segment in log.segments] == [0, 38, 72, 106]
    records = records_of(log)
    assert [record.key for record in records] == [b"key-%d" % at for at in range(120)]
    for record in records:
        data = log.read(record.offset, 1)
        (_, header), *more = iterate_batches(data)
        assert header.base_offset <= record.offset <= header.last_offset
        assert not more
        later = [each for each in records if each.timestamp_ms >= record.timestamp_ms]
        found = log.offset_for_timestamp(record.timestamp_ms)
        assert found == (later[0].timestamp_ms, later[0].offset)
    assert log.max_timestamp() == max(
        ((each.timestamp_ms, each.offset) for each in records), key=lambda pair: (pair[0], -pair[1])
    )


def test_our_indexes_have_kafkas_bytes() -> None:
    place = copied("rolled", indexes=False)
    log = opened(place, LogConfig(index_interval_bytes=300))
    for segment in log.segments:
        segment.max_timestamp()
    log.close()
    for path in sorted((GOLDEN / "rolled").glob("*index")):
        expected = path.read_bytes()
        if path.name.startswith("00000000000000000106"):
            # Kafka had not closed this segment. Our close adds the greatest timestamp.
            expected = expected.rstrip(b"\0")
            assert place.read(path.name).startswith(expected)
            continue
        assert place.read(path.name) == expected, path.name


def test_appending_the_same_batches_writes_the_same_files() -> None:
    source = opened(copied("rolled"))
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/data")
    place = Place(filesystem, "/data")
    log = opened(place, LogConfig(index_interval_bytes=300))
    for segment in source.segments:
        log.roll()
        chunk = b"".join(source.chunks(segment.base_offset))
        for position, header in iterate_batches(chunk):
            if header.base_offset < segment.next_offset:
                log.append(chunk[position : position + header.length_bytes])
    log.close()
    for path in sorted((GOLDEN / "rolled").iterdir()):
        if path.suffix != ".metadata" and not path.name.startswith("00000000000000000106"):
            read = place.read_plain if path.name.endswith("checkpoint") else place.read
            assert read(path.name) == path.read_bytes(), path.name


def test_a_transaction_and_its_markers_are_read() -> None:
    log = opened(copied("txn"))
    (chunk,) = log.chunks()
    seen = []
    for position, header in iterate_batches(chunk):
        for record in decode_records(chunk, header, position):
            assert header.is_transactional
            seen.append(read_marker(record) if header.is_control else record.value)
    assert seen == [b"committed-1", b"committed-2", Marker(True, 0), b"aborted", Marker(False, 0)]


def test_our_writer_makes_the_bytes_of_kafkas_coordinator() -> None:
    log = opened(copied("offsets"))
    (chunk,) = log.chunks()
    plain = 0
    for position, header in iterate_batches(chunk):
        batch = chunk[position : position + header.length_bytes]
        records = decode_records(batch, header)
        if header.is_control:
            marker = read_marker(records[0])
            assert marker is not None
            again = encode_marker(
                header.base_offset,
                header.max_timestamp_ms,
                header.producer_id,
                header.producer_epoch,
                commit=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
            )
        else:
            plain += not header.is_transactional
            again = encode_batch(
                [(record.key or b"", record.value) for record in records],
                header.base_offset,
                header.max_timestamp_ms,
                attributes=header.attributes,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
            )
        assert again == batch
    assert plain == 9


def test_the_offsets_partition_is_loaded() -> None:
    log = opened(copied("offsets"))
    layouts = PairLayouts(frozenset({b"\0\1", b"\0\2"}))
    newest: dict[bytes, bytes] = {}
    keys, headers = [], []
    for chunk in log.chunks():
        for header, pairs in layouts.take_newest(chunk, newest):
            keys += [key for key, _ in pairs]
            headers += [header] if header else []
    # Nine plain batches of one record, then two transactional batches, each with its marker.
    assert layouts.records == 13
    assert [header.is_control for header in headers] == [False, True, False, True]
    assert {b"\x00\x02\x00\x06golden", b"\x00\x01\x00\x06golden\x00\x09gold-none\0\0\0\0"} <= {
        *keys,
        *newest,
    }
