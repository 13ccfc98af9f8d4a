"""The journal: the coordinator's events, kept by time in the topic `coterie.journal`.

The journal is for looking back at rebalances. No request waits for it: events are collected for
some milliseconds, appended in one batch a partition and never synced for their own sake. A crash
may lose the last ones [journal/best-effort].

Invariants: the facts of a group are in one partition in the order in which they happened, together
with those about the load of its partition [journal/partitions]. A partition of the journal that
cannot be written is given up with one warning until the next start; groups are not affected.

The brokers of a process share one journal, so that facts are in order when a coordinator moves.
"""

from asyncio import TimerHandle
from collections.abc import Sequence

from coterie.coordinator.kernel.event import Event
from coterie.protocol.errors import ErrorCode
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.journal_records import (
    Fact,
    encode_fact,
)
from coterie.protocol.messages.partition_facts import PartitionLoaded, PartitionUnloaded
from coterie.protocol.records import encode_batch
from coterie.protocol.topic_names import JOURNAL_TOPIC
from coterie.server.config.config import Config
from coterie.server.config.keys import ConfigSource
from coterie.server.controller import Controller
from coterie.server.environment import Environment
from coterie.server.loggers import GROUP_COORDINATOR
from coterie.server.logs.partition import Partition, PartitionState, Topic
from coterie.server.metadata.topic_changes import Change, make_now
from coterie.server.metadata.topic_rules import TopicRefused
from coterie.storage.errors import OutOfHandles, StorageError, is_shortage

Pair = tuple[bytes, bytes]

# How long facts are collected. An append costs ten times as much as a fact, and readers that follow
# the journal do not notice this delay.
LINGER_S = 0.05

# The largest number of partitions of a new journal. Ten let readers work in parallel and make the
# history of one group a tenth of the whole; they are created within one request.
MOST_PARTITIONS = 10

# A batch ends when it has so many bytes: Kafka's default of max.message.bytes, less room for the
# last record and the batch header.
_BATCH_BYTES = 1_000_000

# With segments of a day, facts are removed at most a day after their retention.
_SEGMENT_MS = 86_400_000
_SEGMENT_BYTES = 64 * 1024 * 1024

# How many facts are written in one turn of the event loop: encoding them takes three milliseconds.
_WRITTEN_AT_ONCE = 1_000

# How many facts of a partition wait while file handles are short.
_MOST_UNWRITTEN = 10_000

_MS_PER_HOUR = 3_600_000
# A setting of the broker, the setting of the topic that it determines, and the factor between them.
_RETENTION = (
    ("journal.retention.hours", "retention.ms", _MS_PER_HOUR),
    ("journal.retention.bytes", "retention.bytes", 1),
)


def journal_partitions(offsets_partitions: int) -> int:
    """Return how many partitions a new journal gets.

    The number divides `offsets_partitions`, that of `__consumer_offsets`, so that the groups of one
    of its partitions are in one partition of the journal.
    """
    most = min(MOST_PARTITIONS, offsets_partitions)
    return next(count for count in range(most, 0, -1) if not offsets_partitions % count)


class Journal:
    """Writes events to the journal, if it is enabled."""

    def __init__(
        self,
        controller: Controller,
        config: Config,
        environment: Environment,
        offsets_partitions: int,
    ) -> None:
        """Prepare to write; the topic is created with the first event.

        Args:
            controller: creates the topic.
            config: the broker's settings.
            environment: its loop and its clock; its log, for a warning if the journal cannot be
                written.
            offsets_partitions: how many partitions `__consumer_offsets` has.
        """
        self.enabled = config.get_bool("journal.enable")
        self._controller = controller
        self._topics = controller.topics
        self._opener = controller.logs.opener
        self._changes = controller.changes
        self._config = config
        self._loop = environment.loop
        self._now_ms = environment.now_ms
        self._log = environment.loggers.named(GROUP_COORDINATOR)
        self._offsets_partitions = offsets_partitions
        self._brokers = 0
        # Encoded when they are written: encoding many in a row takes half the time for each.
        self._events: list[Event] = []
        self._timer: TimerHandle | None = None
        # Whether the journal is being created, or its partitions are being opened.
        self._is_opening = False
        # Partitions of the journal that could not be written.
        self._failed: set[int] = set()
        # Facts that could not be written, because file handles were short.
        self._unwritten: dict[int, list[Pair]] = {}
        # The topic that was prepared; another one means that the journal was deleted since.
        self._prepared: Topic | None = None

    @property
    def idle(self) -> bool:
        """Whether every event that was added is written."""
        return not self._events and not self._is_opening

    def join(self) -> None:
        """Let one more broker add events."""
        self._brokers += 1

    def leave(self) -> None:
        """Write the events of a broker that adds none any more, at once if it is the last one."""
        self._brokers -= 1
        if not self._brokers:
            self.stop()

    def add(self, events: Sequence[Event], node_id: int = -1) -> None:
        """Keep these events; they are written after `LINGER_S`.

        Args:
            events: the events.
            node_id: which of several brokers coordinated; -1 for the only one [journal/node].
        """
        if not self.enabled or (len(events) == 1 and _is_empty_load(events[0].fact)):
            return
        if node_id >= 0:
            for event in events:
                event.fact.node_id = node_id
        self._events += events
        if self._timer is None:
            self._timer = self._loop.call_later(LINGER_S, self.write)

    def write(self) -> None:
        """Write the oldest events that were added; later turns of the event loop write the rest."""
        self._cancel_timer()
        if self._is_opening or not self._events:
            # `_opened` writes them.
            return
        topic = self._topics.by_name.get(JOURNAL_TOPIC)
        if topic is None or topic is not self._prepared:
            self._is_opening = True
            self._changes.submit(self._preparation(), self._topic_prepared)
            return
        if any(map(self._opener.may_open, topic.partitions)):
            self._is_opening = True
            self._opener.open(topic.partitions, self._opened)
            return
        events = self._events[:_WRITTEN_AT_ONCE]
        del self._events[:_WRITTEN_AT_ONCE]
        if self._events:
            self._timer = self._loop.call_later(0, self.write)
        now_ms = self._now_ms()
        for index, pairs in enumerate(_by_partition(events, len(topic.partitions))):
            partition = topic.partitions[index]
            if not pairs or index in self._failed:
                continue
            if index in self._unwritten:
                # Facts of a shortage of file handles come first.
                pairs = self._unwritten.pop(index)[-_MOST_UNWRITTEN:] + pairs
            if partition.state is PartitionState.CLOSED:
                # It could not be opened for a reason that passes.
                self._unwritten[index] = pairs
            else:
                self._write(partition, pairs, now_ms)

    def _opened(self) -> None:
        if self._is_opening:
            self._is_opening = False
            self.write()

    def stop(self) -> None:
        """Write all events that were added, without a later turn of the event loop.

        They are lost if the topic does not exist and a change of topics is half done in a thread,
        which must not meet another one [topics/one-change-at-a-time].
        """
        self._cancel_timer()
        self._is_opening = False
        if not self._events:
            return
        topic = self._topics.by_name.get(JOURNAL_TOPIC)
        failure: Exception | None = None
        if self._changes.idle:
            try:
                topic = make_now(self._preparation())
            except (TopicRefused, StorageError, OSError) as error:
                failure = error
        elif topic is None:
            failure = TopicRefused(ErrorCode.KAFKA_STORAGE_ERROR, "the broker stopped before")
        self._prepare(topic, failure)
        if topic is not None:
            for partition in topic.partitions:
                self._opener.open_now(partition)
            for _ in range(0, len(self._events), _WRITTEN_AT_ONCE):
                self.write()
            self._cancel_timer()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write(self, partition: Partition, pairs: list[Pair], now_ms: int) -> None:
        if partition.failure is not None:
            self._give_up(partition, partition.failure)
            return
        first = size = 0
        try:
            for last, (key, value) in enumerate(pairs, 1):
                size += len(key) + len(value)
                if size >= _BATCH_BYTES or last == len(pairs):
                    _append(partition, pairs[first:last], now_ms)
                    first, size = last, 0
        except OutOfHandles:
            # The shortage passes; what was not written is.
            self._unwritten[partition.index] = pairs[first:]
        except (StorageError, OSError) as error:
            self._give_up(partition, error)
        except Exception as mistake:
            # A mistake of ours costs the journal, but not the groups.
            log = self._log
            log.error("journal append failed", partition=str(partition), exc_info=mistake)  # noqa: TRY400
            self._give_up(partition, mistake)

    def _give_up(self, partition: Partition, error: Exception) -> None:
        self._failed.add(partition.index)
        self._log.warning("journal stopped", partition=str(partition), error=str(error))

    def _preparation(self) -> Change[Topic]:
        """Return the journal's topic, created if it does not exist, with the retention of this
        start.

        Raises:
            TopicRefused, StorageError, OSError: that fails.
        """
        topic = self._topics.by_name.get(JOURNAL_TOPIC)
        if topic is None:
            count = journal_partitions(self._offsets_partitions)
            settings = self._settings()
            creation = self._controller.creation(JOURNAL_TOPIC, count, settings)
            return (yield from creation)
        overrides = self._overrides(topic)
        if topic is not self._prepared and overrides != topic.config.overrides:
            yield from self._controller.new_overrides(topic, overrides)
        return topic

    def _topic_prepared(self, topic: Topic | None, failure: Exception | None) -> None:
        if not self._is_opening:
            # The broker has stopped meanwhile.
            return
        self._prepare(topic, failure)
        self._opened()

    def _prepare(self, topic: Topic | None, failure: Exception | None) -> None:
        """Use the journal's topic; if there is none, drop the events that wait for it."""
        if topic is None:
            assert failure is not None, "a preparation returns the topic or fails"
            self._events = []
            if not is_shortage(failure.__cause__ or failure):
                self.enabled = False
                reason = failure.text if isinstance(failure, TopicRefused) else str(failure)
                self._log.warning("journal stopped", error=reason)
        elif topic is not self._prepared:
            self._prepared = topic
            # A journal that was deleted and created again has new logs, which may be written.
            self._failed.clear()
            self._unwritten.clear()

    def _settings(self) -> dict[str, str]:
        retention = {
            name: str(_retention(self._config.get_int(key), factor))
            for key, name, factor in _RETENTION
        }
        return {
            "cleanup.policy": "delete",
            "segment.bytes": str(_SEGMENT_BYTES),
            "segment.ms": str(_SEGMENT_MS),
            **retention,
        }

    def _overrides(self, topic: Topic) -> dict[str, str]:
        """Return the settings of an existing journal in this start [journal/retention]."""
        overrides = dict(topic.config.overrides)
        for key, name, factor in _RETENTION:
            given = [source for _, source in self._config.sources(key)]
            if ConfigSource.STATIC_BROKER in given:
                overrides[name] = str(_retention(self._config.get_int(key), factor))
        return overrides


def _retention(value: int, factor: int) -> int:
    """Return a retention in the topic's unit; -1 means no limit in both units."""
    return value if value < 0 else value * factor


def _by_partition(events: Sequence[Event], partition_count: int) -> list[list[Pair]]:
    """Encode events; return those of each partition of the journal."""
    by_partition: list[list[Pair]] = [[] for _ in range(partition_count)]
    # The pairs of the partition of each group.
    of_group: dict[str, list[Pair]] = {}
    for event in events:
        group_id, fact = event.group_id, event.fact
        if type(fact) is PartitionLoaded or type(fact) is PartitionUnloaded:
            # It goes by the number of its partition of `__consumer_offsets`.
            pairs = by_partition[fact.partition % partition_count]
        elif group_id in of_group:
            pairs = of_group[group_id]
        else:
            pairs = of_group[group_id] = by_partition[partition_for(group_id, partition_count)]
        pairs.append(encode_fact(group_id, fact))
    return by_partition


def _is_empty_load(fact: Fact) -> bool:
    """Return whether a fact is the load or unload of a partition without groups."""
    return isinstance(fact, (PartitionLoaded, PartitionUnloaded)) and not fact.group_count


def _append(partition: Partition, pairs: Sequence[Pair], now_ms: int) -> None:
    log = partition.log
    offset = log.log_end_offset
    batch = encode_batch(pairs, offset, now_ms, leader_epoch=log.leader_epoch)
    partition.append_own(batch, now_ms, len(pairs))
