"""The recorder holds no event loop, and neither a slow disk nor a full one stops the broker."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.recording import recorder as module
from coterie.recording.files import read
from coterie.recording.format import Kind
from coterie.recording.recorder import Recorder
from coterie.server.workers import Done, Workers
from coterie.virtual.environment import SeededEnvironment
from tests.unit.recording.written import LIMITS, START_MS, header, request
from tests.unit.server.manual import RecordingLog

FRAME = request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4).data


class SlowWorker:
    """Does nothing until it is stopped."""

    run_all = None
    idle = False

    def __init__(self) -> None:
        self.work: list[tuple[Iterator[object], Done]] = []

    def submit(self, steps: Iterator[object], done: Done) -> None:
        self.work.append((steps, done))

    def stop(self) -> None:
        for steps, _ in self.work:
            for _ in steps:
                pass
        self.work.clear()


class Environment(SeededEnvironment):
    def __init__(self, worker: SlowWorker | None) -> None:
        loop = asyncio.get_running_loop()
        self.recording_log = RecordingLog()
        super().__init__(
            loop, self.recording_log.as_logger(), 1, now_ms=lambda: START_MS, monotonic_s=loop.time
        )
        self.worker = worker

    def workers(self, name: str, threads: int) -> Workers:
        return self.worker or super().workers(name, threads)


def kinds(path: Path) -> list[Kind]:
    return [entry.kind for entry in read(str(path)).entries]


def run(tmp_path: Path, story: Callable[[Recorder], None], worker: SlowWorker | None) -> str:
    """Tell a story to a recorder, close it, and return what was logged."""
    logged = ""

    async def work() -> None:
        nonlocal logged
        environment = Environment(worker)
        recorder = Recorder(environment, str(tmp_path / "r"), header(), LIMITS)
        story(recorder)
        recorder.close()
        await asyncio.sleep(0)
        logged = str(environment.recording_log.lines)

    asyncio.run(work())
    return logged


def test_what_waits_is_written_at_the_end(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        number = recorder.opened("peer")
        recorder.sent(number, FRAME, by_client=True)
        recorder.closed(number)

    run(tmp_path, story, None)
    assert kinds(tmp_path / "r") == [Kind.OPENED, Kind.REQUEST, Kind.CLOSED]


def test_slow_disk_gives_up_connections_instead_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[recording/slow-disk]"""
    monkeypatch.setattr(module, "_FLUSH_BYTES", 1)
    monkeypatch.setattr(module, "_WAITING_BYTES", 3_000)

    def story(recorder: Recorder) -> None:
        first, second = recorder.opened("a"), recorder.opened("b")
        for _ in range(100):
            recorder.sent(first, FRAME, by_client=True)
        recorder.closed(first)
        recorder.sent(second, FRAME, by_client=True)

    logged = run(tmp_path, story, SlowWorker())
    found = kinds(tmp_path / "r")
    assert 5 < found.count(Kind.REQUEST) < 15
    assert found[-3:] == [Kind.LOST, Kind.CLOSED, Kind.LOST]
    assert "the disk is too slow" in logged


def test_disk_that_fails_ends_the_recording_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def story(recorder: Recorder) -> None:
        monkeypatch.setattr("coterie.recording.files.RotatingFile.write", fail)
        recorder.sent(recorder.opened("a"), FRAME, by_client=True)

    assert "No space left on device" in run(tmp_path, story, None)
    assert kinds(tmp_path / "r") == []
