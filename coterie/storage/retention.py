"""Which segments retention by time and size removes [log/retention]."""

from collections.abc import Sequence
from typing import NamedTuple

from coterie.storage.segment import Segment


class RemovedSegment(NamedTuple):
    """A segment that retention removes, and the limit that demands it: "time" or "size"."""

    base_offset: int
    next_offset: int
    size_bytes: int
    reason: str


def expired_segments(
    segments: Sequence[Segment], now_ms: int, retention_ms: int, retention_bytes: int
) -> list[RemovedSegment]:
    """Return the segments to remove, from the front: too old ones, then those above the size.

    A segment is as old as its newest record. Size removes no segment without which the log would be
    smaller than the limit. The active segment is among them if all of its records must go.

    Args:
        segments: of the log, the active one last.
        now_ms: epoch milliseconds.
        retention_ms: retention.ms, -1 for no limit.
        retention_bytes: retention.bytes, -1 for no limit.

    Raises:
        CorruptLog: the timestamps of a segment cannot be read.
    """
    removed: list[RemovedSegment] = []

    def remove(segment: Segment, reason: str) -> None:
        removed.append(
            RemovedSegment(segment.base_offset, segment.next_offset, segment.size, reason)
        )

    if segments and not segments[-1].size:
        # Only the log's empty active segment remains.
        segments = segments[:-1]
    if retention_ms >= 0:
        for segment in segments:
            # A segment that compaction has emptied holds nothing to keep.
            greatest_ms, _ = segment.max_timestamp() if segment.size else (0, 0)
            if greatest_ms < 0 or now_ms - greatest_ms <= retention_ms:
                break
            remove(segment, "time")
    if retention_bytes >= 0:
        rest = segments[len(removed) :]
        excess_bytes = sum(each.size for each in rest) - retention_bytes
        for segment in rest:
            excess_bytes -= segment.size
            if excess_bytes < 0:
                break
            remove(segment, "size")
    assert len(removed) <= len(segments), "a segment is removed once"
    if removed:
        first = segments[0].base_offset
        assert removed[0].base_offset == first, "segments are removed from the front"
    return removed
