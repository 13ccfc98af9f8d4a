"""Where a broker keeps its data: a directory, or memory until the process ends."""

from typing import NamedTuple

from coterie.server.environment import Environment
from coterie.server.file_handles import FileHandles
from coterie.storage.directory import DataDirectory
from coterie.storage.filesystem import FileSystem
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.system_files import system_files

# The value of --data-dir that keeps everything in memory, until the process ends.
IN_MEMORY = ":memory:"


class DataPlace(NamedTuple):
    """Where the data is.

    Attributes:
        path: the directory.
        filesystem: where that is.
        in_memory: whether no disk has to be waited for.
        is_private: whether nothing else can remove its files.
    """

    path: str
    filesystem: FileSystem
    in_memory: bool
    is_private: bool

    def open(
        self, environment: Environment, handles: FileHandles, node_id: int, *, durable: bool
    ) -> DataDirectory:
        """Lock the directory and open it, as a new one if it is empty.

        Raises:
            StorageError, OSError: it cannot be used.
        """
        return DataDirectory.open(
            self.filesystem,
            self.path,
            node_id=node_id,
            cluster_id=environment.new_base64_id(),
            directory_id=environment.new_base64_id(),
            durable=durable,
            max_open_files=handles.files,
            checkpoint_lock=environment.new_lock(),
            new_file_id=environment.new_file_id,
        )


def data_place(
    data_dir: str, filesystem: FileSystem | None, *, files_are_private: bool
) -> DataPlace:
    """Return where the data of `--data-dir` is, by default in memory or the system's files.

    Args:
        data_dir: a path, or ":memory:".
        filesystem: another place for it.
        files_are_private: whether nothing else can remove files of this `filesystem`.
    """
    in_memory = data_dir == IN_MEMORY
    # No one else reaches files in memory that are made here.
    is_private = in_memory and (filesystem is None or files_are_private)
    if filesystem is None:
        filesystem = MemoryFileSystem() if in_memory else system_files()
    return DataPlace("memory" if in_memory else data_dir, filesystem, in_memory, is_private)
