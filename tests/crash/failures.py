"""Every call failing in turn: the first one of a story, the second, until a run has none left.

A failing call raises once; every later call is fine again, which is what makes it dangerous. A
write may have written nothing, a part, or all before it fails; a sync that fails leaves what it was
asked for uncertain for good. After it the story stops where the error comes out, or goes on. Then
the machine dies or loses its power, and what was acknowledged is there.
"""

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
from tests.crash.restart import Restarts, Wrong, check
from tests.crash.scenarios import STORIES, Stage
from tests.faulty_filesystem import FaultyFileSystem


class Fault(NamedTuple):
    """How a call fails: its errno, and how much of a write is written all the same."""

    number: int
    written_bytes: int


FAULTS = {
    "EIO": Fault(errno.EIO, 0),
    "ENOSPC": Fault(errno.ENOSPC, 0),
    "EINTR": Fault(errno.EINTR, 0),
    "short write": Fault(errno.ENOSPC, 40),
    "written and failed": Fault(errno.EIO, 1 << 30),
}


def fail_call(story: str, n: int, fault: Fault, *, flush: bool) -> tuple[Stage, bool]:
    """Tell a story with its n-th call failing; what is left, and whether there was such a call.

    Raises:
        Wrong: something was acknowledged, or written, by a log that had failed.
        Exception: another error than one about the disk.
    """
    stage = Stage(flush=flush, wrap=FaultyFileSystem)
    faulty: FaultyFileSystem = stage.filesystem
    stage.begins = lambda: faulty.fail_at("any", n, fault.number, fault.written_bytes)
    try:
        STORIES[story](stage)
    except (StorageError, OSError) as error:
        _stays_failed(stage, error)
    return stage, faulty.failed > 0


def _stays_failed(stage: Stage, error: Exception) -> None:
    """A log that has failed says so to everybody from now on."""
    node: Node | None = getattr(stage, "node", None)
    if node is None:
        return
    logs = list(node.directory._logs.values())
    if isinstance(error, LogFailed) and logs and not any(log.failed for log in logs):
        raise Wrong(f"no log stays failed after: {error}")
    for log in logs:
        if not log.failed:
            continue
        before = stage.recorder.disk.identity()
        for verb in (
            lambda log=log: log.append(encode_batch([(b"k", b"late")], 0, node.now_ms)),
            log.sync,
            log.roll,
        ):
            try:
                verb()
            except StorageError:
                continue
            raise Wrong(f"{log.directory} has failed and goes on")
        if stage.recorder.disk.identity() != before:
            raise Wrong(f"{log.directory} has failed and writes")


def crashes_after(stage: Stage) -> Iterator[Crash]:
    """The disks that a crash leaves, once the story has stopped."""
    operations = stage.recorder.operations
    end = len(operations)
    yield from deaths(stage.base, operations, end, end)
    if stage.flush:
        yield from power_losses(stage.base, operations, end, end, most=2)


def shorten_call(story: str, n: int, *, flush: bool) -> bool:
    """Tell a story on real files, with the n-th read or write of the kernel a short one.

    Returns:
        Whether there was such a call.

    Raises:
        Wrong: a restart does not find all of it.
    """
    with tempfile.TemporaryDirectory() as place, ShortCalls(n) as calls:
        rooted = RootedFileSystem(OsFileSystem(), place)
        stage = Stage(flush=flush, wrap=lambda _: rooted)
        STORIES[story](stage)
        stage.die()
        found = Restarts(flush=flush).start_on(rooted)
        check(found, stage.history, 0)
        return calls.left <= 0


class ShortCalls:
    """Makes one call of `os.pread` or `os.pwrite` do less than asked, as the kernel may."""

    def __init__(self, n: int) -> None:
        self.left = n
        self._pread, self._pwrite = os.pread, os.pwrite

    def __enter__(self) -> Self:
        os.pread, os.pwrite = self._read, self._write  # type: ignore[assignment]
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
    """A file system whose paths are below a directory of another one."""

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root
        self.operations: list[Any] = []

    def boot_id(self) -> str:
        return "one boot"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._filesystem, name)

        def rooted(*paths: str) -> Any:
            return method(*(self._root + path for path in paths))

        return rooted
