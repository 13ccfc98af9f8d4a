"""What a start does with write-ahead files: replay, removal, and what it leaves alone."""

import struct
from itertools import count

import pytest

from coterie.protocol.checksum import crc32c
from coterie.protocol.records import encode_batch
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import CorruptLog
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.write_ahead_format import (
    BLOCK_BYTES,
    FILE_PREFIX,
    ID_BYTES,
    Entry,
    decode_frames,
    parse_file_name,
)
from coterie.storage.write_ahead_log import WriteAheadLog
from coterie.storage.write_ahead_recovery import Replayed

NAMES = ("t-0", "t-1", "t-2")


def open_directory(filesystem: MemoryFileSystem) -> DataDirectory:
    ids = count(1)
    return DataDirectory.open(
        filesystem, "data", node_id=1, cluster_id="c", directory_id="d",
        durable=True, new_file_id=lambda: next(ids).to_bytes(ID_BYTES),
    )  # fmt: skip


class Machine:
    """A data directory with three partitions; the segments can lose what was not synced."""

    def __init__(self, *, compacted: bool = False) -> None:
        self.filesystem = MemoryFileSystem()
        self.config = LogConfig(flush=True, segment_bytes=400, compacted=compacted)
        self.directory = open_directory(self.filesystem)
        self.directory.create_partitions("t", range(len(NAMES)), b"\1" * 16)
        self.logs = self.open_logs()

    def open_logs(self) -> list[Log]:
        numbers = range(len(NAMES))
        return [self.directory.open_log("t", number, self.config) for number in numbers]

    @property
    def write_ahead(self) -> WriteAheadLog:
        assert self.directory.write_ahead is not None
        return self.directory.write_ahead

    def append(self, *numbers: int, key: bytes = b"key", now_ms: int = 0) -> None:
        """Append a batch to logs, which are then durable."""
        logs = [self.logs[number] for number in numbers]
        for log in logs:
            log.append(encode_batch([(key, b"value")], log.log_end_offset, now_ms))
        frame = self.write_ahead.begin(logs)
        assert frame is not None
        assert set(frame.logs) == set(logs)
        frame.run()
        self.write_ahead.end(frame, None)

    def append_alone(self, number: int, *, key: bytes, now_ms: int) -> None:
        """Append a batch to one log, which is then synced by itself."""
        log = self.logs[number]
        log.append(encode_batch([(key, b"value")], log.log_end_offset, now_ms))
        log.sync()

    def bytes_of(self, number: int, base_offset: int = 0) -> bytes:
        file = self.filesystem.open(self.path(number, base_offset))
        return file.read(0, file.size())

    def path(self, number: int, base_offset: int = 0) -> str:
        return f"data/t-{number}/{base_offset:020d}.log"

    def lose_power(self) -> None:
        """Let the directory be opened on another boot; tests lose bytes themselves."""
        self.directory._lock.release()
        self.filesystem.boot += " and again"

    def write_first_format(self) -> None:
        """Write the write-ahead files anew, as versions before segments had identities did."""
        for name in self.filesystem.list("data"):
            file_id = parse_file_name(name)
            if file_id is None:
                continue
            file = self.filesystem.open(f"data/{name}")
            entries = decode_frames(file_id, file.read(0, file.size()))
            file = self.filesystem.create(f"data/{name}")
            file.write(0, first_format(file_id, entries))

    def start(self) -> Replayed:
        self.directory = open_directory(self.filesystem)
        self.logs = self.open_logs()
        names = self.filesystem.list("data")
        assert not any(name.startswith(FILE_PREFIX) for name in names)
        return self.directory.replayed


def first_format(file_id: bytes, entries: list[Entry]) -> bytes:
    """Return a frame of the first format, as its version has written it."""
    body = b"".join(
        struct.pack(">16siqqI", *each.partition_id, each.base_offset, each.position, len(each.data))
        + each.data
        for each in entries
    )
    checked = struct.pack(">IQ", len(body), 0) + body
    checked += bytes(-(20 + len(checked)) % BLOCK_BYTES)
    return b"CotrWal1" + file_id + crc32c(checked).to_bytes(4, "big") + checked


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.mark.parametrize("is_first_format", [False, True], ids=["format 2", "format 1"])
def test_lost_appends_are_written_again(machine: Machine, is_first_format: bool) -> None:
    machine.append(0, 1)
    machine.append(1, 2)
    before = [machine.bytes_of(number) for number in range(3)]
    if is_first_format:
        machine.write_first_format()
    machine.lose_power()
    for number in range(3):
        machine.filesystem.open(machine.path(number)).truncate(0)
    assert machine.start() == Replayed(files=1, entries=4, skipped=0)
    assert [machine.bytes_of(number) for number in range(3)] == before
    assert [log.log_end_offset for log in machine.logs] == [1, 2, 1]


def test_appends_to_several_segments_are_written_again(machine: Machine) -> None:
    for _ in range(9):
        machine.append(0, 1)
    last = machine.logs[0].segments[-1].base_offset
    assert last > 4
    machine.lose_power()
    machine.filesystem.open(machine.path(0, last)).truncate(0)
    machine.start()
    assert [log.log_end_offset for log in machine.logs] == [9, 9, 0]


def test_a_removed_segment_is_skipped(machine: Machine) -> None:
    for _ in range(9):
        machine.append(0, 1)
    machine.directory.delete_records("t", 0, 9)
    machine.lose_power()
    assert machine.start().skipped > 0
    assert (machine.logs[0].log_start_offset, machine.logs[0].log_end_offset) == (9, 9)


def test_a_topic_of_the_same_name_gets_nothing(machine: Machine) -> None:
    machine.append(0, 1, 2)
    machine.directory.delete_topic("t")
    machine.directory.create_partitions("t", range(len(NAMES)), b"\2" * 16)
    machine.lose_power()
    assert machine.start() == Replayed(files=1, entries=0, skipped=3)
    assert [log.log_end_offset for log in machine.logs] == [0, 0, 0]


def test_a_log_that_another_software_has_continued_is_left_as_it_is(machine: Machine) -> None:
    """A Kafka that does not know the write-ahead log cut the end off and appended its own."""
    machine.append(0, 1, 2)
    machine.lose_power()
    foreign = encode_batch([(b"foreign", b"other")], 0, 5)
    file = machine.filesystem.open(machine.path(0))
    file.truncate(0)
    file.write(0, foreign)
    assert machine.start() == Replayed(files=1, entries=2, skipped=1)
    assert machine.bytes_of(0) == foreign


def test_records_are_not_added_to_others_of_the_same_length(machine: Machine) -> None:
    machine.append_alone(0, key=b"key", now_ms=0)
    machine.append(0, 1)
    size = len(machine.bytes_of(0)) // 2
    machine.lose_power()
    foreign = encode_batch([(b"key", b"other")], 0, 7)
    assert len(foreign) == size
    file = machine.filesystem.open(machine.path(0))
    file.truncate(0)
    file.write(0, foreign)
    assert machine.start() == Replayed(files=1, entries=1, skipped=1)
    assert machine.bytes_of(0) == foreign


def test_a_closed_segment_whose_sync_was_in_vain_is_written_again(machine: Machine) -> None:
    """The kernel had reported the error to a sync that ran at the same time, and to it alone."""
    for _ in range(9):
        machine.append(0, 1)
    assert machine.logs[0].segments[-1].base_offset > 4
    before = machine.bytes_of(0)
    machine.lose_power()
    machine.filesystem.open(machine.path(0)).write(100, bytes(200))
    assert machine.start().skipped == 0
    assert machine.bytes_of(0) == before


def test_a_segment_that_another_software_has_ended_is_not_made_longer(machine: Machine) -> None:
    machine.append(0, 1)
    machine.append(0, 1)
    size = len(machine.bytes_of(0)) // 2
    machine.lose_power()
    machine.filesystem.open(machine.path(0)).truncate(size)
    new = machine.filesystem.create(machine.path(0, 1))
    new.write(0, encode_batch([(b"foreign", b"other")], 1, 5))
    assert machine.start() == Replayed(files=1, entries=3, skipped=1)
    assert len(machine.bytes_of(0)) == size
    assert [log.log_end_offset for log in machine.logs] == [2, 2, 0]


def test_after_the_mark_of_a_clean_stop_nothing_is_replayed(machine: Machine) -> None:
    machine.append(0, 1)
    machine.filesystem.create("data/.kafka_cleanshutdown")
    machine.lose_power()
    assert machine.start() == Replayed(files=1, entries=0, skipped=0)


def test_a_damaged_frame_before_a_valid_one_stops_the_start(machine: Machine) -> None:
    machine.append(0, 1)
    machine.append(0, 1)
    (name,) = [each for each in machine.filesystem.list("data") if each.startswith(FILE_PREFIX)]
    file = machine.filesystem.open(f"data/{name}")
    file.write(100, bytes([file.read(100, 1)[0] ^ 1]))
    machine.lose_power()
    with pytest.raises(CorruptLog, match=f"data/{name}: damaged at byte 0"):
        machine.start()


def test_a_log_whose_directory_does_not_name_its_topic_is_synced_itself(machine: Machine) -> None:
    machine.directory.close()
    machine.filesystem.make_directory("data/old-0")
    machine.filesystem.create("data/old-0/00000000000000000000.log")
    machine.start()
    machine.directory.take_id("old", b"\3" * 16)
    old = machine.directory.open_log("old", 0, LogConfig(flush=True))
    logs = [*machine.logs, old]
    for log in logs:
        log.append(encode_batch([(b"key", b"value")], log.log_end_offset, 0))
    frame = machine.write_ahead.begin(logs)
    assert frame is not None
    assert set(frame.logs) == set(machine.logs)


def test_segments_with_records_in_a_file_are_not_replaceable(machine: Machine) -> None:
    log = machine.logs[0]
    for _ in range(7):
        machine.append(0, 1)
    assert log.segments[-1].base_offset > 0
    assert log.write_ahead.replaceable_end == 0
    assert machine.write_ahead.rotate()
    machine.append(0, 1)
    while (step := machine.write_ahead.next_step()) is not None:
        step.run()
        machine.write_ahead.end_step(step, None)
    assert log.write_ahead.replaceable_end == log.segments[-1].base_offset
    assert log.synced_offset == 8
