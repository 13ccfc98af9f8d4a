"""The flusher: group commit, intervals, and failing syncs."""

import threading
from collections.abc import Callable

import pytest

from coterie.protocol.records import encode_batch
from coterie.server.logs.flusher import Flusher, FlushMode, parse_flush_mode
from coterie.server.slices import SLICE_S
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.memory_filesystem import MemoryFile, MemoryFileSystem
from tests.unit.server.manual import COMMIT, NEVER, ManualEnvironment
from tests.unit.server.manual_loop import ManualLoop


def make_log(name: str = "t-0") -> Log:
    filesystem = MemoryFileSystem()
    filesystem.make_directory(name)
    return Log.open(filesystem, name, LogConfig(flush=True))


def append(log: Log) -> None:
    log.append(encode_batch([(b"k", b"v")], log.log_end_offset, 0))


def settle(loop: ManualLoop, flusher: Flusher) -> None:
    """Turn the loop until everything is synced."""
    loop.turn()
    while not flusher.idle:
        loop.turn()


class Disk:
    """Replaces the sync of files: counts syncs, delays them, and lets them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.syncs = 0
        self.threads: set[str] = set()
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.error: OSError | None = None
        monkeypatch.setattr(MemoryFile, "sync", lambda _file: self.sync())

    def sync(self) -> None:
        if threading.current_thread().name == "coterie-flusher":
            self.may_sync.wait(60)
            self.syncs += 1
        if self.error is not None:
            raise self.error


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def make_flusher(
    loop: ManualLoop, mode: FlushMode, failed: list[tuple[Log, Exception]] | None = None
) -> Flusher:
    failures = [] if failed is None else failed
    return Flusher(ManualEnvironment(loop), mode, lambda log, error: failures.append((log, error)))


def test_parsing_of_modes() -> None:
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


def test_appends_during_a_sync_share_the_next_one(disk: Disk) -> None:
    loop = ManualLoop()
    calls: list[tuple[str, Exception | None]] = []
    flusher = make_flusher(loop, COMMIT)
    log = make_log()
    disk.may_sync.clear()
    append(log)
    flusher.appended(log, lambda error: calls.append(("first", error)))
    loop.turn()
    for _ in range(5):
        append(log)
        flusher.appended(log, lambda error: calls.append(("later", error)))
        loop.turn()
    assert calls == []
    disk.may_sync.set()
    settle(loop, flusher)
    assert calls == [("first", None)] + [("later", None)] * 5
    assert disk.syncs == 2
    assert log.synced_offset == log.log_end_offset
    flusher.stop()


def test_appends_of_one_turn_share_a_sync(disk: Disk) -> None:
    loop = ManualLoop()
    errors: list[Exception | None] = []
    flusher = make_flusher(loop, COMMIT)
    logs = [make_log(), make_log("t-1")]
    for log in logs * 3:
        append(log)
        flusher.appended(log, errors.append)
    settle(loop, flusher)
    assert errors == [None] * 6
    assert disk.syncs == 2, "one for each log"
    flusher.stop()


def test_failed_sync_is_reported_to_callbacks_and_broker(disk: Disk) -> None:
    loop = ManualLoop()
    calls: list[tuple[str, Exception | None]] = []
    failed: list[tuple[Log, Exception]] = []
    flusher = make_flusher(loop, COMMIT, failed)
    good, bad = make_log(), make_log("t-1")
    append(good)
    append(bad)
    flusher.appended(good, lambda error: calls.append(("good", error)))
    settle(loop, flusher)
    disk.error = OSError(5, "Input/output error")
    flusher.appended(bad, lambda error: calls.append(("bad", error)))
    settle(loop, flusher)
    assert calls == [("good", None), ("bad", disk.error)]
    assert failed == [(bad, disk.error)]
    assert bad.failed
    # Nothing is synced after an error: the failed log is reported again at once.
    disk.error = None
    flusher.appended(bad, lambda error: calls.append(("again", error)))
    settle(loop, flusher)
    assert calls[-1][0] == "again"
    assert calls[-1][1] is not None
    flusher.stop()


def test_a_callback_that_raises_does_not_keep_the_others_waiting(disk: Disk) -> None:
    loop = ManualLoop()
    calls: list[str] = []
    flusher = make_flusher(loop, COMMIT)
    logs = [make_log(), make_log("t-1")]

    def make_a_mistake(_error: Exception | None) -> None:
        calls.append("mistake")
        raise AssertionError("a mistake of ours")

    append(logs[0])
    flusher.appended(logs[0], make_a_mistake)
    flusher.appended(logs[0], lambda _: calls.append("same log"))
    append(logs[1])
    flusher.appended(logs[1], lambda _: calls.append("other log"))
    with pytest.raises(AssertionError, match="a mistake of ours"):
        settle(loop, flusher)
    settle(loop, flusher)
    assert calls == ["mistake", "same log", "other log"]
    append(logs[0])
    flusher.appended(logs[0], lambda _: calls.append("next sync"))
    settle(loop, flusher)
    assert calls[3:] == ["next sync"]
    flusher.stop()


def test_interval_syncs_once_an_interval(disk: Disk) -> None:
    loop = ManualLoop()
    flusher = make_flusher(loop, FlushMode(commit=False, interval_ms=100))
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


def test_never_does_not_sync_or_start_a_thread(disk: Disk) -> None:
    before = set(threading.enumerate())
    loop = ManualLoop()
    flusher = make_flusher(loop, NEVER)
    log = make_log()
    append(log)
    flusher.appended(log)
    loop.turn()
    assert flusher.idle
    assert disk.syncs == 0
    assert set(threading.enumerate()) <= before
    flusher.stop()


@pytest.mark.usefixtures("disk")
def test_callbacks_of_a_sync_are_called_in_slices() -> None:
    """[connections/turns]"""
    loop = ManualLoop()
    flusher = make_flusher(loop, COMMIT)
    logs = [make_log(), make_log("t-1")]
    now_s = 0.0
    called: list[tuple[Log, int]] = []
    flusher._slice_clock_s = lambda: now_s

    def callback(log: Log, number: int) -> Callable[[Exception | None], None]:
        def call(error: Exception | None) -> None:
            nonlocal now_s
            assert error is None
            now_s += SLICE_S / 4
            called.append((log, number))

        return call

    for number in range(10):
        for log in logs:
            append(log)
            flusher.appended(log, callback(log, number))
    counts = []
    while not flusher.idle:
        before = len(called)
        loop.turn_once()
        counts.append(len(called) - before)
    assert [count for count in counts if count] == [4] * 5
    assert called == [(log, number) for log in logs for number in range(10)]
    flusher.stop()


@pytest.mark.usefixtures("disk")
def test_log_that_is_forgotten_between_slices_is_called_back_once() -> None:
    loop = ManualLoop()
    flusher = make_flusher(loop, COMMIT)
    log = make_log()
    now_s = 0.0
    called: list[int] = []
    flusher._slice_clock_s = lambda: now_s

    def callback(number: int) -> Callable[[Exception | None], None]:
        def call(_error: Exception | None) -> None:
            nonlocal now_s
            now_s += SLICE_S
            called.append(number)

        return call

    append(log)
    for number in range(3):
        flusher.appended(log, callback(number))
    while not called:
        loop.turn_once()
    flusher.forget(log)
    assert called == [0, 1, 2]
    settle(loop, flusher)
    assert called == [0, 1, 2]
    flusher.stop()
