"""A log in one file: what a crash may leave of it, and what is damage."""

import errno
import os
from pathlib import Path

import pytest

from coterie.protocol.record_batch_layout import LEADER_EPOCH_AT, MAGIC_AT
from coterie.storage.errors import CorruptLog, LogFailed
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.record_file import COPY_SUFFIX, RecordFile
from coterie.storage.system_files import system_files
from coterie.storage.torn_tail import TailTrust
from tests.faulty_filesystem import FaultyFileSystem

PATH = "log"


def written(*appends: list[bytes]) -> tuple[MemoryFileSystem, list[int]]:
    """Return a file system with a log, and where each append ends."""
    filesystem = MemoryFileSystem()
    log = RecordFile(filesystem, PATH, durable=True)
    ends = [0]
    for values in appends:
        log.append(values, now_ms=7)
        ends.append(log.size_bytes)
    log.close()
    return filesystem, ends


def read(filesystem: MemoryFileSystem, trust: TailTrust) -> list[bytes]:
    return RecordFile(filesystem, PATH, durable=True).read(trust)


def contents(filesystem: MemoryFileSystem) -> bytes:
    file = filesystem.open(PATH)
    return file.read(0, file.size())


def test_records_come_back_in_order() -> None:
    filesystem, _ = written([b"a", b"b"], [b"c"])
    for trust in TailTrust:
        assert read(filesystem, trust) == [b"a", b"b", b"c"]


def test_appends_go_on_behind_what_was_read() -> None:
    filesystem, _ = written([b"a", b"b"])
    log = RecordFile(filesystem, PATH, durable=True)
    assert log.read(TailTrust.CLEAN) == [b"a", b"b"]
    log.append([b"c"], now_ms=8)
    log.close()
    assert read(filesystem, TailTrust.CLEAN) == [b"a", b"b", b"c"]


def test_without_an_append_there_is_no_file() -> None:
    filesystem = MemoryFileSystem()
    log = RecordFile(filesystem, PATH, durable=True)
    assert log.read(TailTrust.POWER_LOST) == []
    log.sync()
    log.close()
    assert not filesystem.exists(PATH)


@pytest.mark.parametrize(
    "trust", [TailTrust.PROCESS_DIED, TailTrust.POWER_LOST, TailTrust.POWER_LOST_UNSYNCED]
)
def test_a_write_that_was_cut_anywhere_counts_wholly_or_not(trust: TailTrust) -> None:
    whole, ends = written([b"a", b"b"], [b"c", b"d"])
    data = contents(whole)
    for size in range(len(data)):
        filesystem = MemoryFileSystem()
        filesystem.create(PATH).write(0, data[:size])
        expected = [b"a", b"b"] if size >= ends[1] else []
        log = RecordFile(filesystem, PATH, durable=True)
        assert log.read(trust) == expected
        assert log.size_bytes + log.cut_bytes == size
        log.append([b"e"], now_ms=9)
        log.close()
        assert read(filesystem, TailTrust.CLEAN) == [*expected, b"e"]


@pytest.mark.parametrize("trust", list(TailTrust))
def test_a_changed_byte_before_the_last_write_is_damage(trust: TailTrust) -> None:
    whole, ends = written([b"a" * 9], [b"b" * 9])
    data = contents(whole)
    # The leader epoch is not covered by the checksum, and does not matter here.
    for at in {*range(ends[1])} - {*range(LEADER_EPOCH_AT, MAGIC_AT)}:
        changed = bytearray(data)
        changed[at] ^= 0x40
        filesystem = MemoryFileSystem()
        filesystem.create(PATH).write(0, bytes(changed))
        if trust is TailTrust.POWER_LOST_UNSYNCED:
            # Nothing was promised.
            assert read(filesystem, trust) == []
        else:
            with pytest.raises(CorruptLog, match=PATH):
                read(filesystem, trust)


def test_zeros_at_the_end_are_cut_after_a_loss_of_power_only() -> None:
    filesystem, ends = written([b"a"])
    filesystem.open(PATH).write(ends[-1], bytes(200))
    with pytest.raises(CorruptLog):
        read(filesystem, TailTrust.PROCESS_DIED)
    assert read(filesystem, TailTrust.POWER_LOST) == [b"a"]
    assert read(filesystem, TailTrust.CLEAN) == [b"a"]


@pytest.mark.skipif(os.name == "nt", reason="Windows ignores the modes of files")
def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    path = f"{tmp_path}/log"
    before = os.umask(0)
    try:
        log = RecordFile(system_files(), path, durable=True)
        log.append([b"secret"], now_ms=0)
        copy = log.copy()
        for _ in copy.write_copy([b"secret"], now_ms=0):
            assert os.stat(copy.path).st_mode & 0o777 == 0o600
    finally:
        os.umask(before)
    assert os.stat(path).st_mode & 0o777 == 0o600
    log.replace(copy)
    log.close()
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["log"]


def test_damage_of_a_copy_is_not_taken_for_an_interrupted_write() -> None:
    filesystem = MemoryFileSystem()
    log = RecordFile(filesystem, PATH, durable=True)
    copy = log.copy()
    for _ in copy.write_copy([b"one", b"two", b"three"], now_ms=1):
        pass
    log.replace(copy)
    log.close()
    file = filesystem.open(PATH)
    file.write(70, b"x")
    with pytest.raises(CorruptLog):
        read(filesystem, TailTrust.POWER_LOST)


def test_a_copy_takes_the_place_of_the_file() -> None:
    filesystem, _ = written([b"old"])
    log = RecordFile(filesystem, PATH, durable=True)
    log.read(TailTrust.CLEAN)
    copy = log.copy()
    for _ in copy.write_copy([b"new"] * 1_001, now_ms=1):
        pass
    log.replace(copy)
    log.append([b"last"], now_ms=2)
    log.close()
    assert read(filesystem, TailTrust.CLEAN) == [b"new"] * 1_001 + [b"last"]


def test_a_copy_that_a_crash_has_left_is_removed() -> None:
    filesystem, _ = written([b"a"])
    filesystem.create(PATH + COPY_SUFFIX).write(0, b"half a copy")
    assert read(filesystem, TailTrust.PROCESS_DIED) == [b"a"]
    assert not filesystem.exists(PATH + COPY_SUFFIX)


def test_after_a_failed_write_nothing_more_is_written() -> None:
    faulty = FaultyFileSystem(MemoryFileSystem())
    log = RecordFile(faulty, PATH, durable=True)
    log.append([b"a"], now_ms=0)
    faulty.fail_at("write", 1)
    with pytest.raises(LogFailed):
        log.append([b"b"], now_ms=0)
    with pytest.raises(LogFailed):
        log.append([b"c"], now_ms=0)
    with pytest.raises(LogFailed):
        log.close()


def test_a_file_that_cannot_be_made_now_is_made_later() -> None:
    faulty = FaultyFileSystem(MemoryFileSystem())
    log = RecordFile(faulty, PATH, durable=True)
    faulty.fail_at("create", 1, errno.EMFILE)
    with pytest.raises(LogFailed):
        log.append([b"a"], now_ms=0)
    log.append([b"b"], now_ms=0)
    log.close()
    assert RecordFile(faulty, PATH, durable=True).read(TailTrust.CLEAN) == [b"b"]
