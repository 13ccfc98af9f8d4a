"""What a start does with the write-ahead files that it finds [recovery/write-ahead-replay].

Their records are written into the segments that they are of, the segments are synced, and the files
are removed. Only then are logs opened, and they find their files as if every turn had synced them.
It may be interrupted and done again any number of times: segments only grow while a write-ahead
file exists, so every record is what was, or should have been, at its place.

The records are also written after the death of the process alone. The segments hold the same bytes
then, but if a sync of a segment had failed, the kernel may never write them to the disk.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from coterie.storage.batches import BadBatch, scan
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import File, FileSystem
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
            fitting = list(_fitting(file, list(group), is_older=base_offset != bases[-1]))
            for entry in fitting:
                file.write(entry.position, entry.data)
            if fitting:
                file.sync()
            done += len(fitting)
        finally:
            file.close()
    return done


def _fitting(file: File, entries: list[Entry], *, is_older: bool) -> Iterator[Entry]:
    """Yield the records up to the first one that does not continue its segment.

    Ours all do. But a real Kafka, which does not know these files, may have opened the directory
    meanwhile, cut the log and continued it [recovery/write-ahead-foreign]. And a segment that
    another one follows was synced before that, so if it is too short, it is damaged and must stay
    so: made longer, it would look complete.

    Args:
        file: the segment.
        entries: the records in the order of their positions.
        is_older: whether another segment follows.
    """
    size = file.size()
    for entry in entries:
        end = entry.position + len(entry.data)
        if entry.position > size or (is_older and end > size) or _is_replaced(file, entry):
            return
        yield entry
        size = max(size, end)


def _is_replaced(file: File, entry: Entry) -> bool:
    """Return whether a valid batch that is not the record's is at its place."""
    try:
        _, length, _, _, _ = next(scan(file, entry.position, file.size(), None, gaps=True))
    except (BadBatch, StopIteration):
        return False
    return file.read(entry.position, length) != entry.data[:length]
