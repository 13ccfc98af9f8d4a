"""Every call of a scenario fails in turn: the first one, the second, until there are no more.

A failing call raises once, and later calls succeed, which is what makes the failure dangerous. A
write may write nothing, a part, or everything before it fails. A failed sync leaves the writes
before it uncertain for good. The scenario stops where the error is raised, or continues. Then the
process dies or power is lost, and everything that was acknowledged must be there [log/fail-stop].
"""

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

from coterie.protocol.records import encode_batch
from coterie.storage.errors import LogFailed, StorageError
from coterie.storage.filesystem import OsFileSystem
from tests.crash.losses import Crash, deaths, power_losses
from tests.crash.node import Node
from tests.crash.restart import NEW_KEY, NEW_VALUE, Restarts, Wrong, check
from tests.crash.scenario_run import ScenarioRun
from tests.crash.scenarios import SCENARIOS
from tests.faulty_filesystem import FaultyFileSystem


class Fault(NamedTuple):
    """How a call fails: its errno, and how many bytes of a write are written all the same."""

    number: int
    written_bytes: int


FAULTS = {
    "EIO": Fault(errno.EIO, 0),
    "ENOSPC": Fault(errno.ENOSPC, 0),
    "EINTR": Fault(errno.EINTR, 0),
    "short write": Fault(errno.ENOSPC, 40),
    "written and failed": Fault(errno.EIO, 1 << 30),
    "EMFILE": Fault(errno.EMFILE, 0),
}


def fail_call(scenario: str, n: int, fault: Fault, *, flush: bool) -> tuple[ScenarioRun, bool]:
    """Run a scenario whose n-th call fails; return the run, and whether there was such a call.

    Raises:
        Wrong: a log that had failed has written or acknowledged something.
        Exception: an error that is not about the disk.
    """
    run = ScenarioRun(flush=flush, wrap=FaultyFileSystem)
    faulty: FaultyFileSystem = run.filesystem
    is_shortage = fault.number == errno.EMFILE
    calls = "opening" if is_shortage else "any"
    run.begins = lambda: faulty.fail_at(calls, n, fault.number, fault.written_bytes)
    try:
        SCENARIOS[scenario](run)
    except (StorageError, OSError) as error:
        if is_shortage:
            _goes_on(run)
        else:
            _stays_failed(run, error)
    return run, faulty.failed > 0


def _goes_on(run: ScenarioRun) -> None:
    """Check that no log has failed for lack of a file handle, and use the group log further."""
    node: Node | None = getattr(run, "node", None)
    if node is None or not node.directory._logs:
        # The start or the stop has failed.
        return
    for log in node.directory._logs.values():
        # The transaction index is opened when its batch has been written already.
        if log.failed and not run.filesystem.failed_path.endswith(".txnindex"):
            raise Wrong(f"{log.directory} has failed for lack of a file handle")
    register, end_offset = run.history.groups, node.log_of_groups.log_end_offset
    known = [number for number, (end, _) in enumerate(register.states) if end == end_offset]
    _, acknowledged, _ = register.moments[-1]
    if not known or known[-1] < acknowledged:
        raise Wrong(f"the log ends at {end_offset} after an operation that failed")
    register.settle(known[-1])
    node.put(NEW_KEY, NEW_VALUE)


def _stays_failed(run: ScenarioRun, error: Exception) -> None:
    """Check that a log that has failed refuses everything from now on."""
    node: Node | None = getattr(run, "node", None)
    if node is None:
        return
    logs = list(node.directory._logs.values())
    if isinstance(error, LogFailed):
        # A log that could not be opened is not among them.
        named = [log for log in logs if log.directory == error.directory]
        if not all(log.failed for log in named):
            raise Wrong(f"the log does not stay failed after: {error}")
    for log in logs:
        if not log.failed:
            continue
        before = run.recorder.disk.identity()
        for verb in (
            lambda log=log: log.append(encode_batch([(b"k", b"late")], 0, node.now_ms)),
            log.sync,
            log.roll,
        ):
            try:
                verb()
            except StorageError:
                continue
            raise Wrong(f"{log.directory} has failed and is still used")
        if run.recorder.disk.identity() != before:
            raise Wrong(f"{log.directory} has failed and writes")


def crashes_after(run: ScenarioRun) -> Iterator[Crash]:
    """Yield the disks that a crash may leave after the scenario."""
    operations = run.recorder.operations
    end = len(operations)
    yield from deaths(run.base, operations, end, end)
    if run.flush:
        yield from power_losses(run.base, operations, end, end, most=2)


def shorten_call(scenario: str, n: int, *, flush: bool) -> bool:
    """Run a scenario on real files, with a short n-th read or write of the kernel.

    Returns:
        Whether there was such a call.

    Raises:
        Wrong: a restart does not find everything.
    """
    with tempfile.TemporaryDirectory() as place, ShortCalls(n) as calls:
        rooted = RootedFileSystem(OsFileSystem(), place)
        run = ScenarioRun(flush=flush, wrap=lambda _: rooted)
        SCENARIOS[scenario](run)
        run.die()
        found = Restarts(flush=flush).start_on(rooted)
        check(found, run.history, 0)
        rooted.close_files()
        return calls.left <= 0


class ShortCalls:
    """Lets one call of `os.pread` or `os.pwrite` do less than it should, as the kernel may."""

    def __init__(self, n: int) -> None:
        self.left = n
        self._pread, self._pwrite = os.pread, os.pwrite

    def __enter__(self) -> Self:
        os.pread, os.pwrite = self._read, self._write
        return self

    def __exit__(self, *_: object) -> None:
        os.pread, os.pwrite = self._pread, self._pwrite

    def _is_due(self) -> bool:
        self.left -= 1
        return self.left == 0

    def _read(self, descriptor: int, length: int, position: int) -> bytes:
        return self._pread(descriptor, 1 if self._is_due() and length else length, position)

    def _write(self, descriptor: int, data: Any, position: int) -> int:
        if self._is_due() and len(data) > 1:
            data = memoryview(data)[:1]
        return self._pwrite(descriptor, data, position)


class RootedFileSystem:
    """A file system whose root is a directory of another one."""

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root
        self._closing: list[Callable[[], None]] = []
        self.operations: list[Any] = []

    def boot_id(self) -> str:
        return "one boot"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._filesystem, name)

        def rooted(*paths: str) -> Any:
            result = method(*(self._root + path for path in paths))
            if name in ("open", "create"):
                self._closing.append(result.close)
            elif name == "lock" and result is not None:
                self._closing.append(result.release)
            return result

        return rooted

    def close_files(self) -> None:
        """Close every file, as the kernel does when a process dies."""
        for close in self._closing:
            # Most are closed already, and are closed only once.
            with contextlib.suppress(AssertionError):
                close()
