"""Cleaned segments take the place of old ones: the steps, and what a restart does with the rest.

    00..07.log.cleaned    being written; thrown away at a restart
    00..07.log.swap       complete and synced; a restart finishes the swap
    00..07.log            in place

A group of neighbouring segments becomes one cleaned segment with the base offset of the first:

 1. `.cleaned` is written and synced; then its files are renamed to `.swap`, the log last, and the
    directory is synced.
 2. The old segments are removed in ascending order, the directory synced after each.
 3. `.swap` is renamed, the log last, and the directory synced.

Why whatever a crash leaves is a consistent log:

 * Before the log is named `.swap` nothing old has been touched, and `.cleaned` is thrown away. The
   directory is synced before anything old is removed, so no loss of power leaves less than both.
 * From then on the `.swap` is complete, and a restart removes what it replaces and gives it its
   name. What it replaces is told by its own offsets, as in Kafka: old segments that begin at its
   base or before its end. If the last records of the group were all dropped, later old segments of
   the group begin behind that end and may survive the crash, but only as the end of the group,
   since they are removed in ascending order and each removal is durable before the next. A
   surviving end is harmless. Each of its records that the cleaning dropped was superseded by a
   later record, or is a tombstone or marker whose time had come. The superseding record is in the
   log: behind the group, or in the surviving end itself (were only a part in front of it left, an
   old value could outlive its tombstone). A tombstone that comes back shadows nothing but what is
   gone. The next cleaning drops them again, for the cleaner's checkpoint is not moved before a
   whole cleaning is done.
 * Groups follow each other in order of offsets and never overlap: one swap is done before the next
   is begun. So at any moment the log is a cleaned front and an old end, and what was dropped from
   the front on account of a later record has that record behind it.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from coterie.storage.batches import BadBatch, scan
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import File, FileSystem
from coterie.storage.segment import Segment

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
_DELETED_SUFFIX = ".deleted"
_FILE = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex|snapshot)(\.swap)?")
# In this order: a log without its indexes is complete, and indexes without a log are litter.
_KINDS = ("index", "timeindex", "txnindex", "snapshot", "log")


class PendingDisk(NamedTuple):
    """Slow work on the disk: run it, in any thread, before the cleaning goes on."""

    filesystem: FileSystem
    # To be synced first.
    file: File | None = None
    # Then to be removed, each segment's files apart, the directory synced after each segment.
    removed: tuple[tuple[str, ...], ...] = ()
    # At last to be synced.
    directory: str = ""

    def run(self) -> None:
        """Do it. Raises OSError: give that to `Cleaning.fail`."""
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
    """Step 2, of segments that are not part of the log any more."""
    for segment in old:
        segment.release()
    return PendingDisk(
        filesystem, removed=tuple(each.file_names() for each in old), directory=directory
    )


def finish_swap(filesystem: FileSystem, directory: str) -> list[str]:
    """Bring a partition's directory out of an interrupted cleaning, ours or Kafka's.

    To be called before the segments are looked for. It may be interrupted itself, any number of
    times. Kafka splits a segment whose offsets do not fit into several `.swap`; while one of them
    is still `.cleaned`, the old segment is complete and they are thrown away (KAFKA-6264).

    Returns:
        A line for each thing done, for the server's log.

    Raises:
        CorruptLog: a `.swap` is damaged, though it was synced.
    """
    names = sorted(filesystem.list(directory))
    cleaned_bases = [int(name[:20]) for name in names if _is_leftover(name, CLEANED_SUFFIX)]
    first_cleaned = min(cleaned_bases, default=None)
    done = []
    swaps: dict[int, set[str]] = {}
    for name in names:
        path = f"{directory}/{name}"
        match = _FILE.fullmatch(name)
        if _is_leftover(name, CLEANED_SUFFIX) or _is_leftover(name, _DELETED_SUFFIX):
            filesystem.remove(path)
            done.append(f"removed {path}: what an interrupted cleaning or deletion left")
        elif match is not None and match[3]:
            if first_cleaned is not None and int(match[1]) >= first_cleaned:
                filesystem.remove(path)
                done.append(f"removed {path}: the cleaning that wrote it was not finished")
            else:
                swaps.setdefault(int(match[1]), set()).add(match[2])
    for base_offset, kinds in sorted(swaps.items()):
        done.append(_finish(filesystem, directory, base_offset, kinds))
    if done:
        filesystem.sync_directory(directory)
    return done


def _is_leftover(name: str, suffix: str) -> bool:
    return name.endswith(suffix) and _FILE.fullmatch(name.removesuffix(suffix)) is not None


def _finish(filesystem: FileSystem, directory: str, base_offset: int, kinds: set[str]) -> str:
    """Finish the swap of one cleaned segment, which has files of these kinds left to rename."""
    stem = f"{directory}/{base_offset:020d}"
    if "log" not in kinds:
        # The log got its name, or was never renamed: indexes alone are made anew.
        for kind in kinds:
            filesystem.remove(f"{stem}.{kind}{SWAP_SUFFIX}")
        return f"removed the indexes of {stem}.log{SWAP_SUFFIX}, which is gone"
    next_offset = _next_offset(filesystem, f"{stem}.log{SWAP_SUFFIX}", base_offset)
    old: dict[int, set[str]] = {}
    for name in filesystem.list(directory):
        match = _FILE.fullmatch(name)
        if match is not None and not match[3]:
            old.setdefault(int(match[1]), set()).add(match[2])
    replaced = [each for each in sorted(old) if base_offset <= each < next_offset]
    bases = [each for each in sorted(old) if "log" in old[each]]
    if replaced and bases and base_offset < bases[-1] < next_offset:
        reason = f"it ends at offset {next_offset}, within or behind the active segment"
        raise CorruptLog(f"{stem}.log{SWAP_SUFFIX}", 0, reason)
    for each in replaced:
        for kind in sorted(old[each], key=_KINDS.index):
            filesystem.remove(f"{directory}/{each:020d}.{kind}")
        filesystem.sync_directory(directory)
    for kind in sorted(kinds, key=_KINDS.index):
        filesystem.rename(f"{stem}.{kind}{SWAP_SUFFIX}", f"{stem}.{kind}")
    return f"finished an interrupted cleaning: {stem}.log replaces {len(replaced)} segments"


def _next_offset(filesystem: FileSystem, path: str, base_offset: int) -> int:
    """The offset after a cleaned segment's last batch; every batch is checked."""
    file = filesystem.open(path)
    next_offset = base_offset
    try:
        for _, _, _, last_offset, _ in scan(file, 0, file.size(), base_offset, gaps=True):
            next_offset = last_offset + 1
    except BadBatch as bad:
        raise CorruptLog(path, bad.position, bad.reason) from None
    finally:
        file.close()
    return next_offset
