"""The file system of Windows, on one that refuses what Windows refuses with open files."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from coterie.storage import windows_files
from coterie.storage.directory import DataDirectory
from coterie.storage.log_config import LogConfig
from coterie.storage.windows_files import WindowsFile, WindowsFileSystem
from tests.unit.storage.test_log import batch
from tests.without.open_files import refused_calls


@pytest.fixture
def filesystem(monkeypatch: pytest.MonkeyPatch) -> WindowsFileSystem:
    if os.name != "nt":
        for name, call in refused_calls().items():
            monkeypatch.setattr(os, name, call)
    monkeypatch.setattr(windows_files, "_PAUSES_S", (0.0, 0.0))
    return WindowsFileSystem()


@pytest.fixture
def file(filesystem: WindowsFileSystem, tmp_path: Path) -> Iterator[WindowsFile]:
    opened = filesystem.create(f"{tmp_path}/a")
    yield opened
    opened.close()


def test_files_without_positioned_calls_are_read_and_written_at_positions(
    file: WindowsFile,
) -> None:
    file.write(0, b"0123456789")
    file.write(4, b"abc")
    assert file.read(0, 100) == b"0123abc789"
    assert file.read(8, 1) == b"8"
    assert file.read(10, 5) == b""
    file.write(12, b"z")
    assert file.read(9, 4) == b"9\0\0z"
    file.truncate(3)
    assert file.size() == 3


def test_their_short_writes_and_reads_are_continued(
    file: WindowsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, read = os.write, os.read
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda handle, data: write(handle, data[:3]))
        patch.setattr(os, "read", lambda handle, length: read(handle, min(length, 2)))
        file.write(1, b"0123456789")
        assert file.read(3, 7) == b"2345678"
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda *_: 0)
        with pytest.raises(OSError, match="no progress"):
            file.write(0, b"0")


def test_threads_take_turns_also_with_renames(
    filesystem: WindowsFileSystem, file: WindowsFile, tmp_path: Path
) -> None:
    names = [f"{tmp_path}/a", f"{tmp_path}/b"]

    def write_and_read(number: int) -> bytes:
        found = b""
        for turn in range(200):
            if number == 0:
                filesystem.rename(names[turn % 2], names[(turn + 1) % 2])
            if number == 1:
                file.sync()
            file.write(number * 10, b"%010d" % number)
            found = file.read(number * 10, 10)
        return found

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(write_and_read, range(4))) == [b"%010d" % each for each in range(4)]


def test_an_open_file_goes_on_under_its_new_name(
    filesystem: WindowsFileSystem, file: WindowsFile, tmp_path: Path
) -> None:
    file.write(0, b"one")
    filesystem.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    file.write(3, b"two")
    file.sync()
    assert file.read(0, 9) == b"onetwo"
    assert (tmp_path / "b").read_bytes() == b"onetwo"
    assert os.listdir(tmp_path) == ["b"]


def test_files_of_a_directory_go_on_when_it_is_renamed(
    filesystem: WindowsFileSystem, tmp_path: Path
) -> None:
    filesystem.make_directory(f"{tmp_path}/t-0")
    filesystem.make_directory(f"{tmp_path}/t-01")
    names = [f"t-0/{number}" for number in range(3)] + ["t-01/0"]
    files = [filesystem.create(f"{tmp_path}/{name}") for name in names]
    filesystem.rename(f"{tmp_path}/t-0", f"{tmp_path}/gone")
    for each in files:
        each.write(0, each.path.encode())
    assert [Path(each.path).name for each in files] == ["0", "1", "2", "0"]
    assert (tmp_path / "gone" / "2").read_text() == files[2].path
    for each in files:
        filesystem.remove(each.path)
    filesystem.remove_directory(f"{tmp_path}/gone")
    for each in files:
        each.close()


@pytest.mark.parametrize("use", ["read", "write", "size", "truncate", "sync"])
def test_a_file_without_a_name_can_not_be_used(
    filesystem: WindowsFileSystem, tmp_path: Path, use: str
) -> None:
    uses: dict[str, Callable[[WindowsFile], object]] = {
        "read": lambda file: file.read(0, 1),
        "write": lambda file: file.write(0, b"x"),
        "size": WindowsFile.size,
        "truncate": lambda file: file.truncate(0),
        "sync": WindowsFile.sync,
    }
    removed, replaced, new = (filesystem.create(f"{tmp_path}/{name}") for name in "rsn")
    filesystem.remove(f"{tmp_path}/r")
    filesystem.rename(f"{tmp_path}/n", f"{tmp_path}/s")
    for each in (removed, replaced):
        with pytest.raises(FileNotFoundError, match="removed while it was in use"):
            uses[use](each)
        each.close()
    uses[use](new)
    new.close()


def test_a_refused_call_is_repeated(
    filesystem: WindowsFileSystem,
    file: WindowsFile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Another program has it open for a moment.
    scanner = open(tmp_path / "a", "rb")  # noqa: SIM115
    monkeypatch.setattr("time.sleep", lambda _: scanner.close())
    filesystem.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    assert scanner.closed
    with open(tmp_path / "b", "rb"):
        with pytest.raises(PermissionError):
            filesystem.rename(f"{tmp_path}/b", f"{tmp_path}/c")
        file.write(0, b"as")
        with pytest.raises(PermissionError):
            filesystem.remove(f"{tmp_path}/b")
        file.write(2, b" before")
        file.sync()
    assert (tmp_path / "b").read_bytes() == b"as before"


def test_a_rename_waits_for_a_sync(
    filesystem: WindowsFileSystem,
    file: WindowsFile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began, may_end = threading.Event(), threading.Event()

    def slow(_: int) -> None:
        began.set()
        assert may_end.wait(20)

    monkeypatch.setattr(windows_files, "sync_file", slow)
    with ThreadPoolExecutor(2) as threads:
        syncing = threads.submit(file.sync)
        assert began.wait(20)
        file.write(0, b"beside the sync")
        renaming = threads.submit(filesystem.rename, f"{tmp_path}/a", f"{tmp_path}/b")
        assert not (tmp_path / "b").exists()
        may_end.set()
        syncing.result(20)
        renaming.result(20)
    assert file.read(0, 6) == b"beside"


def test_bytes_are_synced_before_a_handle_is_closed_and_a_failure_stays(
    filesystem: WindowsFileSystem,
    file: WindowsFile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[log/fail-stop]"""
    syncs: list[int] = []
    monkeypatch.setattr(windows_files, "sync_file", syncs.append)
    filesystem.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    assert len(syncs) == 0, "nothing was written"
    file.write(0, b"x")
    filesystem.rename(f"{tmp_path}/b", f"{tmp_path}/c")
    filesystem.rename(f"{tmp_path}/c", f"{tmp_path}/d")
    assert len(syncs) == 1

    def fail(_: Any) -> None:
        raise OSError(errno.EIO, "the disk")

    file.write(0, b"y")
    with monkeypatch.context() as patch:
        patch.setattr(windows_files, "sync_file", fail)
        filesystem.rename(f"{tmp_path}/d", f"{tmp_path}/e")
    for _ in range(2):
        with pytest.raises(OSError, match="the disk"):
            file.sync()
    assert len(syncs) == 1


def test_a_topic_is_deleted_while_its_logs_are_open_and_wait_for_a_sync(
    filesystem: WindowsFileSystem, tmp_path: Path
) -> None:
    """[log/topic-deletion]"""
    directory = DataDirectory.open(
        filesystem, str(tmp_path), node_id=1, cluster_id="c", directory_id="d", durable=True
    )
    for topic_id in (b"1" * 16, b"2" * 16):
        directory.create_partitions("orders", [0, 1], topic_id)
        logs = [directory.open_log("orders", each, LogConfig(flush=True)) for each in (0, 1)]
        for log in logs:
            log.append(batch(b"x"))
        pending = logs[0].unsynced()
        assert pending is not None
        logs[1].sync()
        directory.delete_topic("orders")
        pending.run()
        while directory.remove_deleted():
            pass
        assert not [name for name in os.listdir(tmp_path) if name.startswith("orders")]
    directory.close()
