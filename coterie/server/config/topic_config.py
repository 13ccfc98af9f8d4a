"""The settings of one topic in the form in which the server uses them."""

from collections.abc import Mapping

from coterie.server.config.config import Config
from coterie.server.config.keys import Value
from coterie.server.config.topic_keys import INTERNAL_SEGMENT_BYTES, TOPIC


class TopicConfig:
    """The settings of a topic: its own, and the broker's where it has none.

    They are read on the produce path, so they are parsed once.
    """

    __slots__ = (
        "after_max_ms",
        "before_max_ms",
        "compact",
        "compression",
        "compression_level",
        "delete",
        "delete_retention_ms",
        "index_interval_bytes",
        "log_append_time",
        "max_compaction_lag_ms",
        "max_message_bytes",
        "min_cleanable_ratio",
        "min_compaction_lag_ms",
        "overrides",
        "producer_expiration_ms",
        "retention_bytes",
        "retention_ms",
        "segment_bytes",
        "segment_index_bytes",
        "segment_jitter_ms",
        "segment_ms",
    )

    def __init__(self, broker: Config, overrides: Mapping[str, str]) -> None:
        """Take the topic's own settings `overrides`, already checked, and those of `broker`."""
        self.overrides = dict(overrides)

        def value(name: str) -> Value:
            text = self.overrides.get(name)
            if text is None:
                text = broker.topic_default(TOPIC[name])
            assert text is not None, name
            return TOPIC[name].parse(text)

        def number(name: str) -> int:
            parsed = value(name)
            assert isinstance(parsed, int), name
            return parsed

        self.max_message_bytes = number("max.message.bytes")
        has_small = INTERNAL_SEGMENT_BYTES in self.overrides
        self.segment_bytes = number(INTERNAL_SEGMENT_BYTES if has_small else "segment.bytes")
        self.segment_ms = number("segment.ms")
        self.segment_index_bytes = number("segment.index.bytes")
        self.segment_jitter_ms = number("segment.jitter.ms")
        self.index_interval_bytes = number("index.interval.bytes")
        self.after_max_ms = number("message.timestamp.after.max.ms")
        self.before_max_ms = number("message.timestamp.before.max.ms")
        self.log_append_time = value("message.timestamp.type") == "LogAppendTime"
        self.compression = str(value("compression.type"))
        # None for the default of the codec, which needs no look-up.
        self.compression_level: int | None = None
        level_name = f"compression.{self.compression}.level"
        if level_name in TOPIC:
            level = number(level_name)
            self.compression_level = None if str(level) == TOPIC[level_name].default else level
        policies = value("cleanup.policy")
        assert isinstance(policies, tuple)
        self.compact = "compact" in policies
        self.delete = "delete" in policies
        self.delete_retention_ms = number("delete.retention.ms")
        self.min_compaction_lag_ms = number("min.compaction.lag.ms")
        self.max_compaction_lag_ms = number("max.compaction.lag.ms")
        ratio = value("min.cleanable.dirty.ratio")
        assert isinstance(ratio, float)
        self.min_cleanable_ratio = ratio
        self.retention_ms = number("retention.ms")
        self.retention_bytes = number("retention.bytes")
        self.producer_expiration_ms = broker.get_int("producer.id.expiration.ms")
