"""The flusher with the write-ahead log: many logs by one sync, settling, and errors."""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partialmethod
from itertools import count

import pytest

from coterie.protocol.records import encode_batch
from coterie.server.logs.flusher import RESUME_AFTER_S, SETTLE_AFTER_S, Flusher
from coterie.storage.directory import DataDirectory
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.memory_filesystem import MemoryFile, MemoryFileSystem
from coterie.storage.write_ahead_format import FILE_PREFIX, ID_BYTES
from coterie.storage.write_ahead_log import WriteAheadLimits, WriteAheadLog
from tests.unit.server.manual import COMMIT, ManualEnvironment
from tests.unit.server.manual_loop import ManualLoop

LOGS = 5
SETTLE_AFTER_MS = int(SETTLE_AFTER_S * 1000)


class Bench:
    """A flusher with several logs, and a disk that counts syncs and may fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.filesystem = MemoryFileSystem()
        self.loop = ManualLoop()
        self.failed: list[tuple[Log, Exception]] = []
        self.unused: list[Exception] = []
        self.answers: list[Exception | None] = []
        self.syncs = 0
        # Called at each sync of the flusher.
        self.on_sync: Callable[[MemoryFile], None] = lambda _: None
        self.directory = self.open()
        self.directory.create_partitions("t", range(LOGS), b"\1" * 16)
        self.logs = [self.open_log(number) for number in range(LOGS)]
        self.flusher = Flusher(
            ManualEnvironment(self.loop),
            COMMIT,
            lambda log, error: self.failed.append((log, error)),
        )
        self.flusher.write_ahead = self.write_ahead
        self.flusher.write_ahead_failed = self.unused.append
        # A bound method would not get the file.
        monkeypatch.setattr(MemoryFile, "sync", partialmethod(Bench._sync_of, self))

    def open(self) -> DataDirectory:
        ids = count(1)
        return DataDirectory.open(
            self.filesystem, "data", node_id=1, cluster_id="c", directory_id="d",
            durable=True, new_file_id=lambda: next(ids).to_bytes(ID_BYTES),
        )  # fmt: skip

    def open_log(self, number: int) -> Log:
        return self.directory.open_log("t", number, LogConfig(flush=True))

    @property
    def write_ahead(self) -> WriteAheadLog:
        assert self.directory.write_ahead is not None
        return self.directory.write_ahead

    @property
    def files(self) -> list[str]:
        """The names of the write-ahead files."""
        return [name for name in self.filesystem.list("data") if name.startswith(FILE_PREFIX)]

    @staticmethod
    def _sync_of(file: MemoryFile, bench: "Bench") -> None:
        if threading.current_thread().name == "coterie-flusher":
            bench.syncs += 1
            bench.on_sync(file)

    def append(self, *numbers: int, value: bytes = b"v") -> None:
        """Append to logs, to be answered when that is durable."""
        for number in numbers:
            log = self.logs[number]
            log.append(encode_batch([(b"k", value)], log.log_end_offset, 0))
            self.flusher.appended(log, self.answers.append)

    def wait(self) -> None:
        """Turn the loop until everything is answered."""
        self.until(lambda: self.flusher.idle)

    def settle(self) -> None:
        """Let time pass until the write-ahead file is settled."""
        self.loop.advance(SETTLE_AFTER_MS)
        self.until(lambda: self.write_ahead.is_empty or self.write_ahead.stopped)

    def until(self, condition: Callable[[], bool]) -> None:
        """Turn the loop until a condition is true."""
        self.loop.turn()
        while not condition():
            # The thread is faster if this one does not compete with it.
            time.sleep(0.0005)
            self.loop.turn()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    bench = Bench(monkeypatch)
    yield bench
    bench.flusher.stop()


def test_a_turn_of_many_logs_is_one_sync(bench: Bench) -> None:
    for _ in range(3):
        bench.append(*range(LOGS))
        bench.wait()
    assert bench.answers == [None] * 3 * LOGS
    assert bench.syncs == 3
    assert [log.synced_offset for log in bench.logs] == [0] * LOGS
    assert len(bench.files) == 1


def test_a_turn_of_one_log_syncs_its_own_file(bench: Bench) -> None:
    bench.append(2)
    bench.wait()
    assert bench.logs[2].synced_offset == 1
    assert bench.files == []


def test_many_bytes_are_not_written_twice(bench: Bench) -> None:
    bench.write_ahead.limits = WriteAheadLimits(frame_bytes=1000)
    bench.append(0, value=bytes(1000))
    bench.append(1, 2)
    bench.wait()
    assert [log.synced_offset for log in bench.logs] == [1, 0, 0, 0, 0]
    assert bench.answers == [None] * 3
    assert bench.syncs == 2


def test_a_file_is_settled_when_it_is_old(bench: Bench) -> None:
    bench.append(0, 1)
    bench.wait()
    bench.settle()
    assert [log.synced_offset for log in bench.logs] == [1, 1, 0, 0, 0]
    assert bench.files == []
    assert bench.loop.timers == 0
    bench.append(0, 1)
    bench.wait()
    assert len(bench.files) == 1


def test_a_file_is_settled_when_it_is_full(bench: Bench) -> None:
    bench.write_ahead.limits = WriteAheadLimits(file_bytes=1000)
    for _ in range(4):
        bench.append(0, 1)
        bench.wait()
    bench.until(lambda: len(bench.files) <= 1)
    assert bench.logs[0].synced_offset > 0
    assert bench.answers == [None] * 8


def test_turns_go_on_while_a_file_is_settled(bench: Bench) -> None:
    bench.append(*range(LOGS))
    bench.wait()
    bench.loop.advance(SETTLE_AFTER_MS)
    while not bench.write_ahead.is_empty:
        bench.append(*range(LOGS))
        bench.wait()
        bench.loop.advance(SETTLE_AFTER_MS)
        bench.append(0)
        bench.wait()
        bench.settle()
    assert set(bench.answers) == {None}
    assert all(log.synced_offset == log.log_end_offset for log in bench.logs)


def test_after_an_error_of_the_write_ahead_log_each_log_is_synced(bench: Bench) -> None:
    segments = [bench.filesystem.open(log.segments[-1].path) for log in bench.logs]
    error = OSError(28, "No space left on device")

    def fail(file: MemoryFile) -> None:
        if file not in segments:
            raise error

    bench.on_sync = fail
    bench.append(0, 1)
    bench.wait()
    assert bench.answers == [None, None]
    assert bench.unused == [error]
    assert [log.synced_offset for log in bench.logs[:2]] == [1, 1]
    bench.on_sync = lambda _: None
    bench.append(0, 1)
    bench.wait()
    assert [log.synced_offset for log in bench.logs[:2]] == [2, 2], "not used for some time"
    bench.loop.advance(int(RESUME_AFTER_S * 1000))
    bench.append(0, 1)
    bench.wait()
    assert [log.synced_offset for log in bench.logs[:2]] == [2, 2], "used again"
    assert bench.answers == [None] * 6
    assert bench.failed == []


def test_a_log_that_cannot_be_settled_keeps_its_records(bench: Bench) -> None:
    bench.append(0, 1)
    bench.wait()
    error = OSError(5, "Input/output error")

    def fail(_: MemoryFile) -> None:
        raise error

    bench.on_sync = fail
    bench.settle()
    assert bench.failed == [(bench.logs[0], error)]
    assert bench.write_ahead.stopped
    assert len(bench.files) == 1
    # The other logs go on, and are synced one by one.
    bench.on_sync = lambda _: None
    bench.append(2, 3)
    bench.wait()
    assert bench.answers == [None] * 4
    assert [log.synced_offset for log in bench.logs[2:4]] == [1, 1]
    bench.flusher.stop()
    bench.directory.close()
    assert len(bench.files) == 1, "for the next start"
    bench.directory = bench.open()
    assert bench.directory.replayed.entries == 2
    assert bench.files == []
    assert [bench.open_log(number).log_end_offset for number in range(2)] == [1, 1]


def test_a_deleted_log_needs_no_sync(bench: Bench) -> None:
    bench.append(0, 1)
    bench.wait()
    bench.append(0, 1)
    bench.directory.delete_topic("t")
    for log in bench.logs:
        bench.flusher.forget(log)
    bench.wait()
    bench.settle()
    assert bench.answers == [None] * 4
    assert (bench.failed, bench.unused, bench.files) == ([], [], [])


def test_a_clean_stop_leaves_no_write_ahead_file(bench: Bench) -> None:
    bench.append(0, 1)
    bench.wait()
    bench.flusher.stop()
    bench.directory.close()
    assert bench.files == []
    bench.directory = bench.open()
    assert bench.directory.replayed.files == 0
