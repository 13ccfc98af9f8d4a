"""The files of a log as a reader finds them, who neither owns nor locks them.

The owner may append, roll, clean and delete at any time. So every read is driven by log offsets: a
segment is looked up when it is needed, and looked up again when it has gone. Positions in files are
hints from the `.index`, checked against the batch that stands there; they do not survive cleaning.

Only names of 20 digits and `.log` are segments. A `.log.swap` is the last step of a cleaning: its
segment is about to appear, and the ones it replaces to vanish, so a listing that shows one is made
again; one that stays is what a crash left, and is read in the place of the missing segment.
"""

import os
import re
import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.records import BatchHeader, read_header

_SEGMENT = re.compile(r"(\d{20})\.log")
_SWAP = re.compile(r"(\d{20})\.log\.swap")
_PARTITION = re.compile(r"(.+)-(0|[1-9]\d{0,9})")
_INDEX_ENTRY = struct.Struct(">ii")
# A cleaner's swap takes milliseconds for each segment it replaces.
_SWAP_PATIENCE_SECONDS = 2.0
_SWAP_PAUSE_SECONDS = 0.02
_HEADER_BYTES = 61


class NoSuchLog(Exception):  # noqa: N818 - says what was looked for
    """There is no directory, or nothing in it that is a partition of the topic."""


class Segment(NamedTuple):
    """A segment file; `is_swap` for one that a crash left unfinished in its renaming."""

    path: str
    base_offset: int
    size_bytes: int
    is_swap: bool = False


def find_partitions(path: str, topic: str) -> dict[int, str]:
    """The partitions of a topic in a data directory, by number; or the one that `path` itself is.

    Raises:
        NoSuchLog: there is none; the message says what was looked for and found.
    """
    path = os.path.abspath(path)
    own = _PARTITION.fullmatch(os.path.basename(path))
    if own and own[1] == topic and os.path.isdir(path):
        return {int(own[2]): path}
    try:
        names = os.listdir(path)
    except OSError as error:
        raise NoSuchLog(f"the data directory {path} can't be listed: {error.strerror}") from None
    found = {}
    for name in names:
        matched = _PARTITION.fullmatch(name)
        if matched and matched[1] == topic:
            found[int(matched[2])] = os.path.join(path, name)
    if not found:
        raise NoSuchLog(
            f"no directory {topic}-0, {topic}-1, ... in {path}, which has {len(names)} entries;"
            " give the broker's log.dirs, or a topic that is stored there"
        )
    return dict(sorted(found.items()))


def list_segments(directory: str) -> list[Segment]:
    """The segments of a partition, ascending; none where the partition has been deleted."""
    deadline = time.monotonic() + _SWAP_PATIENCE_SECONDS
    while True:
        try:
            names = os.listdir(directory)
        except FileNotFoundError:
            return []
        swaps = [name for name in names if _SWAP.fullmatch(name)]
        if not swaps or time.monotonic() > deadline:
            break
        time.sleep(_SWAP_PAUSE_SECONDS)
    taken = {match[1] for match in map(_SEGMENT.fullmatch, names) if match}
    names = [name for name in names if _SEGMENT.fullmatch(name)]
    names += [name for name in swaps if name[:20] not in taken]
    segments = []
    for name in sorted(names):
        path = os.path.join(directory, name)
        try:
            size_bytes = os.stat(path).st_size
        except FileNotFoundError:
            # Renamed between the two calls: the listing is of no use any more.
            return list_segments(directory)
        segments.append(Segment(path, int(name[:20]), size_bytes, name.endswith(".swap")))
    return segments


def segment_of(segments: list[Segment], offset: int) -> int:
    """The number of the segment that holds an offset, or would: the first one for those before."""
    index = 0
    for number, segment in enumerate(segments):
        if segment.base_offset <= offset:
            index = number
    return index


class IndexEntry(NamedTuple):
    """A batch that an index points to: where it begins, and its first offset."""

    position: int
    base_offset: int


def index_entries(segment: Segment, descriptor: int) -> Iterator[IndexEntry]:
    """What the index of a segment says, as far as the log agrees, in descending order.

    Entries are the batch's last offset relative to the segment's base, and its position. Zeros at
    the end are allocated and not written; a missing index has no entries.
    """
    for relative, position in _index_table(segment)[::-1].tolist():
        header = header_at(descriptor, position)
        if header is None or position >= segment.size_bytes:
            continue
        last_offset = segment.base_offset + relative
        if header.magic == 2 and header.base_offset <= last_offset == header.last_offset:
            yield IndexEntry(position, header.base_offset)


def position_before(segment: Segment, descriptor: int, offset: int) -> int:
    """The position of a batch that begins at or before the one which holds `offset`."""
    table = _index_table(segment)
    count = int(np.searchsorted(table[:, 0], offset - segment.base_offset, side="right"))
    for relative, position in table[:count][::-1].tolist():
        header = header_at(descriptor, position)
        if (
            header is not None
            and header.magic == 2
            and header.last_offset == segment.base_offset + relative
        ):
            return int(position)
    return 0


def header_at(descriptor: int, position: int) -> BatchHeader | None:
    """The batch header at a position of a file, if one can be there."""
    try:
        return read_header(os.pread(descriptor, _HEADER_BYTES, position))
    except MalformedFrame:
        return None


def _index_table(segment: Segment) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The written entries of a segment's index: relative offsets and positions, both ascending."""
    try:
        stem = os.path.join(os.path.dirname(segment.path), f"{segment.base_offset:020d}")
        with open(stem + ".index", "rb") as file:
            data = file.read()
    except OSError:
        data = b""
    whole = len(data) // _INDEX_ENTRY.size * _INDEX_ENTRY.size
    table = np.frombuffer(data[:whole], ">i4").reshape(-1, 2).astype(np.int64)
    # Positions ascend; the first that does not is where the zeros begin.
    falls = np.flatnonzero(np.diff(table[:, 1]) <= 0)
    written = int(falls[0]) + 1 if falls.size else len(table)
    if written == 1 and not table[0].any():
        written = 0
    return table[:written]
