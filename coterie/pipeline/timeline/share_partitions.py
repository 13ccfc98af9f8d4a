"""The share partitions of a group over time: deliveries, start offsets, and records that fail.

The records of `__share_group_state` say what became of each delivery that has ended. The facts of
the journal say of some why, and who had the records [pipeline/deliveries].

Invariants: the records of a share partition are read in the order of the log; the start offset is
where the group really is, behind everything that is done with at the front, although a record has
the one before [share-partitions/start-offset].
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from coterie.coordinator.share_partition.states import ACKNOWLEDGED, ARCHIVED, AVAILABLE
from coterie.coordinator.share_state.share_state import ShareState
from coterie.pipeline.timeline.deliveries import Delivery, DeliveryReader
from coterie.protocol.fields import uuid_text
from coterie.protocol.messages.share_facts import LOCK_TIMEOUT, DeliveriesFailed, FailedDelivery

ACCEPTED, RELEASED, REJECTED = "accepted", "released", "rejected"
DELIVERY_LIMIT = "delivery limit"
# What is counted besides: records that were given up, and deliveries after the first.
GIVEN_UP, AGAIN = "given up", "again"
# From this delivery on a record is suspect: the coordinator delivers it with fewer others. Kafka's
# limit is five deliveries [share-partitions/suspects].
SUSPECT_DELIVERIES = 3
# The poison records of a share partition that are kept. If there are more, every record fails.
_MOST_POISON = 1_000
# A fact is noted when the state changes, its record written a little later, each with the time of
# its own coordinator.
_SAME_MS = 2_000


class Ended(NamedTuple):
    """Deliveries that ended together.

    Attributes:
        topic: by name, or by id if that is not known.
        delivery: what became of them.
        ended_by: how they ended; None if it is not known.
        member_id: who had the records; None if it is not known.
    """

    topic: str
    delivery: Delivery
    ended_by: str | None
    member_id: str | None

    @property
    def records(self) -> int:
        """How many records they are."""
        return self.delivery.last_offset - self.delivery.first_offset + 1


class StartOffset(NamedTuple):
    """Where a group was in a share partition: before this offset everything was done with.

    Without an offset it was to begin wherever `share.auto.offset.reset` says.
    """

    at_ms: int
    log_offset: int
    offset: int | None


class Completed(NamedTuple):
    """From when on how many records behind the start offset were done with."""

    at_ms: int
    records: int


class PoisonRecord(NamedTuple):
    """A record that was given up, or delivered again and again.

    Attributes:
        record_offset: which record.
        delivery_count: how often it was delivered.
        became, ended_by: of its last delivery.
        first_ms, last_ms: when its first and its last delivery ended that make it one.
    """

    record_offset: int
    delivery_count: int
    became: str
    ended_by: str | None
    first_ms: int
    last_ms: int


class SharedPartition:
    """What is recorded of one share partition.

    Attributes:
        topic, partition: the partition.
        starts: its start offsets, each when it became that.
        completed: how many records behind them were done with, each when it became that.
        last_ms: when a delivery ended last; None before the first.
        complete, waiting: the records behind the start offset that are done with, and those that
            wait for another delivery.
        most_deliveries: how often a record that waits was delivered at most.
        counts: records by how their deliveries ended, and those of GIVEN_UP and AGAIN.
        poison: by offset the records that failed.
    """

    def __init__(self, topic: str, partition: int) -> None:
        """Begin without records."""
        self.topic = topic
        self.partition = partition
        self.starts: list[StartOffset] = []
        self.completed: list[Completed] = []
        self.last_ms: int | None = None
        self.complete = self.waiting = self.most_deliveries = 0
        self.counts: dict[str, int] = {}
        self.poison: dict[int, PoisonRecord] = {}

    def take(self, ended: Ended) -> None:
        """Count deliveries that ended."""
        delivery = ended.delivery
        self.last_ms = delivery.at_ms
        # A delivery that may have been released or have timed out counts as released.
        known = ended.ended_by or (RELEASED if delivery.became == AVAILABLE.name else None)
        if known is not None:
            self._count(known, ended.records)
        if delivery.became == ARCHIVED.name:
            self._count(GIVEN_UP, ended.records)
        if delivery.delivery_count > 1:
            self._count(AGAIN, ended.records)
        if delivery.became == ACKNOWLEDGED.name:
            for offset in self._known(delivery):
                # It was processed at last; what it cost remains known.
                self.poison[offset] = self._poison(ended, offset)
        elif delivery.became == ARCHIVED.name or delivery.delivery_count >= SUSPECT_DELIVERIES:
            last = min(delivery.last_offset, delivery.first_offset + _MOST_POISON)
            for offset in range(delivery.first_offset, last + 1):
                if offset in self.poison or len(self.poison) < _MOST_POISON:
                    self.poison[offset] = self._poison(ended, offset)

    def now(self, state: ShareState, at_ms: int, log_offset: int) -> None:
        """Note the state after a record."""
        start, complete, self.waiting, self.most_deliveries = _summed(state)
        offset = start if start >= 0 else None
        if offset != (self.starts[-1].offset if self.starts else None):
            self.starts.append(StartOffset(at_ms, log_offset, offset))
        if complete != self.complete:
            self.complete = complete
            self.completed.append(Completed(at_ms, complete))

    def _count(self, what: str, records: int) -> None:
        self.counts[what] = self.counts.get(what, 0) + records

    def _known(self, delivery: Delivery) -> list[int]:
        offsets = range(delivery.first_offset, delivery.last_offset + 1)
        # The shorter one is gone through: most deliveries are of few records.
        if len(offsets) < len(self.poison):
            return [each for each in offsets if each in self.poison]
        return [each for each in self.poison if each in offsets]

    def _poison(self, ended: Ended, offset: int) -> PoisonRecord:
        delivery = ended.delivery
        known = self.poison.get(offset)
        first_ms = delivery.at_ms if known is None else known.first_ms
        return PoisonRecord(
            offset, delivery.delivery_count, delivery.became, ended.ended_by, first_ms,
            delivery.at_ms,
        )  # fmt: skip


class ShareStory:
    """The share partitions of one group, from the records of their states.

    Attributes:
        deliveries: those that have ended, in the order of the log.
        partitions: what is known of each, by topic and number.
    """

    def __init__(self, topic_names: Mapping[str, str], facts: Iterable[Any] = ()) -> None:
        """Begin without records.

        Args:
            topic_names: names by topic id.
            facts: the facts of the journal about the group.
        """
        self.deliveries: list[Ended] = []
        self.partitions: dict[tuple[str, int], SharedPartition] = {}
        self._names = topic_names
        self._reader = DeliveryReader()
        # From then on what the journal does not call failed has not failed.
        self._journal_since_ms: int | None = None
        self._failed: dict[tuple[str, int], list[tuple[DeliveriesFailed, FailedDelivery]]] = {}
        for fact in facts:
            if self._journal_since_ms is None:
                self._journal_since_ms = fact.at_ms
            if isinstance(fact, DeliveriesFailed):
                place = fact.topic, fact.partition
                self._failed.setdefault(place, []).extend((fact, each) for each in fact.deliveries)
        for failed in self._failed.values():
            # The clock of a broker may differ from that of the one before.
            failed.sort(key=_at_ms)

    def read(self, key: bytes | None, value: bytes | None, at_ms: int, log_offset: int) -> None:
        """Take a record of the group.

        Args:
            key, value: of the record.
            at_ms: its timestamp.
            log_offset: its offset.
        """
        ended = self._reader.read(key, value, at_ms)
        changed = self._reader.changed
        if changed is None:
            return
        topic_id = uuid_text(changed.topic_id)
        place = self._names.get(topic_id, topic_id), changed.partition
        partition = self.partitions.get(place)
        if partition is None:
            partition = self.partitions[place] = SharedPartition(*place)
        for delivery in ended:
            found = self._ended(place, delivery)
            self.deliveries.append(found)
            partition.take(found)
        state = self._reader.states.get(changed)
        if state is not None:
            partition.now(state, at_ms, log_offset)

    def _ended(self, place: tuple[str, int], delivery: Delivery) -> Ended:
        """Return a delivery with how it ended, as far as that is known [pipeline/deliveries]."""
        topic = place[0]
        if delivery.became == ACKNOWLEDGED.name:
            return Ended(topic, delivery, ACCEPTED, None)
        facts = self._failed.get(place, [])
        first = bisect_left(facts, delivery.at_ms - _SAME_MS, key=_at_ms)
        last = bisect_right(facts, delivery.at_ms + _SAME_MS, key=_at_ms)
        for fact, failed in facts[first:last]:
            if (
                failed.first_offset <= delivery.first_offset
                and delivery.last_offset <= failed.last_offset
                and failed.delivery_count == delivery.delivery_count
            ):
                how = LOCK_TIMEOUT if fact.cause == LOCK_TIMEOUT else DELIVERY_LIMIT
                return Ended(topic, delivery, how, failed.member_id or None)
        since_ms = self._journal_since_ms
        is_recorded = since_ms is not None and since_ms <= delivery.at_ms
        if delivery.became == AVAILABLE.name:
            return Ended(topic, delivery, RELEASED if is_recorded else None, None)
        # No group gives a record up after its first delivery [share-partitions/acknowledgement].
        is_rejected = is_recorded or delivery.delivery_count <= 1
        return Ended(topic, delivery, REJECTED if is_rejected else None, None)


def _at_ms(failed: tuple[DeliveriesFailed, FailedDelivery]) -> int:
    return failed[0].at_ms


def story_of(
    records: Iterable[tuple[bytes | None, bytes | None, int, int]],
    topic_names: Mapping[str, str],
    facts: Iterable[Any] = (),
) -> ShareStory:
    """Return the story that a group's records tell.

    Args:
        records: key, value, time and log offset of each, in the order of the log.
        topic_names: names by topic id.
        facts: the facts of the journal about the group.
    """
    story = ShareStory(topic_names, facts)
    for record in records:
        story.read(*record)
    return story


def _summed(state: ShareState) -> tuple[int, int, int, int]:
    """Return where the group is, and how many records behind that are complete and wait.

    The last number is how often one of those that wait was delivered at most.
    """
    start = state.start_offset
    complete = waiting = most = 0
    for batch in state.batches:
        first = max(batch.first_offset, start)
        if batch.last_offset < first:
            continue
        if batch.state is AVAILABLE:
            waiting += batch.last_offset - first + 1
            most = max(most, batch.delivery_count)
        elif first == start and start >= 0:
            start = batch.last_offset + 1
        else:
            complete += batch.last_offset - first + 1
    return start, complete, waiting, most
