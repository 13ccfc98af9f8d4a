"""A file system whose n-th call of a kind fails, or every call for a time.

It wraps a real or an in-memory file system and counts the calls, so that a test can fail each of
them in turn. A failing write may write a part of its bytes first. If the wrapped file has a method
`sync_failed`, a failing sync calls it, so that the wrapped file system can treat the unsynced bytes
as uncertain whatever a later sync returns.
"""

import errno
from collections import Counter
from typing import Any

from coterie.storage.filesystem import File, FileSystem

WRITING = frozenset(
    {"create", "make_directory", "remove", "remove_directory", "rename", "sync", "sync_directory"}
    | {"truncate", "write"}
)
# The calls that need a file handle, and fail while a process cannot have another one.
OPENING = frozenset({"open", "create", "list", "sync_directory", "lock"})
_GROUPS = {"writing": WRITING, "opening": OPENING}


class FaultyFileSystem:
    """A file system that counts calls and fails some of them.

    Attributes:
        calls: how many calls of each kind were made; kinds are as in `fail_at`.
        failed: how many calls failed.
    """

    def __init__(self, filesystem: FileSystem) -> None:
        self.filesystem = filesystem
        self.calls: Counter[str] = Counter()
        self.failed = 0
        # The file whose call has failed, "" for a call of the file system.
        self.failed_path = ""
        self._kind = ""
        self._left = 0
        self._count = 0
        self._number = 0
        self._torn_bytes = 0

    def fail_at(self, kind: str, n: int, number: int = errno.EIO, torn_bytes: int = 0) -> None:
        """Make the n-th call of a kind from now on fail; the next call is number 1.

        Args:
            kind: a method's name, "writing" for every call that changes something, "opening" for
                every call that needs a file handle, or "any".
            n: which call; none if it is 0.
            number: the error number of the OSError.
            torn_bytes: how many bytes a failing write writes before it fails.
        """
        self.fail_from(kind, n, number, count=1)
        self._torn_bytes = torn_bytes

    def fail_from(
        self, kind: str, n: int, number: int = errno.EIO, count: int = 1_000_000_000
    ) -> None:
        """Make the n-th call of a kind and the `count` - 1 calls after it fail, as `fail_at`."""
        self._kind, self._left, self._number, self._torn_bytes = kind, n, number, 0
        self._count = count if n else 0

    def checked(self, kind: str, path: str = "") -> int:
        """Count a call, and raise if it must fail.

        Returns:
            How many bytes a write writes before it fails, or -1 if it succeeds.

        Raises:
            OSError: the call fails.
        """
        self.calls[kind] += 1
        self.calls["any"] += 1
        for name, kinds in _GROUPS.items():
            self.calls[name] += kind in kinds
        if self._kind in (kind, "any") or kind in _GROUPS.get(self._kind, ()):
            self._left -= 1
            if -self._count < self._left <= 0:
                self.failed += 1
                self.failed_path = path
                if kind == "write" and self._torn_bytes:
                    return self._torn_bytes
                raise self.error()
        return -1

    def error(self) -> OSError:
        return OSError(self._number, errno.errorcode[self._number])

    def open(self, path: str) -> File:
        self.checked("open", path)
        return FaultyFile(self, self.filesystem.open(path), path)

    def create(self, path: str, *, private: bool = False) -> File:
        self.checked("create", path)
        return FaultyFile(self, self.filesystem.create(path, private=private), path)

    def exists(self, path: str) -> bool:
        # No file system raises here: a path that cannot be examined does not exist.
        return self.filesystem.exists(path)

    def boot_id(self) -> str:
        return self.filesystem.boot_id()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.filesystem, name)

        def checked(*arguments: Any) -> Any:
            self.checked(name)
            return method(*arguments)

        return checked


class FaultyFile:
    """A file of a FaultyFileSystem."""

    def __init__(self, owner: FaultyFileSystem, file: File, path: str) -> None:
        self.owner = owner
        self.file = file
        self.path = path

    def write(self, position: int, data: bytes) -> None:
        torn_bytes = self.owner.checked("write", self.path)
        if torn_bytes >= 0:
            self.file.write(position, data[:torn_bytes])
            raise self.owner.error()
        self.file.write(position, data)

    def read(self, position: int, length: int) -> bytes:
        self.owner.checked("read", self.path)
        return self.file.read(position, length)

    def truncate(self, size: int) -> None:
        self.owner.checked("truncate", self.path)
        self.file.truncate(size)

    def sync(self) -> None:
        try:
            self.owner.checked("sync", self.path)
        except OSError:
            if hasattr(self.file, "sync_failed"):
                self.file.sync_failed()
            raise
        self.file.sync()

    def size(self) -> int:
        self.owner.checked("size", self.path)
        return self.file.size()

    def close(self) -> None:
        self.file.close()
