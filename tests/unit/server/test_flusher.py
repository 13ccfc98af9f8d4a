"""When appends are durable: group commit, intervals, and a disk that fails."""

import threading

import pytest

from coterie.protocol.records import encode_batch
from coterie.server.logs.flusher import Flusher, FlushMode, parse_flush_mode
from coterie.storage.log import Log, LogConfig
from coterie.storage.memory_filesystem import MemoryFile, MemoryFileSystem
from tests.unit.server.manual import COMMIT, NEVER, ManualLoop


def make_log(name: str = "t-0") -> Log:
    filesystem = MemoryFileSystem()
    filesystem.make_directory(name)
    return Log.open(filesystem, name, LogConfig(flush=True))


def append(log: Log) -> None:
    log.append(encode_batch([(b"k", b"v")], log.log_end_offset, 0))


def settle(loop: ManualLoop, flusher: Flusher) -> None:
    """Turn the loop until nobody waits."""
    loop.turn()
    while not flusher.idle:
        loop.turn()


class Disk:
    """Syncs as told, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.syncs = 0
        self.threads: set[str] = set()
        self.go = threading.Event()
        self.go.set()
        self.error: OSError | None = None
        monkeypatch.setattr(MemoryFile, "sync", lambda _file: self.sync())

    def sync(self) -> None:
        if threading.current_thread().name == "coterie-flusher":
            self.go.wait(10)
            self.syncs += 1
        if self.error is not None:
            raise self.error


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_modes() -> None:
    assert parse_flush_mode("never") == NEVER
    assert parse_flush_mode("commit") == COMMIT
    assert parse_flush_mode("interval:50") == FlushMode(commit=False, interval_ms=50)
    assert [str(parse_flush_mode(text)) for text in ("never", "commit", "interval:50")] == [
        "never",
        "commit",
        "interval:50",
    ]
    for text in ("", "sometimes", "interval", "interval:", "interval:0", "interval:x"):
        with pytest.raises(ValueError, match="never, commit, interval:MS"):
            parse_flush_mode(text)


def test_one_sync_for_everything_appended_meanwhile(disk: Disk) -> None:
    loop, told = ManualLoop(), []
    flusher = Flusher(loop, COMMIT, lambda *_: None)  # type: ignore[arg-type]
    log = make_log()
    disk.go.clear()
    append(log)
    flusher.appended(log, lambda error: told.append(("first", error)))
    loop.turn()
    for _ in range(5):
        append(log)
        flusher.appended(log, lambda error: told.append(("later", error)))
        loop.turn()
    assert told == []
    disk.go.set()
    settle(loop, flusher)
    assert told == [("first", None)] + [("later", None)] * 5
    assert disk.syncs == 2
    assert log.synced_offset == log.log_end_offset
    flusher.stop()


def test_appends_of_one_turn_share_a_sync(disk: Disk) -> None:
    loop, told = ManualLoop(), []
    flusher = Flusher(loop, COMMIT, lambda *_: None)  # type: ignore[arg-type]
    logs = [make_log(), make_log("t-1")]
    for log in logs * 3:
        append(log)
        flusher.appended(log, told.append)
    settle(loop, flusher)
    assert told == [None] * 6
    assert disk.syncs == 2  # one a log
    flusher.stop()


def test_a_disk_that_fails_is_told_to_waiters_and_owner(disk: Disk) -> None:
    loop, told, failed = ManualLoop(), [], []
    flusher = Flusher(loop, COMMIT, lambda log, error: failed.append((log, error)))  # type: ignore[arg-type]
    good, bad = make_log(), make_log("t-1")
    append(good)
    append(bad)
    flusher.appended(good, lambda error: told.append(("good", error)))
    settle(loop, flusher)
    disk.error = OSError(5, "Input/output error")
    flusher.appended(bad, lambda error: told.append(("bad", error)))
    settle(loop, flusher)
    assert told == [("good", None), ("bad", disk.error)]
    assert failed == [(bad, disk.error)]
    assert bad.failed
    # A log that has failed is told again, at once: nothing is ever synced after an error.
    disk.error = None
    flusher.appended(bad, lambda error: told.append(("again", error)))
    settle(loop, flusher)
    assert told[-1][0] == "again"
    assert told[-1][1] is not None
    flusher.stop()


def test_an_interval_syncs_now_and_then(disk: Disk) -> None:
    loop = ManualLoop()
    flusher = Flusher(loop, FlushMode(commit=False, interval_ms=100), lambda *_: None)  # type: ignore[arg-type]
    log = make_log()
    for _ in range(10):
        append(log)
        flusher.appended(log)
        loop.advance(5)
    assert disk.syncs == 0
    loop.advance(100)
    settle(loop, flusher)
    assert (disk.syncs, log.synced_offset) == (1, 10)
    flusher.stop()


def test_never_syncs_nothing_and_starts_no_thread(disk: Disk) -> None:
    loop = ManualLoop()
    flusher = Flusher(loop, NEVER, lambda *_: None)  # type: ignore[arg-type]
    log = make_log()
    append(log)
    flusher.appended(log)
    loop.turn()
    assert flusher.idle
    assert disk.syncs == 0
    assert "coterie-flusher" not in {thread.name for thread in threading.enumerate()}
    flusher.stop()
