"""Files as macOS and Windows have them: their syncs and locks."""

import errno
import fcntl
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from coterie.storage import file_sync
from coterie.storage.filesystem import OsFileSystem
from tests.without import msvcrt


class _Syncs:
    """Counts the calls that sync a file, on a system that has F_FULLFSYNC and no fdatasync."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
        self.calls: list[str] = []
        self._error = error
        monkeypatch.delattr(os, "fdatasync", raising=False)
        monkeypatch.setattr(os, "fsync", lambda _: self.calls.append("fsync"))
        monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
        monkeypatch.setattr(fcntl, "fcntl", self._control)

    def _control(self, _: int, command: int) -> int:
        assert command == 51
        self.calls.append("F_FULLFSYNC")
        if self._error:
            raise OSError(self._error, os.strerror(self._error))
        return 0


def test_macos_flushes_the_cache_of_the_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = _Syncs(monkeypatch, 0)
    file = OsFileSystem().create(f"{tmp_path}/a")
    file.sync()
    file.close()
    OsFileSystem().sync_directory(str(tmp_path))
    assert syncs.calls == ["F_FULLFSYNC", "F_FULLFSYNC"]


def test_file_system_that_cannot_flush_its_drive_is_synced_in_the_usual_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = _Syncs(monkeypatch, errno.ENOTSUP)
    OsFileSystem().sync_directory(str(tmp_path))
    assert syncs.calls == ["F_FULLFSYNC", "fsync"]


def test_a_failed_flush_is_not_repeated_in_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[log/fail-stop]"""
    syncs = _Syncs(monkeypatch, errno.EIO)
    file = OsFileSystem().create(f"{tmp_path}/a")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        file.sync()
    file.close()
    assert syncs.calls == ["F_FULLFSYNC"]


def test_without_any_of_them_files_are_synced_by_fsync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.delattr(os, "fdatasync", raising=False)
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    file = OsFileSystem().create(f"{tmp_path}/a")
    file.sync()
    file.close()
    assert len(synced) == 1


def test_directories_that_cannot_be_opened_are_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise PermissionError(errno.EACCES, "a directory")

    monkeypatch.delattr(os, "O_DIRECTORY", raising=False)
    monkeypatch.setattr(os, "open", refuse)
    file_sync.sync_directory("C:/data")


def test_windows_locks_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[log/directory-lock]"""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", msvcrt)
    path = f"{tmp_path}/.lock"
    lock = OsFileSystem().lock(path)
    assert lock is not None
    assert lock.held()
    assert OsFileSystem().lock(path) is None
    lock.release()
    again = OsFileSystem().lock(path)
    assert again is not None
    again.release()
