"""The offsets of transactions that have not ended yet: they are *pending* [offsets/pending].

A transaction belongs to a producer id, of which a partition of `__consumer_offsets` has at most one
at a time. It may have offsets of several groups. Nothing here is seen as committed; the marker of
the transaction moves its offsets to the committed ones, or drops them.

Of several records of one key the one with the largest offset in the log decides, as in compaction.
Records are applied in the order of the log, so it is enough to number the pending ones, and to note
which of them a later record has overtaken [offsets/marker].
"""

from collections.abc import Iterator
from typing import NamedTuple

from coterie.coordinator.kernel.append import BatchForm
from coterie.protocol.control_records import Marker
from coterie.protocol.messages.log_records import OffsetCommitKey, OffsetCommitValue
from coterie.protocol.record_batch_layout import CONTROL, NO_SEQUENCE, TRANSACTIONAL


class TransactionEnd(NamedTuple):
    """The marker of one transaction, for one partition of `__consumer_offsets`.

    Attributes:
        producer_id, producer_epoch: of the marker.
        marker: what it says.
    """

    producer_id: int
    producer_epoch: int
    marker: Marker

    @property
    def form(self) -> BatchForm:
        """The header of its batch."""
        return BatchForm(
            TRANSACTIONAL | CONTROL, self.producer_id, self.producer_epoch, NO_SEQUENCE
        )


class MarkerWrite(NamedTuple):
    """The write of a marker: until it is durable the log may not have the producer's epoch."""

    producer_id: int
    producer_epoch: int


class PendingOffset:
    """An offset of an open transaction.

    Attributes:
        value: the offset.
        position: its place among all pending offsets of the partition, in the order of the log.
        overtaken: whether a later record of the same key has been committed.
    """

    __slots__ = ("overtaken", "position", "value")

    def __init__(self, value: OffsetCommitValue, position: int, *, overtaken: bool) -> None:
        self.value = value
        self.position = position
        self.overtaken = overtaken

    def __repr__(self) -> str:
        return f"PendingOffset({self.value!r}, {self.position}, overtaken={self.overtaken})"


# Group, topic and partition of an offset.
Place = tuple[str, str, int]


class OpenTransaction:
    """The offsets of one producer's open transaction.

    Attributes:
        producer_epoch: the largest epoch of its records.
        offsets: the pending offsets by their place.
    """

    __slots__ = ("offsets", "producer_epoch")

    def __init__(self, producer_epoch: int) -> None:
        self.producer_epoch = producer_epoch
        self.offsets: dict[Place, PendingOffset] = {}


class PendingOffsets:
    """The pending offsets of one partition.

    Attributes:
        transactions: the open transactions by producer id. One stays until its marker, even if its
            offsets have been deleted.
        by_group: by group, then by topic and partition: the producer ids with a pending offset. No
            collection in it is empty.
        by_topic: by topic, then by group: how many partitions have a pending offset. None has 0.
    """

    __slots__ = ("_position", "by_group", "by_topic", "transactions")

    def __init__(self) -> None:
        """No transaction is open."""
        self.transactions: dict[int, OpenTransaction] = {}
        self.by_group: dict[str, dict[tuple[str, int], set[int]]] = {}
        self.by_topic: dict[str, dict[str, int]] = {}
        self._position = 0

    def add(
        self,
        producer_id: int,
        producer_epoch: int,
        key: OffsetCommitKey,
        value: OffsetCommitValue,
        *,
        overtaken: bool = False,
    ) -> None:
        """Add an offset; it replaces an earlier one of the same transaction."""
        transaction = self.transactions.get(producer_id)
        if transaction is None:
            transaction = self.transactions[producer_id] = OpenTransaction(producer_epoch)
        elif transaction.producer_epoch < producer_epoch:
            transaction.producer_epoch = producer_epoch
        self._position += 1
        place = (key.group, key.topic, key.partition)
        is_replaced = place in transaction.offsets
        transaction.offsets[place] = PendingOffset(value, self._position, overtaken=overtaken)
        partitions = self.by_group.setdefault(key.group, {})
        producers = partitions.get((key.topic, key.partition))
        if producers is None:
            producers = partitions[key.topic, key.partition] = set()
            assert not is_replaced, f"an offset of {place} is in one table only"
            groups = self.by_topic.setdefault(key.topic, {})
            groups[key.group] = groups.get(key.group, 0) + 1
        assert is_replaced == (producer_id in producers), f"two tables differ in {place}"
        producers.add(producer_id)

    def epoch(self, producer_id: int) -> int:
        """Return the epoch of a producer's open transaction; -1 without one."""
        transaction = self.transactions.get(producer_id)
        return -1 if transaction is None else transaction.producer_epoch

    def is_pending(self, group_id: str, topic: str, index: int) -> bool:
        """Return whether a partition has a pending offset of a group."""
        return (topic, index) in self.by_group.get(group_id, ())

    def partitions(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Yield topic and partition of a group's pending offsets, each once."""
        return iter(list(self.by_group.get(group_id, ())))

    # -- what happens to them ----------------------------------------------------------------------

    def overtake(self, place: Place, position: int | None = None) -> None:
        """Note that a newer record of a place was committed.

        Args:
            place: the place.
            position: overtake only what is before this position; None to overtake all.
        """
        group_id, topic, index = place
        for producer_id in self.by_group.get(group_id, {}).get((topic, index), ()):
            pending = self.transactions[producer_id].offsets[place]
            if position is None or pending.position < position:
                pending.overtaken = True

    def drop(self, place: Place) -> None:
        """Drop the pending offsets of a place, which were deleted."""
        group_id, topic, index = place
        for producer_id in list(self.by_group.get(group_id, {}).get((topic, index), ())):
            del self.transactions[producer_id].offsets[place]
            self._forget(place, producer_id)
        assert not self.is_pending(*place), f"{place} is dropped and pending"

    def end(self, producer_id: int) -> dict[Place, PendingOffset]:
        """End a transaction and return its offsets; none if there is no such transaction."""
        transaction = self.transactions.pop(producer_id, None)
        if transaction is None:
            return {}
        for place in transaction.offsets:
            self._forget(place, producer_id)
        assert self.transactions or not self.by_group, "a pending offset has a transaction"
        assert bool(self.by_group) == bool(self.by_topic), "two tables have the same offsets"
        return transaction.offsets

    def _forget(self, place: Place, producer_id: int) -> None:
        group_id, topic, index = place
        partitions = self.by_group[group_id]
        producers = partitions[topic, index]
        producers.remove(producer_id)
        if not producers:
            del partitions[topic, index]
            if not partitions:
                del self.by_group[group_id]
            groups = self.by_topic[topic]
            groups[group_id] -= 1
            assert groups[group_id] >= 0, f"{topic} counts the partitions of {group_id} wrong"
            if not groups[group_id]:
                del groups[group_id]
                if not groups:
                    del self.by_topic[topic]
