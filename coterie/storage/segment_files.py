"""The names of the files of a segment [log/segments].

00000000000000000042.log            and .index, .timeindex; of Kafka also .txnindex, .snapshot
00000000000000000042.log.cleaned    a cleaning writes it
00000000000000000042.log.swap       a cleaning has written it; it replaces old segments
00000000000000000042.log.deleted    Kafka is about to remove it
"""

import re
from typing import NamedTuple

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
DELETED_SUFFIX = ".deleted"
# The order in which the files of a segment are removed and renamed: a log without indexes is
# complete, and indexes without a log are litter.
KINDS = ("index", "timeindex", "txnindex", "snapshot", "log")

_FILE = re.compile(rf"(\d{{20}})\.({'|'.join(KINDS)})((?:\.swap|\.cleaned|\.deleted)*)")


class SegmentFile(NamedTuple):
    """The parts of a file name.

    Attributes:
        base_offset: the segment's base offset.
        kind: the extension, one of `KINDS`.
        suffix: what follows it, "" for a file in use.
    """

    base_offset: int
    kind: str
    suffix: str


def segment_stem(base_offset: int) -> str:
    """Return the name of a segment's files without extension."""
    return f"{base_offset:020d}"


def parse_segment_file(name: str) -> SegmentFile | None:
    """Return the parts of a file name, None if it is not the name of a segment's file."""
    match = _FILE.fullmatch(name)
    return None if match is None else SegmentFile(int(match[1]), match[2], match[3])


def log_base_offsets(names: list[str]) -> list[int]:
    """Return the base offsets of the segments whose log files are among these names, ascending."""
    files = (parse_segment_file(name) for name in names)
    return sorted(file.base_offset for file in files if file and file[1:] == ("log", ""))
