"""The files of a recording on disk: FILE is the newest, FILE.1 the one before it, and so on.

A file that is full is renamed, and the oldest is removed when there are too many
[recording/rotation]. Each file begins with the connections that were open, so it can be read when
the files before it are gone.
"""

import os
from collections.abc import Iterable
from typing import IO, NamedTuple

from coterie.recording.format import (
    Entry,
    Flag,
    Header,
    NotARecording,
    decode_entries,
    decode_header,
    is_recording,
)

_MODE = 0o600
_MAGIC_BYTES = 16


class Limits(NamedTuple):
    """How much of a recording is kept: the size of one file, and the number of files."""

    file_bytes: int
    files: int


class RecordingOptions(NamedTuple):
    """What to record, and how much of it.

    Attributes:
        path: the file.
        limits: when it is rotated.
        with_payloads: whether keys and values of records are kept.
    """

    path: str
    limits: Limits
    with_payloads: bool


def numbered(path: str, number: int) -> str:
    """Return the path of the file that was the newest `number` files ago."""
    return f"{path}.{number}" if number else path


class RotatingFile:
    """Writes the entries of a recording; used in one thread.

    Attributes:
        written_bytes: the size of the newest file.
    """

    def __init__(self, path: str, header: Header, limits: Limits) -> None:
        """Begin a recording; files of an earlier one at this path are renamed.

        Raises:
            OSError: the file cannot be written.
            NotARecording: a file of another kind is there.
        """
        self._path = path
        self._header = header
        self._limits = limits
        self.written_bytes = 0
        if os.path.exists(path):
            with open(path, "rb") as file:
                start = file.read(_MAGIC_BYTES)
            if start and not is_recording(start):
                raise NotARecording(f"{path} exists and is no recording; it is not overwritten")
            self._shift()
        self._file: IO[bytes] = self._begin(())

    def write(self, entries: Iterable[Entry], opened: Iterable[Entry]) -> None:
        """Append entries and write them out.

        Args:
            entries: of one moment; a full file ends before them.
            opened: the beginnings of the connections that were open before them.

        Raises:
            OSError: the disk fails.
        """
        data = b"".join(entry.encode() for entry in entries)
        if self.written_bytes and self.written_bytes + len(data) > self._limits.file_bytes:
            self._file.close()
            self._shift()
            self._header = self._header._replace(number=self._header.number + 1)
            self._file = self._begin(opened)
        self._file.write(data)
        self.written_bytes += len(data)

    def flush(self) -> None:
        """Pass everything on to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Close the newest file."""
        self._file.close()

    def _begin(self, opened: Iterable[Entry]) -> IO[bytes]:
        # Only the owner may read the broker's traffic, whatever the umask is.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
        file = os.fdopen(descriptor, "wb")
        again = [entry._replace(flags=entry.flags | Flag.CONTINUED) for entry in opened]
        file.write(self._header.encode() + b"".join(entry.encode() for entry in again))
        file.flush()
        # Of entries only: a file with a header alone is not full, whatever the limit is.
        self.written_bytes = 0
        return file

    def _shift(self) -> None:
        """Rename all files by one; the oldest makes place."""
        for number in range(self._limits.files - 1, 0, -1):
            source = numbered(self._path, number - 1)
            if os.path.exists(source):
                os.replace(source, numbered(self._path, number))


class Recording(NamedTuple):
    """A recording that was read.

    Attributes:
        header: of its oldest file.
        entries: in the order in which they happened.
        remarks: what is missing, in sentences.
    """

    header: Header
    entries: list[Entry]
    remarks: list[str]


def read(path: str) -> Recording:
    """Read a recording with all its files.

    Raises:
        OSError: a file cannot be read.
        NotARecording: it is a file of another kind.
    """
    header, entries, is_torn = _read_file(path)
    files = [(header, entries)]
    remarks = ["the end of the last file is incomplete"] if is_torn else []
    while header.number > 1:
        older = numbered(path, len(files))
        try:
            found, entries, is_torn = _read_file(older)
        except (OSError, NotARecording):
            break
        if (found.recording, found.number) != (header.recording, header.number - 1):
            break
        if is_torn:
            remarks.append(f"{older} is damaged and was read up to the damage")
        header = found
        files.append((header, entries))
    if header.number > 1:
        remarks.append(f"the first {header.number - 1} files of the recording are missing")
    files.reverse()
    kept = files[0][1]
    for _, entries in files[1:]:
        kept += (entry for entry in entries if not entry.flags & Flag.CONTINUED)
    return Recording(header, kept, remarks)


def _read_file(path: str) -> tuple[Header, list[Entry], bool]:
    """Return header and entries of a file, and whether its end is incomplete."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        header, start = decode_header(data)
    except NotARecording as error:
        raise NotARecording(f"{path} is no recording: {error}") from error
    entries = list(decode_entries(data, start))
    read_bytes = start + sum(len(entry.encode()) for entry in entries)
    return header, entries, read_bytes < len(data)
