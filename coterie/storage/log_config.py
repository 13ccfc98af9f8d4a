"""The settings of a log, and the rule when it begins a new segment."""

from typing import NamedTuple

from coterie.storage.batches import BatchFacts
from coterie.storage.index import INDEX_INTERVAL_BYTES, MAX_RELATIVE_OFFSET
from coterie.storage.segment import Segment

# Twice the size of an entry of the time index, the larger one of the two.
_INDEXED_BYTES = 24


class LogConfig(NamedTuple):
    """The settings of one log, with Kafka's defaults for topics.

    The comments name Kafka's settings.
    """

    # segment.bytes: the size at which a new segment is begun.
    segment_bytes: int = 1 << 30
    # segment.ms: the span of timestamps at which a new segment is begun.
    segment_ms: int = 7 * 24 * 3600 * 1000
    # index.interval.bytes: the log between two index entries.
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    # segment.index.bytes: the size of an index at which a new segment is begun.
    index_bytes: int = 10 * 1024 * 1024
    # cleanup.policy has compact, or had it when segments were cleaned: offsets may be missing
    # between batches. In other logs a missing offset is damage.
    compacted: bool = False
    # Whether the log is synced while it is open. Then a segment is synced before the next one is
    # begun, so only the last segment can be incomplete after a loss of power.
    flush: bool = False
    # producer.id.expiration.ms: how long after its last batch a producer is remembered.
    producer_expiration_ms: int = 24 * 3600 * 1000


def is_full(segment: Segment, more_bytes: int, last: BatchFacts, config: LogConfig) -> bool:
    """Return whether an append needs a new segment [log/rolling].

    Args:
        segment: the active segment.
        more_bytes: the length of what is to be appended.
        last: the facts of the last batch of it.
        config: the settings of the log.
    """
    first_ms = segment.first_timestamp_ms
    return (
        segment.size + more_bytes > config.segment_bytes
        or (first_ms >= 0 and last[4] - first_ms > config.segment_ms)
        or last[3] - segment.base_offset > MAX_RELATIVE_OFFSET
        # In a smaller segment an index cannot be full, because its entries are so far apart.
        or (
            segment.size * _INDEXED_BYTES > config.index_bytes * config.index_interval_bytes
            and segment.indexes.is_full(config.index_bytes)
        )
    )
