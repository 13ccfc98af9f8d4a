"""Group commit on a disk whose syncs take a given time: `python -m benchmarks.slow_disk`.

The flusher and the logs are the broker's, over the operating system's files, with a pause in each
sync of a file; there are no sockets. Every committer appends one record and appends the next when
it is durable. Each row is measured with the write-ahead log and without it.
"""

import asyncio
import os
import tempfile
import time
from pathlib import Path

import click

from coterie.protocol.records import encode_batch
from coterie.server.environment import Environment
from coterie.server.logging import make_logger
from coterie.server.logs.flusher import Flusher, FlushMode
from coterie.storage.directory import DataDirectory
from coterie.storage.filesystem import OsFile, OsFileSystem
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig

_COMMIT = FlushMode(commit=True, interval_ms=None)
_KEY, _VALUE = bytes(40), bytes(40)


class _SlowFile(OsFile):
    pause_s = 0.0

    def sync(self) -> None:
        super().sync()
        time.sleep(self.pause_s)


class _SlowFileSystem(OsFileSystem):
    def open(self, path: str) -> OsFile:
        return _SlowFile(os.open(path, os.O_RDWR | os.O_CLOEXEC))

    def create(self, path: str, *, private: bool = False) -> OsFile:
        super().create(path, private=private).close()
        return self.open(path)


class _Load:
    """Committers in a closed loop over some logs."""

    def __init__(self, logs: list[Log], flusher: Flusher, committers: int) -> None:
        self._logs = logs
        self._flusher = flusher
        self._committers = committers
        self.waited_s: list[float] = []
        self.is_over = False
        self.drained = asyncio.Event()
        self._waiting = 0

    def begin(self) -> None:
        for number in range(self._committers):
            self._append(self._logs[number % len(self._logs)])

    def _append(self, log: Log) -> None:
        began_s = time.perf_counter()

        def durable(error: Exception | None) -> None:
            assert error is None, "the disk is slow, not broken"
            self.waited_s.append(time.perf_counter() - began_s)
            self._waiting -= 1
            if not self.is_over:
                self._append(log)
            elif not self._waiting:
                self.drained.set()

        self._waiting += 1
        log.append(encode_batch([(_KEY, _VALUE)], log.log_end_offset, 0))
        self._flusher.appended(log, durable)


async def _measure(path: str, partitions: int, seconds: float, *, write_ahead: bool) -> _Load:
    environment = Environment.of_process(make_logger())
    directory = DataDirectory.open(
        _SlowFileSystem(), path, node_id=1, cluster_id="c", directory_id="d", durable=True,
        new_file_id=environment.new_file_id if write_ahead else None,
    )  # fmt: skip
    directory.create_partitions("t", range(partitions), os.urandom(16))
    logs = [directory.open_log("t", number, LogConfig(flush=True)) for number in range(partitions)]
    flusher = Flusher(environment, _COMMIT, lambda _, error: None)
    flusher.write_ahead = directory.write_ahead
    load = _Load(logs, flusher, 256)
    load.begin()
    await asyncio.sleep(seconds)
    load.is_over = True
    await load.drained.wait()
    flusher.stop()
    directory.close()
    return load


@click.command()
@click.option("--pauses-ms", default="0,1,5", show_default=True, help="The time of a sync.")
@click.option("--seconds", default=3.0, show_default=True, help="For each row.")
def main(*, pauses_ms: str, seconds: float) -> None:
    """Measure 256 committers over 1 and 50 partitions."""
    click.echo("sync  partitions  write-ahead   commits/s    p50 ms    p99 ms  CPU us/commit")
    for pause_ms in map(float, pauses_ms.split(",")):
        _SlowFile.pause_s = pause_ms / 1000
        for partitions, write_ahead in ((1, False), (50, False), (50, True)):
            with tempfile.TemporaryDirectory(dir=Path.cwd()) as path:
                cpu_s = time.process_time()
                load = asyncio.run(_measure(path, partitions, seconds, write_ahead=write_ahead))
                cpu_s = time.process_time() - cpu_s
            waited = sorted(load.waited_s)
            count = len(waited)
            p50, p99 = waited[count // 2] * 1000, waited[count * 99 // 100] * 1000
            click.echo(
                f"{pause_ms:4.1f}  {partitions:10}  {'yes' if write_ahead else 'no':>11}"
                f"  {count / seconds:10,.0f}  {p50:8.1f}  {p99:8.1f}  {cpu_s / count * 1e6:13.1f}"
            )


if __name__ == "__main__":
    main()
