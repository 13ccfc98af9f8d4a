"""What lost batches change in the expectations of the other checks.

A lost tombstone restores the group as it was. A lost first record removes the group.
"""

from typing import NamedTuple

from coterie.conformance.harness import Batch
from coterie.coordinator.kernel.append import Record
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import GroupMetadataKey
from tests.simulation.checks.join_phases import JoinPhases
from tests.simulation.checks.membership import ClientView, Membership
from tests.simulation.checks.offsets import CommittedOffsets
from tests.simulation.checks.open_requests import OpenRequests


class _Deleted(NamedTuple):
    """A group whose tombstone is pending, as the checks knew it."""

    group_id: str
    view: ClientView
    topics: frozenset[str] | None


class LostBatches:
    """The pending batches whose loss changes what the checks expect."""

    def __init__(
        self,
        requests: OpenRequests,
        membership: Membership,
        offsets: CommittedOffsets,
        join_phases: JoinPhases,
    ) -> None:
        self._requests = requests
        self._membership = membership
        self._offsets = offsets
        self._join_phases = join_phases
        self._deleted: dict[int, list[_Deleted]] = {}

    def appended(self, batch: int, record: Record) -> None:
        """Note an appended record."""
        key, value = record
        if type(key) is GroupMetadataKey and value is None:
            topics = self._join_phases.topics.pop(key.group, None)
            view = self._membership.deleted(key.group)
            self._deleted.setdefault(batch, []).append(_Deleted(key.group, view, topics))

    def lost(self, batches: list[Batch], error: ErrorCode) -> None:
        """Note lost batches; requests that wait for them may get this error."""
        numbers = {batch.number for batch in batches}
        self._requests.lost(numbers, error)
        self._offsets.lost(numbers)
        for batch in reversed(batches):
            for deleted in reversed(self._deleted.pop(batch.number, [])):
                self._membership.restored(deleted.group_id, deleted.view)
                self._join_phases.topics[deleted.group_id] = deleted.topics

    def vanished(self, group_id: str) -> None:
        """Forget a group whose record was lost."""
        self._membership.deleted(group_id)
        self._join_phases.topics.pop(group_id, None)
