"""Small text files in Kafka's formats, replaced as a whole: checkpoints.

A checkpoint is a version, a count and that many lines of fields: `log-start-offset-checkpoint` has
topic, partition and offset, `leader-epoch-checkpoint` has epoch and start offset. A file is
replaced by writing another one and renaming it, so a crash leaves the old or the new one.
"""

from collections.abc import Iterable

from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import FileSystem

_CHECKPOINT_VERSION = "0"


def read_file(filesystem: FileSystem, path: str) -> str | None:
    """A small file's text; None where there is no such file."""
    try:
        file = filesystem.open(path)
    except FileNotFoundError:
        return None
    try:
        data = file.read(0, file.size())
    finally:
        file.close()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CorruptLog(path, error.start, "this is not text") from None


def replace_file(filesystem: FileSystem, path: str, text: str, *, durable: bool) -> None:
    """Replace a file's text, or make the file; with `durable` it survives a loss of power."""
    new = path + ".tmp"
    file = filesystem.create(new)
    try:
        file.write(0, text.encode())
        if durable:
            file.sync()
    finally:
        file.close()
    filesystem.rename(new, path)
    if durable:
        filesystem.sync_directory(path.rpartition("/")[0])


def read_checkpoint(filesystem: FileSystem, path: str, fields: int) -> list[list[str]]:
    """The entries of a checkpoint, each of so many fields; none where there is no file.

    Kafka makes its checkpoints empty and fills them after a minute.

    Raises:
        CorruptLog: the file is no checkpoint of version 0.
    """
    text = read_file(filesystem, path)
    if not text:
        return []
    lines = text.splitlines()
    entries = [line.rsplit(" ", fields - 1) for line in lines[2:]]
    if lines[:1] != [_CHECKPOINT_VERSION] or lines[1:2] != [str(len(entries))]:
        raise CorruptLog(path, 0, "version 0 and the number of entries do not come first")
    for entry in entries:
        # The last field is always a number, and so is the one before it.
        if len(entry) != fields or not all(_is_number(field) for field in entry[-2:]):
            raise CorruptLog(path, text.index(" ".join(entry)), f"no entry: {' '.join(entry)!r}")
    return entries


def checkpoint_text(entries: Iterable[tuple[object, ...]]) -> str:
    """The text of a checkpoint."""
    lines = [" ".join(map(str, entry)) for entry in entries]
    return "\n".join([_CHECKPOINT_VERSION, str(len(lines)), *lines, ""])


def _is_number(field: str) -> bool:
    return field.removeprefix("-").isdecimal()
