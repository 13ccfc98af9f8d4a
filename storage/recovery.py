"""What a partition's directory holds when a log is opened: its segments, and the litter of crashes.

What may be torn is scanned and cut at its first bad batch, the last segment as a rule (`TailTrust`
tells); older ones are taken as they are (`segment.py` says why). An interrupted cleaning is
finished or thrown away (`swap.py`), and what a deletion left is removed, as Kafka's LogLoader does.
"""

import re
from typing import NamedTuple

from coterie.storage.errors import CorruptLog
from coterie.storage.leader_epochs import LeaderEpochs
from coterie.storage.open_files import OpenFiles
from coterie.storage.segment import Segment, TailCut
from coterie.storage.swap import CLEANED_SUFFIX, SWAP_SUFFIX, finish_swap
from coterie.storage.torn_tail import TailTrust

_SEGMENT_FILE = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex)")
# Nothing in such a file is in use: it was to be removed, or was not finished.
_LEFTOVER_SUFFIXES = (".deleted", ".cleaned", ".tmp")
_CLEANING_SUFFIXES = (SWAP_SUFFIX, CLEANED_SUFFIX)


class Recovery(NamedTuple):
    """What is known of a log before it is opened.

    Attributes:
        log_start_offset: from the checkpoint; the log begins there or where its files do.
        recovery_point: offsets below are known to be on the medium. A bad batch among them is
            damage, and so is a log that ends before it.
        trust: what may be torn above the recovery point.
    """

    log_start_offset: int = 0
    recovery_point: int = 0
    trust: TailTrust = TailTrust.POWER_LOST


def load_segments(
    files: OpenFiles,
    directory: str,
    epochs: LeaderEpochs,
    known: Recovery,
    *,
    gaps: bool,
    index_interval_bytes: int,
) -> tuple[list[Segment], TailCut | None]:
    """The segments of a directory in order, and what was cut off the end.

    Raises:
        CorruptLog: damage where no torn tail can be.
    """
    bases = _clean(files, directory)
    segments = [
        Segment(
            files, directory, base,
            gaps=gaps, index_interval_bytes=index_interval_bytes, epochs=epochs,
        )
        for base in bases
    ]  # fmt: skip
    unsynced = known.trust is TailTrust.POWER_LOST_UNSYNCED
    # Epochs that can't be read are made from all batches there are.
    unread = not epochs.read()
    epochs.learning = unread or unsynced
    cut: TailCut | None = None
    for number, segment in enumerate(segments[:-1]):
        next_offset = bases[number + 1]
        if unread or (unsynced and next_offset > known.recovery_point):
            cut = segment.recover_older(next_offset, known.recovery_point, known.trust)
        else:
            segment.open_older(next_offset)
        if cut is not None:
            return segments[: number + 1], _remove_all(segments[number + 1 :], cut)
    if segments:
        cut = segments[-1].recover(known.recovery_point, known.trust)
        _check_end(segments[-1], known)
        if segments[-1].next_offset < known.log_start_offset:
            # Less is left than clients were told is deleted: offsets must not be given twice.
            reason = f"the log began at offset {known.log_start_offset}, and ends before"
            return [], _remove_all(segments, TailCut(segments[0].path, 0, 0, reason))
    return segments, cut


def _remove_all(segments: list[Segment], cut: TailCut) -> TailCut:
    """Remove what stands behind a cut, the last first: what a crash leaves is cut again."""
    bytes_cut = cut.bytes_cut
    for segment in reversed(segments):
        bytes_cut += segment.file_bytes()
        segment.remove()
    return cut._replace(bytes_cut=bytes_cut)


def _check_end(last: Segment, known: Recovery) -> None:
    start, ends = known.log_start_offset, f"the log ends at offset {last.next_offset}"
    if last.next_offset < known.recovery_point:
        reason = f"{ends}, but was synced up to {known.recovery_point}"
        raise CorruptLog(last.path, last.size, reason)
    if last.next_offset < start and known.trust is not TailTrust.POWER_LOST_UNSYNCED:
        # Nothing is deleted that was not written, and here that was not lost.
        reason = f"{ends}, but is to begin at {start}, says log-start-offset-checkpoint"
        raise CorruptLog(last.path, last.size, reason)


def _clean(files: OpenFiles, directory: str) -> list[int]:
    """Remove litter; the base offsets of the segments, in order."""
    filesystem = files.filesystem
    names = filesystem.list(directory)
    if any(name.endswith(_CLEANING_SUFFIXES) for name in names):
        finish_swap(filesystem, directory)
        names = filesystem.list(directory)
    bases = set()
    indexes = []
    for name in names:
        path = f"{directory}/{name}"
        if name.endswith(_LEFTOVER_SUFFIXES):
            filesystem.remove(path)
        elif match := _SEGMENT_FILE.fullmatch(name):
            if match[2] == "log":
                bases.add(int(match[1]))
            else:
                indexes.append((int(match[1]), path))
    for base, path in indexes:
        if base not in bases:
            filesystem.remove(path)
    return sorted(bases)
