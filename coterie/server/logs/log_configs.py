"""The settings of a log and of its cleanings, made from the settings of its topic."""

from typing import TYPE_CHECKING
from zlib import crc32

from coterie.storage.cleanable import CleanerConfig
from coterie.storage.log_config import LogConfig

if TYPE_CHECKING:
    from coterie.server.config.topic_config import TopicConfig


def log_config(
    settings: "TopicConfig", name: str, *, was_compacted: bool, durable: bool
) -> LogConfig:
    """Return the settings of a log.

    Args:
        settings: of the topic.
        name: of the partition. Its jitter depends on it [log/rolling].
        was_compacted: whether the log was compacted before. It has gaps then, whatever its policy
            is now.
        durable: whether the log is synced while it is open.
    """
    segment_ms = settings.segment_ms
    if settings.compact:
        # The active segment is not compacted, so it must end in time (Kafka:
        # LogConfig.maxSegmentMs).
        segment_ms = min(segment_ms, settings.max_compaction_lag_ms)
    jitter_ms = min(settings.segment_jitter_ms, segment_ms)
    if jitter_ms:
        segment_ms -= crc32(name.encode()) % jitter_ms
    assert segment_ms > 0, "a segment gets older than nothing"
    return LogConfig(
        segment_bytes=settings.segment_bytes,
        segment_ms=segment_ms,
        index_interval_bytes=settings.index_interval_bytes,
        index_bytes=settings.segment_index_bytes,
        compacted=settings.compact or was_compacted,
        flush=durable,
        producer_expiration_ms=settings.producer_expiration_ms,
    )


def cleaner_config(settings: "TopicConfig") -> CleanerConfig:
    """Return the settings of a cleaning, as far as they are those of the topic."""
    return CleanerConfig(
        delete_retention_ms=settings.delete_retention_ms,
        min_compaction_lag_ms=settings.min_compaction_lag_ms,
        max_compaction_lag_ms=settings.max_compaction_lag_ms,
        min_cleanable_ratio=settings.min_cleanable_ratio,
        segment_bytes=settings.segment_bytes,
    )
