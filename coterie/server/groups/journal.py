"""The journal: what the coordinator says happened, kept by time in the topic `coterie.journal`.

It is for looking back, and nobody waits for it: facts are gathered for some milliseconds and then
appended in one batch a partition, never synced for their own sake. What a kill or a loss of power
takes from its end is missing, and nothing else is wrong.

Invariants: facts of a group stand in one partition, in the order in which they happened, beside
those about the load of its partition; a journal that can't be written harms nobody: one warning,
and nothing more is written to that partition until the next start.
"""

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from coterie.coordinator.effects import Event
from coterie.coordinator.placement import partition_for
from coterie.protocol.messages.journal_records import (
    PartitionLoaded,
    PartitionUnloaded,
    encode_fact,
)
from coterie.protocol.records import encode_batch
from coterie.protocol.topic_names import JOURNAL_TOPIC
from coterie.server.config.config import Config
from coterie.server.config.keys import ConfigSource
from coterie.server.logs.topic_rules import TopicRefused
from coterie.server.logs.topics import Topic, Topics
from coterie.storage.errors import StorageError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from coterie.server.logs.partition import Partition

Pair = tuple[bytes, bytes]

# How long facts are gathered. An append costs ten times what a fact costs, so a storm of rebalances
# pays for twenty a second and partition; who follows the journal does not see the difference.
LINGER_S = 0.05

# Partitions of a new journal, at most: enough for readers to share the work and for a group's
# history to be a tenth of everything, and few enough to be created between two requests.
MOST_PARTITIONS = 10

# A batch is closed when it has so many bytes: Kafka's default max.message.bytes, less room for the
# last record and what surrounds the records.
_BATCH_BYTES = 1_000_000

# With a day to a segment, what is older than the retention is gone a day later at most.
_SEGMENT_MS = 86_400_000
_SEGMENT_BYTES = 64 * 1024 * 1024

_MS_PER_HOUR = 3_600_000
# Which setting of the broker gives the topic which, and times what.
_RETENTION = (
    ("journal.retention.hours", "retention.ms", _MS_PER_HOUR),
    ("journal.retention.bytes", "retention.bytes", 1),
)


def partitions_beside(offsets_partitions: int) -> int:
    """How many partitions a journal gets beside so many of `__consumer_offsets`.

    A divisor of that number: then the groups of one of its partitions share one of the journal's.
    """
    most = min(MOST_PARTITIONS, offsets_partitions)
    return next(count for count in range(most, 0, -1) if not offsets_partitions % count)


class Journal:
    """Writes events to the journal, if there shall be one."""

    def __init__(
        self,
        topics: Topics,
        config: Config,
        loop: AbstractEventLoop,
        now_ms: Callable[[], int],
        log: "FilteringBoundLogger",
        offsets_partitions: int,
    ) -> None:
        """Nothing is created before the first event.

        Args:
            topics: where the journal is, or will be.
            config: the broker's settings.
            loop: the event loop.
            now_ms: the clock.
            log: is told, once, of a journal that can't be written.
            offsets_partitions: how many partitions `__consumer_offsets` has.
        """
        self.enabled = config.get_bool("journal.enable")
        self._topics = topics
        self._config = config
        self._loop = loop
        self._now_ms = now_ms
        self._log = log
        self._offsets_partitions = offsets_partitions
        # Encoded when they are written: many in a row cost half of what each costs by itself.
        self._events: list[Event] = []
        self._timer: TimerHandle | None = None
        self._failed: set[int] = set()
        self._seen: Topic | None = None

    def add(self, events: Sequence[Event]) -> None:
        """Keep these events; they are written a little later."""
        if not self.enabled or (len(events) == 1 and _is_no_news(events[0])):
            return
        self._events += events
        if self._timer is None:
            self._timer = self._loop.call_later(LINGER_S, self.write)

    def write(self) -> None:
        """Write what was told so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        events, self._events = self._events, []
        # By group, or by number for what is about a partition of `__consumer_offsets`.
        told: dict[str | int, list[Pair]] = {}
        for group_id, fact in events:
            whose: str | int = group_id
            if type(fact) is PartitionLoaded or type(fact) is PartitionUnloaded:
                whose = fact.partition
            pair = encode_fact(group_id, fact)
            if whose in told:
                told[whose].append(pair)
            else:
                told[whose] = [pair]
        topic = self._topic() if told else None
        if topic is None:
            return
        count = len(topic.partitions)
        by_partition: dict[int, list[Pair]] = {}
        for whose, pairs in told.items():
            index = whose % count if isinstance(whose, int) else partition_for(whose, count)
            by_partition.setdefault(index, []).extend(pairs)
        now_ms = self._now_ms()
        for index, some in by_partition.items():
            if index not in self._failed:
                self._write(topic.partitions[index], some, now_ms)

    def _write(self, partition: "Partition", pairs: list[Pair], now_ms: int) -> None:
        try:
            first = size = 0
            for last, (key, value) in enumerate(pairs, 1):
                size += len(key) + len(value)
                if size >= _BATCH_BYTES or last == len(pairs):
                    _append(partition, pairs[first:last], now_ms)
                    first, size = last, 0
        except (StorageError, OSError) as error:
            self._give_up(partition, error)
        except Exception as error:
            # Our mistake, whatever it is: it costs the journal, and not the groups.
            log = self._log
            log.error("journal append failed", partition=str(partition), exc_info=error)  # noqa: TRY400
            self._give_up(partition, error)

    def _give_up(self, partition: "Partition", error: Exception) -> None:
        self._failed.add(partition.index)
        self._log.warning("journal stopped", partition=str(partition), error=str(error))

    def _topic(self) -> Topic | None:
        """The journal's topic, created if it is not there; None if it can't be."""
        topic = self._topics.by_name.get(JOURNAL_TOPIC)
        if topic is not None and topic is self._seen:
            return topic
        try:
            if topic is None:
                count = partitions_beside(self._offsets_partitions)
                topic = self._topics.create(JOURNAL_TOPIC, count, self._settings())
            else:
                self._apply_retention(topic)
        except (TopicRefused, StorageError, OSError) as error:
            self.enabled = False
            reason = error.text if isinstance(error, TopicRefused) else str(error)
            self._log.warning("journal stopped", error=reason)
            return None
        self._seen = topic
        # A journal that was deleted, and so begins again, may have better luck.
        self._failed.clear()
        return topic

    def _settings(self) -> dict[str, str]:
        retention = {
            name: str(_retained(self._config.get_int(key), factor))
            for key, name, factor in _RETENTION
        }
        return {
            "cleanup.policy": "delete",
            "segment.bytes": str(_SEGMENT_BYTES),
            "segment.ms": str(_SEGMENT_MS),
            **retention,
        }

    def _apply_retention(self, topic: Topic) -> None:
        """What the broker was started with counts, not what it was when the journal was created."""
        overrides = dict(topic.config.overrides)
        for key, name, factor in _RETENTION:
            given = [source for _, source in self._config.sources(key)]
            if ConfigSource.STATIC_BROKER in given:
                overrides[name] = str(_retained(self._config.get_int(key), factor))
        if overrides != topic.config.overrides:
            self._topics.set_overrides(topic, overrides)


def _retained(value: int, factor: int) -> int:
    """A retention in the topic's unit; -1 stays what it is, no limit."""
    return value if value < 0 else value * factor


def _is_no_news(event: Event) -> bool:
    """Whether it is the load of a partition without groups: nobody will ever look for it."""
    fact = event.fact
    if type(fact) is PartitionLoaded or type(fact) is PartitionUnloaded:
        return not fact.group_count
    return False


def _append(partition: "Partition", pairs: Sequence[Pair], now_ms: int) -> None:
    log = partition.log
    partition.append_own(
        encode_batch(pairs, log.log_end_offset, now_ms, leader_epoch=log.leader_epoch)
    )
