"""Small text files that are replaced as a whole, and Kafka's checkpoints [log/checkpoints].

A file is replaced by writing a new one and renaming it, so a crash leaves the old or the new one.
"""

from collections.abc import Iterable
from typing import NamedTuple

from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import FileSystem
from coterie.storage.seals import open_entries, seal_entries

_CHECKPOINT_VERSION = "0"


class Checkpoint(NamedTuple):
    """The contents of a checkpoint.

    Attributes:
        entries: the fields of each entry.
        is_ours: whether no other program has written it, as far as can be known.
    """

    entries: list[list[str]]
    is_ours: bool


def read_file(filesystem: FileSystem, path: str) -> str | None:
    """Return the text of a small file; None if the file does not exist.

    Raises:
        CorruptLog: the file is not UTF-8.
        OSError: it cannot be read.
    """
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
        raise CorruptLog(path, error.start, "the file is not text") from None


def replace_file(
    filesystem: FileSystem, path: str, text: str, *, durable: bool, suffix: str = ".tmp"
) -> None:
    """Replace the text of a file, which may not exist yet.

    Args:
        filesystem: where the file is.
        path: the file.
        text: the new text.
        durable: whether the new text survives a loss of power when this returns.
        suffix: what the name of the new file ends with until then. Two threads that replace the
            same file need different ones.

    Raises:
        OSError: the file could not be replaced.
    """
    assert suffix, "a file is not written in its place"
    new = path + suffix
    if not durable and filesystem.exists(new):
        # An earlier attempt has failed. In a new file a loss of power leaves the new text, or
        # something without its checksum; in this one it could leave the text of that attempt.
        filesystem.remove(new)
    file = filesystem.create(new)
    try:
        file.write(0, text.encode())
        if durable:
            file.sync()
    finally:
        file.close()
    filesystem.rename(new, path)
    if durable:
        directory, _, _ = path.rpartition("/")
        filesystem.sync_directory(directory)


def read_checkpoint(filesystem: FileSystem, path: str, fields: int) -> Checkpoint:
    """Return a checkpoint; without entries if the file is empty or does not exist.

    Kafka makes its checkpoints empty and fills them after a minute.

    Args:
        filesystem: where the file is.
        path: the checkpoint.
        fields: the number of fields of an entry; the last two are numbers.

    Raises:
        CorruptLog: the file is not a checkpoint of version 0.
    """
    text = read_file(filesystem, path)
    if not text:
        return Checkpoint([], is_ours=True)
    text, is_sealed = open_entries(path, text)
    lines = text.splitlines()
    entries = [line.rsplit(" ", fields - 1) for line in lines[2:]]
    if lines[:1] != [_CHECKPOINT_VERSION] or lines[1:2] != [str(len(entries))]:
        raise CorruptLog(path, 0, "it does not begin with version 0 and the number of entries")
    for entry in entries:
        if len(entry) != fields or not all(_is_number(field) for field in entry[-2:]):
            line = " ".join(entry)
            raise CorruptLog(path, text.index(line), f"{line!r} is not an entry")
    return Checkpoint(entries, is_sealed or not entries)


def checkpoint_text(path: str, entries: Iterable[tuple[object, ...]]) -> str:
    """Return the text of a checkpoint, with a checksum if it has entries."""
    return text_of_lines(path, [" ".join(map(str, entry)) for entry in entries])


def text_of_lines(path: str, lines: list[str]) -> str:
    """Return the text of a checkpoint whose entries are lines already."""
    text = "\n".join([_CHECKPOINT_VERSION, str(len(lines)), *lines, ""])
    assert text.count("\n") == len(lines) + 2, "an entry is one line"
    return seal_entries(path, text) if lines else text


def _is_number(field: str) -> bool:
    return field.removeprefix("-").isdecimal()
