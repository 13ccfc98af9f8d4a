"""How cleaned segments take the place of old ones, and what a restart does with the rest.

A group of neighbouring segments becomes one cleaned segment with the base offset of the first
[compaction/swap]:

 1. The cleaned segment is written as `.cleaned` and synced; then its files are renamed to `.swap`,
    the log last, and the directory is synced.
 2. The old segments are removed in ascending order, with a sync of the directory after each.
 3. The files of the `.swap` are renamed to their final names, the log last, and the directory is
    synced.

Whatever a crash leaves is a consistent log:

 * Before the log is named `.swap`, nothing old has been touched, and `.cleaned` is discarded. The
   directory is synced before anything old is removed, so no loss of power leaves less than one of
   the two.
 * From then on the `.swap` is complete, and a restart finishes the swap. As in Kafka, the `.swap`
   replaces the old segments that begin at its base offset or before its end. If the last records of
   the group were all dropped, old segments of the group may begin behind that end and survive the
   crash; but only the end of the group can, because segments are removed in ascending order and
   each removal is durable before the next one.
 * Such a surviving end is harmless. Each of its records that the cleaning dropped was superseded by
   a later record, or is a tombstone or marker whose time had come. The superseding record is in the
   log: behind the group, or in the surviving end itself. (If only a part in front of the end
   survived, an old value could outlive its tombstone.) A tombstone that comes back hides only
   records that no longer exist. The next cleaning drops all of them again, because the cleaner's
   checkpoint moves after a whole cleaning only.
 * Groups follow each other in the order of offsets, and one swap is finished before the next one
   begins. So the log is always a cleaned front and an old end, and every record that was dropped
   from the front because of a later one has that later record behind it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from coterie.storage.batches import BadBatch, scan
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import File, FileSystem
from coterie.storage.segment import Segment
from coterie.storage.segment_digests import FILE_NAME, SegmentDigest, SegmentDigests, link_one
from coterie.storage.segment_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    KINDS,
    SWAP_SUFFIX,
    log_base_offsets,
    parse_segment_file,
    segment_stem,
)


class PendingDisk(NamedTuple):
    """Slow work on the disk that has to be done before a cleaning continues, in any thread.

    Attributes:
        filesystem: where the files are.
        file: to be synced first.
        first: to be called before anything else.
        removed: the files of each segment that is then removed, with a sync of the directory after
            each segment.
        directory: to be synced at last.
    """

    filesystem: FileSystem
    file: File | None = None
    first: Callable[[], None] | None = None
    removed: tuple[tuple[str, ...], ...] = ()
    directory: str = ""

    def run(self) -> None:
        """Do the work.

        Raises:
            OSError: it failed. The error has to be given to `Cleaning.fail`.
        """
        assert self.directory or not self.removed, "removals are made durable"
        assert self.file is None or not self.removed, "old files stay while the new one is synced"
        if self.first is not None:
            self.first()
        if self.file is not None:
            self.file.sync()
        for paths in self.removed:
            for path in paths:
                if self.filesystem.exists(path):
                    self.filesystem.remove(path)
            self.filesystem.sync_directory(self.directory)
        if self.directory and not self.removed:
            self.filesystem.sync_directory(self.directory)


def removal(filesystem: FileSystem, directory: str, old: Sequence[Segment]) -> PendingDisk:
    """Return the work of step 2, for segments that are no longer part of the log."""
    assert old, "a swap removes at least one segment"
    bases = [segment.base_offset for segment in old]
    assert bases == sorted(bases), "segments are removed in ascending order"
    for segment in old:
        segment.release()
    return PendingDisk(
        filesystem, removed=tuple(each.file_names() for each in old), directory=directory
    )


def finish_swap(filesystem: FileSystem, directory: str, digests: SegmentDigests) -> None:
    """Bring a partition's directory out of an interrupted cleaning, ours or Kafka's.

    This has to be done before segments are opened. It may be interrupted itself, any number of
    times [compaction/swap].

    Args:
        filesystem: where the directory is.
        directory: the partition's directory.
        digests: what is known of the log's segments.

    Raises:
        CorruptLog: a `.swap` is damaged, although it was synced.
    """
    names = sorted(filesystem.list(directory))
    files = [(name, file) for name in names if (file := parse_segment_file(name)) is not None]
    cleaned_bases = [f.base_offset for _, f in files if f.suffix.endswith(CLEANED_SUFFIX)]
    first_cleaned = min(cleaned_bases, default=None)
    swaps: dict[int, set[str]] = {}
    is_changed = False
    for name, file in files:
        path = f"{directory}/{name}"
        if file.suffix.endswith((CLEANED_SUFFIX, DELETED_SUFFIX)):
            filesystem.remove(path)
            is_changed = True
        elif file.suffix == SWAP_SUFFIX:
            if first_cleaned is not None and file.base_offset >= first_cleaned:
                # The cleaning that wrote it was not finished.
                filesystem.remove(path)
                is_changed = True
            else:
                swaps.setdefault(file.base_offset, set()).add(file.kind)
    for base_offset, kinds in sorted(swaps.items()):
        _finish(filesystem, directory, base_offset, kinds, digests)
    if is_changed or swaps:
        filesystem.sync_directory(directory)


def _finish(
    filesystem: FileSystem,
    directory: str,
    base_offset: int,
    kinds: set[str],
    digests: SegmentDigests,
) -> None:
    """Finish the swap of one cleaned segment.

    Args:
        filesystem: where the directory is.
        directory: the partition's directory.
        base_offset: of the cleaned segment.
        kinds: its files that still have to be renamed.
        digests: what is known of the log's segments.
    """
    stem = f"{directory}/{segment_stem(base_offset)}"
    if "log" not in kinds:
        # The log has its final name, or was never renamed. Indexes are rebuilt when needed.
        for kind in kinds:
            filesystem.remove(f"{stem}.{kind}{SWAP_SUFFIX}")
        return
    swap = f"{stem}.log{SWAP_SUFFIX}"
    next_offset, entry = _read_cleaned(filesystem, swap, base_offset)
    # The newest entry is that of the segment that was about to take the place of others.
    if digests.of(base_offset) and digests.of(base_offset)[-1] != entry:
        raise CorruptLog(swap, 0, f"its batches are not those that {FILE_NAME} tells of")
    names = filesystem.list(directory)
    old: dict[int, set[str]] = {}
    for name in names:
        file = parse_segment_file(name)
        if file is not None and not file.suffix:
            old.setdefault(file.base_offset, set()).add(file.kind)
    replaced = [each for each in sorted(old) if base_offset <= each < next_offset]
    bases = log_base_offsets(names)
    if replaced and bases and base_offset < bases[-1] < next_offset:
        reason = f"it ends at offset {next_offset}, within or behind the active segment"
        raise CorruptLog(f"{stem}.log{SWAP_SUFFIX}", 0, reason)
    if "log" not in old.get(base_offset, {"log"}) and "txnindex" not in kinds:
        # The old files of the first segment are gone, so this is the index of the cleaned one.
        old[base_offset].discard("txnindex")
    for each in replaced:
        for kind in sorted(old[each], key=KINDS.index):
            filesystem.remove(f"{directory}/{segment_stem(each)}.{kind}")
        filesystem.sync_directory(directory)
    for kind in sorted(kinds, key=KINDS.index):
        if kind == "log" and "txnindex" in kinds:
            # Unlike the other indexes it would not be missed.
            filesystem.sync_directory(directory)
        filesystem.rename(f"{stem}.{kind}{SWAP_SUFFIX}", f"{stem}.{kind}")
    assert filesystem.exists(f"{stem}.log"), "the cleaned segment has its final name"
    if digests.of(base_offset):
        digests.replaced([base_offset, *(each for each in replaced if each > base_offset)], entry)
        digests.swapped()


def _read_cleaned(filesystem: FileSystem, path: str, base_offset: int) -> tuple[int, SegmentDigest]:
    """Return the offset after a cleaned segment's last batch, and its entry.

    Every batch is checked.
    """
    file = filesystem.open(path)
    next_offset, digest = base_offset, 0
    try:
        size = file.size()
        for batch in scan(file, 0, size, base_offset, gaps=True):
            digest = link_one(digest, batch)
            _, _, _, last_offset, _ = batch
            next_offset = last_offset + 1
    except BadBatch as bad:
        raise CorruptLog(path, bad.position, bad.reason) from None
    finally:
        file.close()
    assert next_offset >= base_offset, "a segment does not end before it begins"
    return next_offset, SegmentDigest(size, digest)
