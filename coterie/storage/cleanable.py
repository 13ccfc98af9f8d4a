"""Which part of a log may be cleaned now, and whether that is due (Kafka's LogCleanerManager)."""

from typing import NamedTuple

from coterie.storage.log import Log

# max.compaction.lag.ms without a limit.
_NO_LAG_LIMIT_MS = (1 << 63) - 1


class CleanerConfig(NamedTuple):
    """The settings of one log's cleaning, with Kafka's defaults.

    The comments name Kafka's settings.
    """

    # delete.retention.ms: how long tombstones and markers stay after the first cleaning.
    delete_retention_ms: int = 24 * 3600 * 1000
    # min.compaction.lag.ms: how long a record stays, even if a newer one follows.
    min_compaction_lag_ms: int = 0
    # max.compaction.lag.ms: after how long a record is cleaned, whatever the dirty ratio is.
    max_compaction_lag_ms: int = _NO_LAG_LIMIT_MS
    # min.cleanable.dirty.ratio: the share of dirty bytes from which on a cleaning pays.
    min_cleanable_ratio: float = 0.5
    # segment.bytes: cleaned segments are merged up to this size.
    segment_bytes: int = 1 << 30
    # log.cleaner.dedupe.buffer.size: the bound of the map (`offset_map.py`). Kafka has 128 MiB.
    max_map_bytes: int = 32 << 20
    # What one step reads: half a millisecond at 60 MB/s.
    slice_bytes: int = 32 << 10


class Cleanable(NamedTuple):
    """The part of a log that may be cleaned [compaction/cleanable-part].

    Attributes:
        first_dirty_offset: everything before it was cleaned.
        end_offset: where the part ends.
        clean_bytes: of the segments before the first dirty offset.
        dirty_bytes: of the segments from there to the end offset.
        must_clean: whether max.compaction.lag.ms has passed.
        due: whether to clean now [compaction/cleanable-part].
    """

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    must_clean: bool
    due: bool

    @property
    def dirty_ratio(self) -> float:
        """The share of dirty bytes in everything that a cleaning would read."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)


def cleanable(log: Log, first_dirty_offset: int, now_ms: int, config: CleanerConfig) -> Cleanable:
    """Return the part of a log that may be cleaned now.

    Args:
        log: an open log.
        first_dirty_offset: from the cleaner's checkpoint. An offset outside of the log counts as
            the log's start.
        now_ms: epoch milliseconds.
        config: the settings.

    Raises:
        CorruptLog: a segment whose timestamps are needed is damaged.
    """
    segments = log.segments
    if not log.log_start_offset <= first_dirty_offset <= log.log_end_offset:
        first_dirty_offset = log.log_start_offset
    end_offset = segments[-1].base_offset
    if log.config.flush:
        # The next start may write these segments again [recovery/write-ahead].
        end_offset = min(end_offset, log.write_ahead.replaceable_end)
    older = segments[:-1]
    if config.min_compaction_lag_ms > 0:
        young_ms = now_ms - config.min_compaction_lag_ms
        for segment in older:
            if segment.next_offset <= first_dirty_offset or not segment.size:
                continue
            greatest_ms, _ = segment.max_timestamp()
            if greatest_ms > young_ms:
                end_offset = min(end_offset, segment.base_offset)
                break
    end_offset = max(end_offset, first_dirty_offset)
    if log.swap_unfinished or log.last_stable_offset <= first_dirty_offset:
        # Its files are repaired when the log is opened again, or a transaction is open.
        end_offset = first_dirty_offset
    assert end_offset <= log.log_end_offset, "a cleaning ends before the log does"
    clean = [each for each in older if each.base_offset < first_dirty_offset]
    dirty = [each for each in older if first_dirty_offset < each.next_offset <= end_offset]
    clean_bytes = sum(each.size for each in clean)
    dirty_bytes = sum(each.size for each in dirty)
    must_clean = False
    if config.max_compaction_lag_ms < _NO_LAG_LIMIT_MS:
        old_ms = now_ms - config.max_compaction_lag_ms
        must_clean = any(0 < each.first_batch_timestamp() < old_ms for each in dirty)
    found = Cleanable(
        first_dirty_offset, end_offset, clean_bytes, dirty_bytes, must_clean, due=False
    )
    is_due = dirty_bytes > 0 and (must_clean or found.dirty_ratio >= config.min_cleanable_ratio)
    return found._replace(due=is_due and not log.failed)
