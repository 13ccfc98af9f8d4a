"""Which segments retention by time and size removes: Kafka's UnifiedLog.deleteOldSegments."""

from collections.abc import Sequence
from typing import NamedTuple

from coterie.storage.segment import Segment


class RemovedSegment(NamedTuple):
    """A segment that retention removes, and by which limit: "time" or "size"."""

    base_offset: int
    next_offset: int
    size_bytes: int
    reason: str


def expired_segments(
    segments: Sequence[Segment], now_ms: int, retention_ms: int, retention_bytes: int
) -> list[RemovedSegment]:
    """Whole segments from the front that are too old, then those that make the log too long.

    A segment is as old as its newest record; one without timestamps (magic 0) is never too old,
    where Kafka goes by the time of its file. Size removes no segment without which the log would be
    shorter than the limit. The active one is among them if every record is too old or too much.

    Args:
        segments: the log's, the active one last.
        now_ms: epoch milliseconds.
        retention_ms: retention.ms, -1 for no limit.
        retention_bytes: retention.bytes, -1 for no limit.

    Raises:
        CorruptLog: the timestamps of a segment can't be told.
    """
    removed: list[RemovedSegment] = []

    def remove(segment: Segment, reason: str) -> None:
        removed.append(
            RemovedSegment(segment.base_offset, segment.next_offset, segment.size, reason)
        )

    if segments and not segments[-1].size:
        # The empty active segment is what the log goes on with.
        segments = segments[:-1]
    if retention_ms >= 0:
        for segment in segments:
            # One that compaction emptied has nothing to keep.
            greatest_ms, _ = segment.max_timestamp() if segment.size else (0, 0)
            if greatest_ms < 0 or now_ms - greatest_ms <= retention_ms:
                break
            remove(segment, "time")
    if retention_bytes >= 0:
        rest = segments[len(removed) :]
        excess = sum(each.size for each in rest) - retention_bytes
        for segment in rest:
            excess -= segment.size
            if excess < 0:
                break
            remove(segment, "size")
    return removed
