"""Both file systems behave in the same way; the real one completes every call, or raises."""

import errno
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from coterie.storage.filesystem import OsFileSystem
from coterie.storage.open_files import OpenFiles
from coterie.storage.system_files import system_files
from tests.unit.storage.conftest import Place

_POSITIONED = pytest.mark.skipif(
    not hasattr(os, "pread"), reason="test_other_systems.py has these tests for this system"
)


def test_bytes_are_read_where_they_were_written(place: Place) -> None:
    file = place.filesystem.create(f"{place.directory}/a")
    file.write(0, b"hello")
    file.write(7, b"world")
    assert file.size() == 12
    assert file.read(0, 100) == b"hello\0\0world"
    assert file.read(3, 5) == b"lo\0\0w"
    assert file.read(12, 5) == b""
    assert file.read(50, 5) == b""
    file.write(1, b"E")
    file.truncate(6)
    assert file.read(0, 100) == b"hEllo\0"
    file.truncate(8)
    assert file.read(0, 100) == b"hEllo\0\0\0"
    file.sync()
    file.close()
    assert place.read("a") == b"hEllo\0\0\0"
    assert place.filesystem.size(f"{place.directory}/a") == 8
    assert place.filesystem.create(f"{place.directory}/a").size() == 0


def test_names_are_made_moved_and_removed(place: Place) -> None:
    filesystem, top = place
    filesystem.make_directory(f"{top}/x/y")
    filesystem.make_directory(f"{top}/x/y")
    place.write("x/y/file", b"1")
    place.write("other", b"2")
    assert sorted(filesystem.list(top)) == ["other", "x"]
    filesystem.rename(f"{top}/x", f"{top}/z")
    assert place.read("z/y/file") == b"1"
    filesystem.rename(f"{top}/other", f"{top}/z/y/file")
    assert place.read("z/y/file") == b"2"
    assert filesystem.exists(f"{top}/z/y")
    assert not filesystem.exists(f"{top}/x/y")
    filesystem.sync_directory(f"{top}/z")
    filesystem.remove(f"{top}/z/y/file")
    filesystem.remove_directory(f"{top}/z/y")
    assert filesystem.list(f"{top}/z") == []


def test_missing_files_raise_the_errors_of_the_system(place: Place) -> None:
    filesystem, top = place
    place.write("file", b"")
    filesystem.make_directory(f"{top}/full/inner")
    with pytest.raises(FileNotFoundError):
        filesystem.open(f"{top}/none")
    with pytest.raises(FileNotFoundError):
        filesystem.remove(f"{top}/none")
    with pytest.raises(FileNotFoundError):
        filesystem.rename(f"{top}/none", f"{top}/more")
    with pytest.raises(FileNotFoundError):
        filesystem.create(f"{top}/none/file")
    with pytest.raises(FileNotFoundError):
        filesystem.list(f"{top}/none")
    with pytest.raises(NotADirectoryError):
        filesystem.list(f"{top}/file")
    with pytest.raises(IsADirectoryError):
        filesystem.open(f"{top}/full")
    with pytest.raises(IsADirectoryError):
        filesystem.create(f"{top}/full")
    with pytest.raises(FileExistsError):
        filesystem.make_directory(f"{top}/file")
    with pytest.raises(OSError, match=r"(?i)not ?empty"):
        filesystem.remove_directory(f"{top}/full")


def test_a_lock_has_one_holder(place: Place) -> None:
    filesystem, top = place
    lock = filesystem.lock(f"{top}/.lock")
    assert lock is not None
    assert filesystem.lock(f"{top}/.lock") is None
    lock.release()
    again = filesystem.lock(f"{top}/.lock")
    assert again is not None
    again.release()


def test_a_lock_excludes_other_processes_and_ends_with_its_own(tmp_path: object) -> None:
    path = f"{tmp_path}/.lock"
    script = (
        "import sys; from coterie.storage.system_files import system_files\n"
        f"lock = system_files().lock({path!r})\n"
        "print(lock is not None, flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == b"True"
        assert system_files().lock(path) is None
        child.kill()
        child.wait()
    lock = system_files().lock(path)
    assert lock is not None
    lock.release()


@pytest.mark.skipif(find_spec("fcntl") is None, reason="this system has other locks")
def test_other_errors_of_a_lock_are_raised(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(OSError, match="no locks"):
        system_files().lock(f"{tmp_path}/.lock")


@_POSITIONED
def test_short_writes_and_reads_are_continued(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write, real_read = os.pwrite, os.pread
    file = OsFileSystem().create(f"{tmp_path}/a")
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real_write(fd, data[:3], at))
    monkeypatch.setattr(os, "pread", lambda fd, length, at: real_read(fd, min(length, 2), at))
    file.write(0, b"0123456789")
    assert file.read(0, 10) == b"0123456789"
    assert file.read(1, 5) == b"12345"
    assert file.read(7, 100) == b"789"
    file.close()


@_POSITIONED
def test_a_write_that_fails_half_way_raises(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write = os.pwrite

    def full_after_three(fd: int, data: bytes, at: int) -> int:
        if at:
            raise OSError(errno.ENOSPC, "no space left")
        return real_write(fd, data[:3], at)

    file = OsFileSystem().create(f"{tmp_path}/a")
    monkeypatch.setattr(os, "pwrite", full_after_three)
    with pytest.raises(OSError, match="no space left"):
        file.write(0, b"0123456789")
    assert file.size() == 3
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(OSError, match="no progress"):
        file.write(0, b"0123456789")
    file.close()


def test_the_number_of_open_files_is_bounded(place: Place) -> None:
    files = OpenFiles(place.filesystem, limit=3)
    paths = [f"{place.directory}/{number}" for number in range(10)]
    for path in paths:
        files.create(path).write(0, path.encode())
        assert files.count <= 3
    for path in paths:
        assert files.get(path).read(0, 1000) == path.encode()
    assert files.count == 3


def test_the_file_used_longest_ago_is_closed() -> None:
    filesystem = CountingFileSystem()
    files = OpenFiles(filesystem, limit=2)  # type: ignore[arg-type]
    for path in ("a", "b", "a", "c"):
        files.get(path)
    assert filesystem.closed == ["b"]
    files.get("a")
    files.get("b")
    assert filesystem.closed == ["b", "c"]


def test_pinned_files_stay_open_until_unpinned() -> None:
    filesystem = CountingFileSystem()
    files = OpenFiles(filesystem, limit=2)  # type: ignore[arg-type]
    first = files.pin("a")
    assert files.pin("a") is first
    files.pin("b")
    files.get("c")  # This exceeds the limit, because both others are pinned.
    files.drop("c")
    assert filesystem.closed == ["c"]
    files.drop("a")
    files.unpin(first)
    assert filesystem.closed == ["c"]
    files.unpin(first)
    assert filesystem.closed == ["c", "a"]


class CountingFileSystem:
    def __init__(self) -> None:
        self.closed: list[str] = []

    def open(self, path: str) -> "CountingFile":
        return CountingFile(self, path)


class CountingFile:
    def __init__(self, owner: CountingFileSystem, path: str) -> None:
        self.owner = owner
        self.path = path

    def close(self) -> None:
        self.owner.closed.append(self.path)


def test_a_lock_is_held_as_long_as_its_file_has_its_name(place: Place) -> None:
    path = f"{place.directory}/.lock"
    lock = place.filesystem.lock(path)
    assert lock is not None
    assert lock.held()
    if isinstance(place.filesystem, OsFileSystem) and not hasattr(os, "pread"):
        with pytest.raises(PermissionError):
            place.filesystem.remove(path)
        assert lock.held(), "Windows keeps it"
        lock.release()
        return
    place.filesystem.remove(path)
    assert not lock.held()
    place.write(".lock", b"")
    assert not lock.held(), "another file has the name"
    lock.release()


def test_a_removed_file_can_not_be_synced(place: Place) -> None:
    place.write("a", b"data")
    place.write("b", b"data")
    removed, replaced = (place.filesystem.open(f"{place.directory}/{name}") for name in "ab")
    removed.sync()
    place.filesystem.remove(f"{place.directory}/a")
    place.write("c", b"new")
    place.filesystem.rename(f"{place.directory}/c", f"{place.directory}/b")
    for file in (removed, replaced):
        with pytest.raises(FileNotFoundError, match="removed while it was in use"):
            file.sync()
        if hasattr(os, "pread"):
            # Windows has no file without a name.
            assert file.read(0, 9) == b"data"
        file.close()


def test_the_boot_id_does_not_change(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    boot_id = place.filesystem.boot_id()
    assert boot_id == type(place.filesystem)().boot_id()
    try:
        os.listdir("/proc/sys/kernel/random")
    except FileNotFoundError:
        assert not isinstance(place.filesystem, OsFileSystem) or boot_id == ""
    else:
        assert boot_id != ""
    monkeypatch.setattr("coterie.storage.filesystem._BOOT_ID_FILE", f"{place.directory}/none")
    assert OsFileSystem().boot_id() == ""
