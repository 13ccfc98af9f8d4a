"""The harness's model of a disk: what a crash can leave, and what it cannot."""

from collections.abc import Iterator

from tests.crash.disk import Disk, RecordingFileSystem
from tests.crash.losses import deaths, power_losses


def left_by_power(filesystem: RecordingFileSystem, path: str) -> set[bytes | None]:
    """What a file can hold after a loss of power at the end; None where it can be missing."""
    operations = filesystem.operations
    end = len(operations)
    return set(_contents(path, [c.disk for c in power_losses(Disk(), operations, end, end)]))


def _contents(path: str, disks: list[Disk]) -> Iterator[bytes | None]:
    for disk in disks:
        inode = disk.paths().get(path)
        yield None if inode is None else disk.files[inode]


def test_process_death_cuts_the_write_in_progress() -> None:
    filesystem = RecordingFileSystem()
    file = filesystem.create("/f")
    file.write(0, b"abc")
    file.write(3, b"de")
    disks = [crash.disk for crash in deaths(Disk(), filesystem.operations, 1, 3)]
    assert set(_contents("/f", disks)) == {b"", b"a", b"ab", b"abc", b"abcd", b"abcde"}


def test_synced_writes_survive() -> None:
    filesystem = RecordingFileSystem()
    file = filesystem.create("/f")
    file.write(0, b"abcdef")
    assert left_by_power(filesystem, "/f") >= {None, b"", b"abc", b"abcdef", bytes(6)}
    file.sync()
    assert left_by_power(filesystem, "/f") == {None, b"abcdef"}, "its name is not synced"
    filesystem.sync_directory("/")
    assert left_by_power(filesystem, "/f") == {b"abcdef"}


def test_unsynced_writes_are_reordered() -> None:
    filesystem = RecordingFileSystem()
    file = filesystem.create("/f")
    filesystem.sync_directory("/")
    for number in range(5):
        file.write(number, b"%d" % number)
    left = left_by_power(filesystem, "/f")
    assert {b"", b"01234", b"\x001234", b"0\x00\x00\x004"} <= left, "up to three of five are lost"
    assert b"\x00\x00\x00\x004" in left, "and all but up to three"


def test_a_rename_survives_or_not() -> None:
    filesystem = RecordingFileSystem()
    for name in ("/old", "/new"):
        file = filesystem.create(name)
        file.write(0, name.encode())
        file.sync()
    filesystem.sync_directory("/")
    filesystem.rename("/new", "/old")
    assert left_by_power(filesystem, "/old") == {b"/old", b"/new"}
    assert left_by_power(filesystem, "/new") == {None, b"/new"}


def test_a_failed_sync_leaves_its_writes_uncertain_for_good() -> None:
    filesystem = RecordingFileSystem()
    file = filesystem.create("/f")
    filesystem.sync_directory("/")
    file.write(0, b"lost")
    file.sync_failed()
    file.sync()
    assert b"" in left_by_power(filesystem, "/f")


def test_disks_with_the_same_files_are_equal() -> None:
    one, two = RecordingFileSystem(), RecordingFileSystem()
    for filesystem, names in ((one, "ab"), (two, "ba")):
        filesystem.make_directory("/d")
        for name in names:
            filesystem.create(f"/d/{name}").write(0, name.encode())
    assert one.disk.identity() == two.disk.identity()
    two.open("/d/a").write(0, b"x")
    assert one.disk.identity() != two.disk.identity()
