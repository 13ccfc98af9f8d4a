"""The files of a log for a reader that neither owns nor locks them.

The owner may append, roll, clean and delete at any time, so segments are found by log offset when
they are needed, and found again if they have been removed. Which files are segments:
[pipeline/segment-files].

A position from an `.index` counts only if the batch there has the entry's offset as its last one.
Without an index a segment is read from its start.
"""

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.fields import uuid_text
from coterie.protocol.record_batch_layout import HEADER_BYTES
from coterie.protocol.records import BatchHeader, read_header
from coterie.storage.errors import CorruptLog
from coterie.storage.index import OffsetIndex
from coterie.storage.partition_directories import METADATA_FILE, parse_metadata, partition_of
from coterie.storage.segment_files import SWAP_SUFFIX, parse_segment_file, segment_stem

if TYPE_CHECKING:
    import numpy as np

_INDEX_ENTRY_BYTES = OffsetIndex.ENTRY.size
# A cleaner needs milliseconds for each segment that it replaces.
_SWAP_PATIENCE_SECONDS = 2.0
_SWAP_PAUSE_SECONDS = 0.02
# A valid partition.metadata is two short lines.
_MAX_METADATA_BYTES = 1024


class NoSuchLog(Exception):  # noqa: N818 - says what was looked for
    """There is no directory, or it contains no partition of the topic."""


class Segment(NamedTuple):
    """A segment file; `is_swap` if a crash interrupted its renaming."""

    path: str
    base_offset: int
    size_bytes: int
    is_swap: bool = False


def find_partitions(path: str, topic: str) -> dict[int, str]:
    """Find the partitions of a topic in a data directory, by number.

    Args:
        path: the data directory, or the directory of one partition.
        topic: the topic.

    Raises:
        NoSuchLog: there is none.
    """
    path = os.path.abspath(path)
    own_topic, own_number = partition_of(os.path.basename(path)) or ("", -1)
    if own_topic == topic and os.path.isdir(path):
        return {own_number: path}
    try:
        names = os.listdir(path)
    except OSError as error:
        raise NoSuchLog(f"the data directory {path} cannot be listed: {error.strerror}") from None
    found = {}
    for name in names:
        found_topic, number = partition_of(name) or ("", -1)
        if found_topic == topic:
            found[number] = os.path.join(path, name)
    if not found:
        raise NoSuchLog(
            f"none of the {len(names)} entries of {path} is a directory {topic}-0, {topic}-1, ...;"
            " give a directory of the broker's log.dirs"
        )
    return dict(sorted(found.items()))


def topic_names(path: str) -> dict[str, str]:
    """Return the names of topics by topic id, as the partitions of a data directory record them.

    Args:
        path: the data directory; a directory without partitions has no names.
    """
    try:
        directories = sorted(os.listdir(path))
    except OSError:
        return {}
    names = {}
    for directory in directories:
        topic, _ = partition_of(directory) or ("", -1)
        metadata = os.path.join(path, directory, METADATA_FILE)
        try:
            with open(metadata, encoding="utf-8") as file:
                topic_id = parse_metadata(metadata, file.read(_MAX_METADATA_BYTES))
        except (OSError, UnicodeDecodeError, CorruptLog):
            continue
        if topic:
            names[uuid_text(topic_id)] = topic
    return names


def list_segments(directory: str) -> list[Segment]:
    """List the segments of a partition in ascending order; none if it has been deleted."""
    deadline = time.monotonic() + _SWAP_PATIENCE_SECONDS
    while True:
        try:
            names = os.listdir(directory)
        except FileNotFoundError:
            return []
        files = {name: file for name in names if (file := parse_segment_file(name))}
        logs = {name: file for name, file in files.items() if file.kind == "log"}
        swaps = [name for name, file in logs.items() if file.suffix == SWAP_SUFFIX]
        if not swaps or time.monotonic() > deadline:
            break
        time.sleep(_SWAP_PAUSE_SECONDS)
    names = [name for name, file in logs.items() if not file.suffix]
    taken = {logs[name].base_offset for name in names}
    names += [name for name in swaps if logs[name].base_offset not in taken]
    segments = []
    for name in sorted(names):
        path = os.path.join(directory, name)
        try:
            size_bytes = os.stat(path).st_size
        except FileNotFoundError:
            # Renamed after the listing, which is therefore out of date.
            return list_segments(directory)
        segments.append(Segment(path, logs[name].base_offset, size_bytes, name in swaps))
    return segments


def segment_of(segments: list[Segment], offset: int) -> int:
    """Return the index of the segment whose range contains an offset.

    For an offset before the first segment this is the first one.
    """
    index = 0
    for number, segment in enumerate(segments):
        if segment.base_offset <= offset:
            index = number
    return index


class IndexEntry(NamedTuple):
    """A batch that an index points to: its position and its first offset."""

    position: int
    base_offset: int


def index_entries(segment: Segment, descriptor: int) -> Iterator[IndexEntry]:
    """Yield the entries of a segment's index that agree with the log, in descending order.

    A stored entry has the batch's last offset relative to the segment's base, and its position.
    A missing index has no entries.
    """
    for relative, position in _index_table(segment)[::-1].tolist():
        header = header_at(descriptor, position)
        if header is None or position >= segment.size_bytes:
            continue
        last_offset = segment.base_offset + relative
        if header.magic == 2 and header.base_offset <= last_offset == header.last_offset:
            yield IndexEntry(position, header.base_offset)


def position_before(segment: Segment, descriptor: int, offset: int) -> int:
    """Return the position of the batch with `offset`, or of one before it."""
    import numpy as np

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
    """Read the batch header at a position of a file; None if there cannot be one."""
    try:
        return read_header(os.pread(descriptor, HEADER_BYTES, position))
    except MalformedFrame:
        return None


def _index_table(segment: Segment) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    """Read the written entries of a segment's index: relative offsets and positions, ascending."""
    # Imported here, because listing segments works without it (`plain_log`).
    import numpy as np

    try:
        stem = os.path.join(os.path.dirname(segment.path), segment_stem(segment.base_offset))
        with open(stem + ".index", "rb") as file:
            data = file.read()
    except OSError:
        data = b""
    whole = len(data) // _INDEX_ENTRY_BYTES * _INDEX_ENTRY_BYTES
    table = np.frombuffer(data[:whole], ">i4").reshape(-1, 2).astype(np.int64)
    # Positions ascend. The preallocated zeros begin at the first that does not.
    falls = np.flatnonzero(np.diff(table[:, 1]) <= 0)
    written = int(falls[0]) + 1 if falls.size else len(table)
    if written == 1 and not table[0].any():
        written = 0
    return table[:written]
