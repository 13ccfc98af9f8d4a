"""The deliveries of share groups that have ended, from the records of `__share_group_state`.

A leader writes what became of records when a member has acknowledged or released them, or when
their lock has ended. Each such write is a delivery that is over. An acquisition is not written, so
who had the records and since when is not known; nor is why a record is available again.

An update has what it changes. A snapshot has everything, so what it says and the records before it
do not is what became of records; the first snapshot that is read of a state says nothing of when.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from coterie.coordinator.share_partition.states import StateBatch
from coterie.coordinator.share_state.requests import ShareKey
from coterie.coordinator.share_state.share_state import ShareState, from_wire
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.share_state_records import (
    SHARE_STATE_RECORDS,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)


class Delivery(NamedTuple):
    """Deliveries of records that ended together.

    Attributes:
        at_ms: when that was written, in epoch milliseconds.
        key: the share partition.
        first_offset, last_offset: the records, both included.
        became: their state since then: AVAILABLE, ACKNOWLEDGED or ARCHIVED.
        delivery_count: how often they were delivered, with this time.
    """

    at_ms: int
    key: ShareKey
    first_offset: int
    last_offset: int
    became: str
    delivery_count: int


class DeliveryReader:
    """Reads the records of a partition of `__share_group_state` in their order.

    Attributes:
        states: what the records say of each share partition so far.
        skipped: how many records had an unknown type, a newer version, or a damaged form.
        changed: the share partition of the last record; None if that was skipped.
    """

    def __init__(self) -> None:
        """Start with nothing read."""
        self.states: dict[ShareKey, ShareState] = {}
        self.skipped = 0
        self.changed: ShareKey | None = None

    def read(self, key: bytes | None, value: bytes | None, at_ms: int) -> list[Delivery]:
        """Take a record; return the deliveries that have ended with it.

        Args:
            key, value: of the record.
            at_ms: its timestamp.
        """
        self.changed = None
        try:
            return self._read(key, value, at_ms)
        except MalformedFrame:
            self.skipped += 1
            return []

    def _read(self, key: bytes | None, value: bytes | None, at_ms: int) -> list[Delivery]:
        decoded = None if key is None else SHARE_STATE_RECORDS.decode_key(key)
        if not isinstance(decoded, ShareSnapshotKey | ShareUpdateKey):
            self.skipped += 1
            return []
        found = SHARE_STATE_RECORDS.decode_value(decoded, value)
        share_key = ShareKey(decoded.group_id, decoded.topic_id, decoded.partition)
        self.changed = share_key
        before = self.states.get(share_key)
        if isinstance(found, ShareUpdateValue):
            if before is None:
                # Its snapshot was deleted, and the next one says what this one changes.
                return []
            before.take_update(found)
            return _deliveries(at_ms, share_key, from_wire(found.state_batches))
        if not isinstance(found, ShareSnapshotValue):
            self.states.pop(share_key, None)
            return []
        after = self.states[share_key] = ShareState.of_snapshot(found)
        if before is None or before.state_epoch != after.state_epoch:
            return []
        return _deliveries(at_ms, share_key, _changed(before.batches, after.batches))


def _deliveries(at_ms: int, key: ShareKey, batches: Iterable[StateBatch]) -> list[Delivery]:
    return [
        Delivery(at_ms, key, first_offset, last_offset, state.name, count)
        for first_offset, last_offset, state, count in batches
    ]


def _changed(before: list[StateBatch], after: list[StateBatch]) -> Iterator[StateBatch]:
    """Yield the parts of states that were not there before; both are in the order of offsets."""
    for batch in after:
        begin = batch.first_offset
        for known in before:
            is_same = known[2:] == batch[2:]
            if not is_same or known.last_offset < begin or known.first_offset > batch.last_offset:
                continue
            if known.first_offset > begin:
                yield batch._replace(first_offset=begin, last_offset=known.first_offset - 1)
            begin = known.last_offset + 1
        if begin <= batch.last_offset:
            yield batch._replace(first_offset=begin)
