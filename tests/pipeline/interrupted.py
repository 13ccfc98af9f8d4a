"""Interrupt `coterie pipeline run` at many moments, and count the processes that remain.

    python -m tests.pipeline.interrupted            twenty moments of a run with Spark
    python -m tests.pipeline.interrupted 40

The moments are spread over the time that a whole run needs on this machine. Every process of a run
has a variable in its environment by which it is found.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import NamedTuple

from tests.pipeline.jobs.written import NOW_MS, Directory

_MARK = "COTERIE_TEST_INTERRUPTED"
# A JVM that notices the end of its run has to finish its start first.
GONE_WITHIN_S = 60.0
_RUN_WITHIN_S = 300.0
# A process that is just being started has no environment to be found by for a moment.
_LOOKS_WITHOUT_A_PROCESS = 10


class Ended(NamedTuple):
    """An interrupted run: its exit code, what it printed, and the processes that remained."""

    code: int
    errors: str
    remaining: list[str]
    seconds: float


class Run:
    """A run of the command in a process of its own."""

    def __init__(self, directory: Path, engine: str = "spark") -> None:
        self.mark = uuid.uuid4().hex
        self.temporary = directory / self.mark
        self.temporary.mkdir()
        self._began_s = time.monotonic()
        # The errors go to a file: a pipe that nobody reads could stop the run.
        self._errors = self.temporary / "errors"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "coterie", "pipeline", "run",
                    "--input", data(directory), "--output", str(self.temporary / "out"),
                    "--engine", engine,
                ],
                env={**os.environ, _MARK: self.mark, "TMPDIR": str(self.temporary)},
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )  # fmt: skip

    def wait_for_jvm(self) -> None:
        """Wait until another process of the run exists."""
        deadline_s = time.monotonic() + GONE_WITHIN_S
        while not self.others() and time.monotonic() < deadline_s:
            assert self.process.poll() is None, self._errors.read_text()
            time.sleep(0.02)

    def others(self) -> list[str]:
        """Return the command lines of the run's processes but its first."""
        return [line for pid, line in _marked(self.mark) if pid != self.process.pid]

    def end(self, number: signal.Signals | None = None) -> Ended:
        """Send a signal, if one is given, and wait until all processes are gone."""
        if number is not None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(_RUN_WITHIN_S)
            seconds = time.monotonic() - self._began_s
            # After a SIGKILL nobody is left to end the others: they do it themselves.
            patience_s = GONE_WITHIN_S if number == signal.SIGKILL else 2.0
            remaining = self._remaining(time.monotonic() + patience_s)
        finally:
            for pid, _ in _marked(self.mark):
                os.kill(pid, signal.SIGKILL)
        return Ended(code, self._errors.read_text(), remaining, seconds)

    def _remaining(self, deadline_s: float) -> list[str]:
        """Return the processes that are not gone before a deadline, none after many looks."""
        remaining: list[str] = []
        looks = 0
        while looks < _LOOKS_WITHOUT_A_PROCESS:
            remaining = self.others()
            if remaining and time.monotonic() > deadline_s:
                break
            looks = 0 if remaining else looks + 1
            time.sleep(0.05)
        return remaining

    def leftovers(self) -> list[str]:
        """Return the temporary files that the run has left."""
        return [each.name for each in self.temporary.glob("coterie-*")]


def data(directory: Path) -> str:
    """Return a small data directory, which is written once."""
    path = directory / "data"
    if not path.exists():
        written = Directory(path, "cluster-1")
        written.generation("orders", 1, NOW_MS, one="a-0")
        written.commit("orders", "a-0", 5, NOW_MS + 10)
        written.write()
    return str(path)


def _marked(mark: str) -> list[tuple[int, str]]:
    """Return the processes with a mark in their environment, and their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found.append((int(entry.name), line.decode(errors="replace")[:120]))
            except OSError:
                continue
    return found


def main() -> None:
    moments = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory(prefix="coterie-interrupted-") as name:
        directory = Path(name)
        whole_s = Run(directory).end().seconds
        print(f"a whole run takes {whole_s:.1f} s")
        bad = 0
        for number in range(moments):
            at_s = whole_s * (number + 0.5) / moments
            sent = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)[number % 3]
            run = Run(directory)
            time.sleep(at_s)
            ended = run.end(sent)
            bad += bool(ended.remaining)
            print(
                f"{sent.name} after {at_s:4.1f} s: exit code {ended.code}, ended after"
                f" {ended.seconds:.1f} s, {len(ended.remaining)} processes remain"
            )
            if ended.remaining or ended.code not in (0, -sent, 128 + sent):
                print(*ended.remaining, ended.errors, sep="\n")
    print(f"{bad} of {moments} runs left processes")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
