"""What lost batches change in the expectations of the other checks.

A lost tombstone restores the group as it was. A lost first record removes the group. A group that
became Empty stays Empty although its record is lost [joining/empty-generation], so its log is
behind until its next record.
"""

from collections.abc import Iterator
from typing import NamedTuple

from coterie.conformance.harness import Batch
from coterie.coordinator.effects import LogRecord
from coterie.coordinator.shard import Shard
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    decode_key,
    decode_value,
    encode_key,
)
from tests.simulation.checks.join_phases import JoinPhases
from tests.simulation.checks.membership import ClientView, Membership
from tests.simulation.checks.offsets import CommittedOffsets
from tests.simulation.checks.open_requests import OpenRequests
from tests.simulation.checks.violation import require


class _Deleted(NamedTuple):
    """A group whose tombstone is pending, as the checks knew it."""

    group_id: str
    view: ClientView
    topics: frozenset[str] | None


class LostBatches:
    """The pending batches whose loss changes what the checks expect.

    Attributes:
        behind: groups that are Empty, while their last record says otherwise.
    """

    def __init__(
        self,
        requests: OpenRequests,
        membership: Membership,
        offsets: CommittedOffsets,
        join_phases: JoinPhases,
    ) -> None:
        self.behind: set[str] = set()
        self._requests = requests
        self._membership = membership
        self._offsets = offsets
        self._join_phases = join_phases
        self._deleted: dict[int, list[_Deleted]] = {}
        self._caught_up: dict[int, list[str]] = {}

    def appended(self, batch: int, record: LogRecord) -> None:
        """Note an appended record."""
        key, value = record
        if type(key) is not GroupMetadataKey:
            return
        if key.group in self.behind:
            self.behind.discard(key.group)
            self._caught_up.setdefault(batch, []).append(key.group)
        if value is None:
            topics = self._join_phases.topics.pop(key.group, None)
            view = self._membership.deleted(key.group)
            self._deleted.setdefault(batch, []).append(_Deleted(key.group, view, topics))

    def lost(self, batches: list[Batch], error: ErrorCode) -> None:
        """Note lost batches; requests that wait for them may get this error."""
        numbers = {batch.number for batch in batches}
        self._requests.lost(numbers, error)
        self._offsets.lost(numbers)
        for batch in reversed(batches):
            self.behind.update(self._caught_up.pop(batch.number, []))
            for deleted in reversed(self._deleted.pop(batch.number, [])):
                self._membership.restored(deleted.group_id, deleted.view)
                self._join_phases.topics[deleted.group_id] = deleted.topics

    def failed(self, batches: list[Batch]) -> None:
        """Note batches that were lost while the coordinator goes on: some groups are behind now."""
        self.behind.update(key.group for key, value in _generations(batches) if not value.members)

    def undone(self, shard: Shard, batches: list[Batch]) -> None:
        """Check that a group whose first record was lost was removed [joining/failed-creation]."""
        deleted = {
            encode_key(key)
            for key, _ in _generations(batches)
            for batch in batches
            if (encode_key(key), None) in batch.pairs
        }
        for key, value in _generations(batches):
            if value.generation or value.members or encode_key(key) in deleted:
                continue
            logged = key.group in shard.logged.groups or key.group in shard.logged.offsets
            require(
                logged or key.group not in shard.groups,
                "[joining/failed-creation]",
                f"{key.group} exists without a record",
            )

    def vanished(self, group_id: str) -> None:
        """Forget a group whose record was lost."""
        self._membership.deleted(group_id)
        self._join_phases.topics.pop(group_id, None)

    def restarted(self) -> None:
        """Forget pending batches: the coordinator has loaded its state from the log."""
        self.behind.clear()
        self._caught_up.clear()


def _generations(batches: list[Batch]) -> Iterator[tuple[GroupMetadataKey, GroupMetadataValue]]:
    """Yield the group records of these batches, without tombstones."""
    for batch in batches:
        for key_bytes, value_bytes in batch.pairs:
            key = decode_key(key_bytes)
            if type(key) is GroupMetadataKey and value_bytes is not None:
                value = decode_value(key, value_bytes)
                assert value is not None
                yield key, value
