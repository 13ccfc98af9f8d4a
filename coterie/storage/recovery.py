"""Opening the segments of a partition's directory, and repairing it after a crash.

The last segment is scanned and cut where it may be incomplete [recovery/tail-scan]; older ones are
taken as they are [recovery/older-segments]. Before that, an interrupted cleaning is finished or
discarded (`swap.py`), and files that are not in use are removed [recovery/leftovers]. Kafka does
this in `LogLoader`.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from coterie.storage.errors import CorruptLog
from coterie.storage.leader_epochs import LeaderEpochs
from coterie.storage.open_files import OpenFiles
from coterie.storage.producer_loading import ProducerLoading
from coterie.storage.segment import Segment, TailCut
from coterie.storage.segment_digests import SegmentDigests
from coterie.storage.segment_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    SWAP_SUFFIX,
    log_base_offsets,
    parse_segment_file,
)
from coterie.storage.swap import finish_swap
from coterie.storage.torn_tail import TailTrust

# Files that were to be removed or were not finished.
_LEFTOVER_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")
_CLEANING_SUFFIXES = (SWAP_SUFFIX, CLEANED_SUFFIX)
# A snapshot of the producers need not have the base offset of a segment.
_INDEX_KINDS = ("index", "timeindex", "txnindex")


class Recovery(NamedTuple):
    """What is known of a log before it is opened.

    Attributes:
        log_start_offset: from the checkpoint; the log begins there or where its files do.
        recovery_point: offsets below it were synced [recovery/recovery-point].
        trust: what may be incomplete above it [recovery/trust].
        now_ms: epoch milliseconds, from which the expiration of producers counts.
        is_ours: whether no other program has used the directory since we did.
    """

    log_start_offset: int = 0
    recovery_point: int = 0
    trust: TailTrust = TailTrust.POWER_LOST
    now_ms: int = 0
    is_ours: bool = False


def load_segments(
    files: OpenFiles,
    directory: str,
    epochs: LeaderEpochs,
    known: Recovery,
    producers: ProducerLoading,
    new_segment: Callable[[int], Segment],
    digests: SegmentDigests,
) -> tuple[list[Segment], TailCut | None]:
    """Return the segments of a directory in order, perhaps none, and what was cut off the end.

    Args:
        files: the open files of the file system.
        directory: the partition's directory.
        epochs: the log's leader epochs, which are read here.
        known: what is known of the log.
        producers: the log's producers, which are read here.
        new_segment: makes the segment of a base offset.
        digests: what is known of the log's closed segments.

    Raises:
        CorruptLog: something is wrong that no interrupted write explains.
    """
    names = _clean(files, directory, digests)
    bases = log_base_offsets(names)
    segments = [new_segment(base) for base in bases]
    is_unsynced = known.trust is TailTrust.POWER_LOST_UNSYNCED
    # Epochs that cannot be read are learned from all batches [recovery/epoch-check].
    must_learn = not epochs.read()
    epochs.learning = must_learn or is_unsynced
    # How many segments are not scanned. The one that ends behind the recovery point is the first
    # that may be incomplete.
    unscanned = max(len(segments) - 1, 0)
    if must_learn:
        unscanned = 0
    elif is_unsynced:
        unscanned = min(max(bisect_right(bases, known.recovery_point) - 1, 0), unscanned)
    assert 0 <= unscanned <= max(len(segments) - 1, 0), "the active segment is scanned"
    producers.begin(names, segments, unscanned)
    cut: TailCut | None = None
    for number, segment in enumerate(segments[:-1]):
        next_offset = bases[number + 1]
        if number < unscanned or not is_unsynced:
            segment.expected = digests.expected(segment.base_offset, next_offset)
        if number < unscanned:
            segment.open_older(next_offset)
            producers.read(segment)
            continue
        cut = segment.recover_older(
            next_offset, known.recovery_point, known.trust, producers.reader(segment)
        )
        producers.end_segment()
        if cut is not None:
            assert known.trust is not TailTrust.CLEAN, "nothing is cut after a clean stop"
            assert segment.next_offset >= known.recovery_point, "what was synced is not cut"
            cut = _remove_all(segments[number + 1 :], cut)
            producers.end_with(segments[: number + 1])
            return _checked_end(segments[: number + 1], known, cut)
    if segments:
        cut = segments[-1].recover(
            known.recovery_point, known.trust, producers.reader(segments[-1])
        )
        producers.end_segment()
        return _checked_end(segments, known, cut)
    if known.recovery_point > known.log_start_offset and not is_unsynced:
        reason = f"there are no segments, but the log was synced up to {known.recovery_point}"
        raise CorruptLog(directory, 0, reason)
    return segments, cut


def _remove_all(segments: list[Segment], cut: TailCut) -> TailCut:
    """Remove the segments behind a cut; return the cut with their bytes.

    The last one goes first: if a crash interrupts this, the rest is cut again.
    """
    bytes_cut = cut.bytes_cut
    for segment in reversed(segments):
        bytes_cut += segment.file_bytes()
        segment.remove()
    return cut._replace(bytes_cut=bytes_cut)


def _checked_end(
    segments: list[Segment], known: Recovery, cut: TailCut | None
) -> tuple[list[Segment], TailCut | None]:
    """Return segments and cut, after a check that the log reaches the offsets that it must reach.

    A log that may have lost everything begins anew at its start [recovery/start-beyond-end].
    """
    last = segments[-1]
    start, ends = known.log_start_offset, f"the log ends at offset {last.next_offset}"
    if last.next_offset < known.recovery_point:
        reason = f"{ends}, but was synced up to {known.recovery_point}"
        raise CorruptLog(last.path, last.size, reason)
    if last.next_offset < start and known.trust is not TailTrust.POWER_LOST_UNSYNCED:
        # Only records that exist are deleted, and in these cases they cannot have been lost.
        reason = f"{ends}, but log-start-offset-checkpoint lets it begin at {start}"
        raise CorruptLog(last.path, last.size, reason)
    if last.next_offset >= start:
        return segments, cut
    assert known.trust is TailTrust.POWER_LOST_UNSYNCED, "only what was never synced may be lost"
    reason = f"the log began at offset {start}, and ends before"
    bytes_cut = 0 if cut is None else cut.bytes_cut
    return [], _remove_all(segments, TailCut(segments[0].path, 0, bytes_cut, reason))


def _clean(files: OpenFiles, directory: str, digests: SegmentDigests) -> list[str]:
    """Remove files that are not in use; return the names of the others."""
    filesystem = files.filesystem
    names = filesystem.list(directory)
    if any(name.endswith(_CLEANING_SUFFIXES) for name in names):
        finish_swap(filesystem, directory, digests)
        names = filesystem.list(directory)
    bases = set(log_base_offsets(names))
    used = []
    for name in names:
        file = parse_segment_file(name)
        is_leftover = name.endswith(_LEFTOVER_SUFFIXES)
        is_orphan = file and file.kind in _INDEX_KINDS and file.base_offset not in bases
        if is_leftover or is_orphan:
            filesystem.remove(f"{directory}/{name}")
        else:
            used.append(name)
    return used
