"""A directory on each of the two file systems, which must behave in the same way."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from coterie.storage.filesystem import FileSystem
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.seals import check_properties, open_entries, open_lines
from coterie.storage.system_files import system_files


class Place(NamedTuple):
    """A file system and an empty directory on it."""

    filesystem: FileSystem
    directory: str

    def write(self, name: str, data: bytes) -> None:
        file = self.filesystem.create(f"{self.directory}/{name}")
        file.write(0, data)
        file.close()

    def read(self, name: str) -> bytes:
        file = self.filesystem.open(f"{self.directory}/{name}")
        data = file.read(0, file.size())
        file.close()
        return data

    def read_plain(self, name: str) -> bytes:
        """Return what a text file contains besides its checksum, which must be there and right."""
        data = self.read(name)
        text = data.decode()
        if name.endswith("checkpoint"):
            plain, is_sealed = open_entries(name, text)
            assert is_sealed or plain == "0\n0\n"
        elif name.endswith(".metadata"):
            plain = open_lines(name, text)
            assert plain != text
        else:
            assert check_properties(name, text)
            _, _, plain = text.partition("\n")
        return plain.encode()

    def names(self) -> list[str]:
        return sorted(self.filesystem.list(self.directory))


@pytest.fixture(params=["memory", "os"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "os":
        yield Place(system_files(), str(tmp_path))
        return
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/data")
    yield Place(filesystem, "/data")


@pytest.fixture
def memory() -> Place:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/data")
    return Place(filesystem, "/data")
