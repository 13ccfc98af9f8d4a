"""What a start does with the write-ahead files that it finds [recovery/write-ahead-replay].

Their records are written into the segments that they are of, the segments are synced, and the files
are removed. Only then are logs opened, and they find their files as if every turn had synced them.
It may be interrupted and done again any number of times: segments only grow while a write-ahead
file exists, so every record is what was, or should have been, at its place. Whether a segment is
the one that a record names is not taken from its offset: what it holds is compared
[recovery/write-ahead-replay].

The records are also written after the death of the process alone. The segments hold the same bytes
then, but if a sync of a segment had failed, the kernel may never write them to the disk.
"""

from collections.abc import Callable, Mapping
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from coterie.protocol.records import iterate_batches
from coterie.storage.batches import BadBatch, scan, steps
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import File, FileSystem
from coterie.storage.segment_digests import link
from coterie.storage.segment_files import log_base_offsets, segment_stem
from coterie.storage.write_ahead_format import (
    DamagedFrame,
    Entry,
    PartitionId,
    decode_frames,
    parse_file_name,
)


class Replayed(NamedTuple):
    """What was done.

    Attributes:
        files: how many write-ahead files there were.
        entries: how many records were written into segments.
        skipped: how many were not, because their segment or topic no longer exists, or because
            other software has continued the log.
    """

    files: int = 0
    entries: int = 0
    skipped: int = 0


def replay(
    filesystem: FileSystem,
    directory: str,
    paths: Callable[[], Mapping[PartitionId, str]],
    *,
    discard: bool,
) -> Replayed:
    """Write the records of all write-ahead files into their segments, and remove the files.

    Args:
        filesystem: where the data directory is.
        directory: the data directory.
        paths: returns the directories of the partitions that exist.
        discard: whether the files are only removed, because every log was synced after them.

    Raises:
        CorruptLog: a file is damaged where it was synced.
        OSError: a file could not be read or written; the files are left.
    """
    found = [
        (file_id, f"{directory}/{name}")
        for name in filesystem.list(directory)
        if (file_id := parse_file_name(name)) is not None
    ]
    if not found:
        return Replayed()
    written = skipped = 0
    if not discard:
        entries = [entry for file_id, path in found for entry in _read(filesystem, path, file_id)]
        entries.sort(key=attrgetter("partition_id", "base_offset", "position"))
        existing = paths()
        for partition_id, group in groupby(entries, attrgetter("partition_id")):
            own = list(group)
            path = existing.get(partition_id)
            done = 0 if path is None else _write_partition(filesystem, path, own)
            written += done
            skipped += len(own) - done
        assert written + skipped == len(entries), "each entry is written or skipped"
    for _, path in found:
        filesystem.remove(path)
    # Whatever `--flush` is: a file that came back after a loss of power would be replayed over what
    # has been written since.
    filesystem.sync_directory(directory)
    return Replayed(len(found), written, skipped)


def _read(filesystem: FileSystem, path: str, file_id: bytes) -> list[Entry]:
    file = filesystem.open(path)
    try:
        data = file.read(0, file.size())
    finally:
        file.close()
    try:
        return decode_frames(file_id, data)
    except DamagedFrame as damaged:
        reason = (
            "a frame of the write-ahead log is damaged, and a valid one follows; without this file"
            " the broker starts with what the segments hold"
        )
        raise CorruptLog(path, damaged.position, reason) from None


def _write_partition(filesystem: FileSystem, directory: str, entries: list[Entry]) -> int:
    """Write the records of one partition into its segments; return how many were written."""
    bases = log_base_offsets(filesystem.list(directory))
    done = 0
    for base_offset, group in groupby(entries, attrgetter("base_offset")):
        if base_offset not in bases:
            # Retention or DeleteRecords has removed it.
            continue
        file = filesystem.open(f"{directory}/{segment_stem(base_offset)}.log")
        try:
            segment = _ReplayedSegment(file, is_older=base_offset != bases[-1])
            written = 0
            for entry in group:
                if not segment.write(entry):
                    break
                written += 1
            if written:
                file.sync()
            done += written
        finally:
            file.close()
    assert done <= len(entries), "an entry is written once"
    return done


class _ReplayedSegment:
    """A segment that records of a write-ahead file may belong to.

    Ours all do. But what has the segment's name may have been rewritten, cut or continued since,
    for example by a real Kafka, which does not know these files [recovery/write-ahead-foreign].
    """

    def __init__(self, file: File, *, is_older: bool) -> None:
        """Nothing is read yet.

        Args:
            file: the segment.
            is_older: whether another segment follows. Such a segment was synced before that. If it
                is too short, it is damaged and must stay so: made longer, it would look complete.
        """
        self._file = file
        self._size = file.size()
        self._is_older = is_older
        # The batches before this position are those of the log, with this digest.
        self._known_position = self._known_digest = 0

    def write(self, entry: Entry) -> bool:
        """Write the bytes of an entry, unless this is not the segment that it names.

        Bytes that are there already are written again: after a failed sync the kernel may not have
        written them. Other bytes are only replaced if everything before them is what the entry
        says, and no batch stands there. A segment that was rewritten consists of batches, so none
        of its bytes can change.
        """
        end = entry.position + len(entry.data)
        if entry.position > self._size or (self._is_older and end > self._size):
            return False
        at = _first_difference(self._file, entry)
        if at is not None and (self._stands_batch(at) or not self._holds_what_precedes(entry)):
            return False
        assert entry.position <= self._size, "a replay leaves no gap in a segment"
        assert end <= self._size or not self._is_older, "an older segment never grows"
        self._file.write(entry.position, entry.data)
        self._size = max(self._size, end)
        return True

    def _stands_batch(self, position: int) -> bool:
        """Return whether a valid batch begins at a position."""
        try:
            next(scan(self._file, position, self._size, None, gaps=True))
        except (BadBatch, StopIteration):
            return False
        return True

    def _holds_what_precedes(self, entry: Entry) -> bool:
        """Return whether the segment holds what it held when the entry was made.

        The first format does not say what that was. Then only the borders of batches are compared.
        """
        known, position = self._known_position, entry.position
        assert known <= position, "entries are in the order of their positions"
        try:
            if entry.digest is None:
                for _ in scan(self._file, known, position, None, gaps=True):
                    pass
            else:
                batches = steps(self._file, known, position)
                self._known_digest = link(self._known_digest, batches)
        except BadBatch:
            return False
        assert position <= self._size, "an entry behind the end of the segment was skipped"
        self._known_position = position
        return entry.digest is None or self._known_digest == entry.digest


def _first_difference(file: File, entry: Entry) -> int | None:
    """Return where the first batch of an entry begins that the segment does not hold there.

    None is returned if it holds all of them.
    """
    found = file.read(entry.position, len(entry.data))
    if found == entry.data:
        return None
    at = 0
    for position, header in iterate_batches(entry.data):
        end = position + header.length_bytes
        if found[position:end] != entry.data[position:end]:
            at = position
            break
    assert at < len(entry.data), "a difference lies within the entry"
    return entry.position + at
