"""What a partition's directory holds when a log is opened: its segments, and the litter of crashes.

The last segment is scanned and its tail cut; older ones are taken as they are (`segment.py` says
why). Files that an interrupted deletion or cleaning left are removed, as Kafka's LogLoader does.
"""

import re

from storage.errors import CorruptLog
from storage.open_files import OpenFiles
from storage.segment import Segment, TailCut

_SEGMENT_FILE = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex)")
# Nothing in such a file is in use: it was to be removed, or was not finished.
_LEFTOVER_SUFFIXES = (".deleted", ".cleaned", ".tmp")
# A finished cleaning whose files have not all got their names.
_SWAP_SUFFIX = ".swap"


def load_segments(
    files: OpenFiles,
    directory: str,
    *,
    gaps: bool,
    index_interval_bytes: int,
    recovery_point: int,
) -> tuple[list[Segment], TailCut | None]:
    """The segments of a directory in order, and what was cut off the last one.

    Raises:
        CorruptLog: damage where no torn tail can be, or an interrupted compaction of Kafka's.
    """
    bases = _clean(files, directory)
    segments = [
        Segment(files, directory, base, gaps=gaps, index_interval_bytes=index_interval_bytes)
        for base in bases
    ]
    for segment, next_offset in zip(segments, bases[1:], strict=False):
        segment.open_older(next_offset)
    tail_cut = segments[-1].recover(recovery_point) if segments else None
    return segments, tail_cut


def _clean(files: OpenFiles, directory: str) -> list[int]:
    """Remove litter; the base offsets of the segments, in order."""
    filesystem = files.filesystem
    bases = set()
    indexes = []
    for name in filesystem.list(directory):
        path = f"{directory}/{name}"
        if name.endswith(_LEFTOVER_SUFFIXES):
            filesystem.remove(path)
        elif name.endswith(_SWAP_SUFFIX):
            raise CorruptLog(
                path, 0, "Kafka was interrupted while it compacted; start Kafka once to finish it"
            )
        elif match := _SEGMENT_FILE.fullmatch(name):
            if match[2] == "log":
                bases.add(int(match[1]))
            else:
                indexes.append((int(match[1]), path))
    for base, path in indexes:
        if base not in bases:
            filesystem.remove(path)
    return sorted(bases)
