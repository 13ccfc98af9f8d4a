"""Cutting records off the end of a log, as an unclean election of Kafka does.

Only tests ask for it: acknowledged records go, and later ones get their offsets. The log is opened
anew, so that indexes, producers and leader epochs are those of what is left. A process that is
killed meanwhile may leave a log that the next start finds damaged.
"""

from coterie.storage.directory import DataDirectory
from coterie.storage.errors import OffsetOutOfRange
from coterie.storage.log import Log
from coterie.storage.segment import Segment
from coterie.storage.torn_tail import TailTrust

# A batch begins with its base offset.
_OFFSET_BYTES = 8


def cut_end(data: DataDirectory, topic: str, partition: int, to_offset: int, now_ms: int) -> Log:
    """Remove the batches from an offset on; one that holds the offset goes as a whole.

    Args:
        data: the directory, without a write-ahead log, which would bring the batches back.
        topic: the topic of an open log.
        partition: its number.
        to_offset: the first offset that goes.
        now_ms: epoch milliseconds, from which the expiration of producers counts.

    Returns:
        The log that takes the place of the present one, in the same leader epoch.

    Raises:
        OffsetOutOfRange: the offset, or the beginning of its batch, is not in the log.
        CorruptLog, LogFailed, OSError: the log could not be read, written or opened.
    """
    assert data.write_ahead is None, "what is cut off is nowhere else"
    old = data.open_log(topic, partition)
    if not old.log_start_offset <= _batch_begins(old, to_offset) <= old.log_end_offset:
        raise OffsetOutOfRange(old.directory, to_offset, old.log_start_offset, old.log_end_offset)
    old.sync()
    logs = data.detach(topic)
    try:
        for segment in reversed(old.segments[1:]):
            if segment.base_offset >= to_offset:
                segment.remove()
        _cut_segment(old, to_offset)
        old.abandon()
        logs[topic, partition] = _opened_anew(data, old, now_ms)
    finally:
        data.attach(logs)
    # They must not lie behind the end.
    data.write_recovery_points()
    new = data.open_log(topic, partition)
    assert new.log_end_offset <= to_offset, "the end of the log is gone"
    return new


def _batch_begins(log: Log, offset: int) -> int:
    """Return the offset at which the batch of an offset begins, which may not exist."""
    if not log.log_start_offset <= offset < log.log_end_offset:
        return offset
    batch = _segment_of(log, offset).read(offset, 0)[0]
    return min(offset, int.from_bytes(batch[:_OFFSET_BYTES], "big"))


def _segment_of(log: Log, offset: int) -> Segment:
    return next(each for each in reversed(log.segments) if each.base_offset <= offset)


def _cut_segment(log: Log, to_offset: int) -> None:
    """Cut the last segment that is left."""
    segment = next(
        (each for each in reversed(log.segments) if each.base_offset < to_offset), log.segments[0]
    )
    position = segment.position_of(to_offset)
    if position < segment.size:
        file = log.files.get(segment.path)
        file.truncate(position)
        file.sync()


def _opened_anew(data: DataDirectory, old: Log, now_ms: int) -> Log:
    new = Log.open(
        data.files.filesystem,
        old.directory,
        old.config,
        files=data.files,
        log_start_offset=old.log_start_offset,
        trust=TailTrust.POWER_LOST,
        now_ms=now_ms,
        is_ours=True,
    )
    new.leader_epoch = old.leader_epoch
    new.write_ahead.partition_id = old.write_ahead.partition_id
    return new
