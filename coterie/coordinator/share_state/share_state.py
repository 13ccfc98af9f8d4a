"""The persisted state of one share partition, its records, and what they do to it.

A snapshot has everything, an update what one write has changed [share-partitions/state-log].
"""

from collections.abc import Sequence

from coterie.coordinator.kernel.append import Record
from coterie.coordinator.share_partition.states import RecordState, StateBatch
from coterie.coordinator.share_state.merging import merge
from coterie.coordinator.share_state.requests import NO_COUNT, NO_OFFSET, ShareKey
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.share_state_batch import ShareStateBatch
from coterie.protocol.messages.share_state_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)

# Records that a member holds are not persisted: after a load nobody would hold them.
_PERSISTED = {int(each): each for each in RecordState if each is not RecordState.ACQUIRED}


class ShareState:
    """What is persisted of one share partition.

    Attributes:
        snapshot_epoch: how many snapshots were written before the latest.
        state_epoch: the epoch of the group when it was initialised.
        leader_epoch: the latest epoch of a leader.
        start_offset: the start offset; NO_OFFSET if it is not known.
        delivery_complete_count: how many records behind it are final; NO_COUNT if not known.
        batches: the states of records, merged.
        updates: how many updates were written since the latest snapshot.
        created_ms: when it was initialised.
        snapshot_ms: when the latest snapshot was written.
    """

    __slots__ = (
        "batches", "created_ms", "delivery_complete_count", "leader_epoch", "snapshot_epoch",
        "snapshot_ms", "start_offset", "state_epoch", "updates",
    )  # fmt: skip

    def __init__(
        self, snapshot_epoch: int, state_epoch: int, start_offset: int, created_ms: int
    ) -> None:
        """Begin without states of records."""
        self.snapshot_epoch = snapshot_epoch
        self.state_epoch = state_epoch
        self.leader_epoch = 0
        self.start_offset = start_offset
        self.delivery_complete_count = NO_COUNT if start_offset == NO_OFFSET else 0
        self.batches: list[StateBatch] = []
        self.updates = 0
        self.created_ms = created_ms
        self.snapshot_ms = created_ms

    def copy(self) -> "ShareState":
        """Return the same state, to be changed."""
        other = ShareState(
            self.snapshot_epoch, self.state_epoch, self.start_offset, self.created_ms
        )
        other.leader_epoch = self.leader_epoch
        other.delivery_complete_count = self.delivery_complete_count
        other.batches = list(self.batches)
        return other

    def snapshot(self, key: ShareKey, now_ms: int) -> Record:
        """Return the record of the whole state."""
        value = ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp=self.created_ms,
            write_timestamp=now_ms,
            state_batches=to_wire(self.batches),
        )
        return ShareSnapshotKey.of(*key), value

    def next_snapshot(self, key: ShareKey, now_ms: int) -> Record:
        """Return the record of the whole state that follows the latest snapshot."""
        later = self.copy()
        later.snapshot_epoch += 1
        return later.snapshot(key, now_ms)

    def update(
        self,
        key: ShareKey,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> Record:
        """Return the record of a change."""
        value = ShareUpdateValue(
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=to_wire(batches),
        )
        return ShareUpdateKey.of(*key), value

    def take_update(self, value: ShareUpdateValue) -> None:
        """Apply the record of a change."""
        self.add_update(value)
        self.merge()

    def add_update(self, value: ShareUpdateValue) -> None:
        """Apply a record of several, behind the last of which `merge` is called.

        Merging once gives the same [share-partitions/state-log], unless the start offset goes
        back: what is below it until then is dropped.
        """
        if value.start_offset != NO_OFFSET:
            if value.start_offset < self.start_offset:
                self.merge()
            self.start_offset = value.start_offset
        self.leader_epoch = value.leader_epoch
        self.delivery_complete_count = value.delivery_complete_count
        self.batches += from_wire(value.state_batches)
        self.updates += 1

    def merge(self) -> None:
        """Merge the states of records."""
        self.batches = merge(self.batches, max(0, self.start_offset))

    @classmethod
    def of_snapshot(cls, value: ShareSnapshotValue) -> "ShareState":
        """Return what a snapshot describes."""
        self = cls(
            value.snapshot_epoch, value.state_epoch, value.start_offset, value.create_timestamp
        )
        self.leader_epoch = value.leader_epoch
        self.delivery_complete_count = value.delivery_complete_count
        self.snapshot_ms = value.write_timestamp
        self.batches = from_wire(value.state_batches)
        return self


def tombstone(key: ShareKey) -> Record:
    """Return the record by which a state is forgotten."""
    return ShareSnapshotKey.of(*key), None


def to_wire(batches: Sequence[StateBatch]) -> list[ShareStateBatch]:
    """Return states as structures of messages and records."""
    return [ShareStateBatch.of(first, last, state, n) for first, last, state, n in batches]


def from_wire(batches: Sequence[ShareStateBatch]) -> list[StateBatch]:
    """Return states of messages and records.

    Raises:
        MalformedFrame: a state does not exist or is never persisted, or there are no such records.
    """
    found = []
    for batch in batches:
        state = _PERSISTED.get(batch.delivery_state)
        if state is None:
            raise MalformedFrame(f"{batch.delivery_state} is no state of persisted records")
        first_offset, last_offset, count = (
            batch.first_offset, batch.last_offset, batch.delivery_count,
        )  # fmt: skip
        if not 0 <= first_offset <= last_offset or count < 0:
            raise MalformedFrame(f"{batch} has no records, or was delivered less than never")
        found.append(StateBatch(first_offset, last_offset, state, count))
    return found
