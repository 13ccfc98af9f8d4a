"""What the other checks have to forget or to remember when batches are lost.

A lost tombstone brings a group back as it was; a lost first record takes a group away, as if it had
never been; a group that emptied stays Empty though its record is lost (spec section 4.6), so its
log is behind until its next record.
"""

from collections.abc import Iterator
from typing import NamedTuple

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
from tests.simulation.checks.committed import Committed
from tests.simulation.checks.joining import Joining
from tests.simulation.checks.ledger import Ledger
from tests.simulation.checks.membership import Membership, Shadow
from tests.simulation.checks.violation import require
from tests.simulation.log import Batch


class _Deleted(NamedTuple):
    """A group whose tombstone is on its way: what the checks knew of it."""

    group_id: str
    shadow: Shadow
    topics: frozenset[str] | None


class Losses:
    """The batches on their way, as far as losing them changes what is expected.

    Attributes:
        behind: groups whose log does not say that they are Empty.
    """

    def __init__(
        self, ledger: Ledger, membership: Membership, committed: Committed, joining: Joining
    ) -> None:
        self.behind: set[str] = set()
        self._ledger = ledger
        self._membership = membership
        self._committed = committed
        self._joining = joining
        self._deleted: dict[int, list[_Deleted]] = {}
        self._caught_up: dict[int, list[str]] = {}

    def appended(self, batch: int, record: LogRecord) -> None:
        """A record is on its way."""
        key, value = record
        if type(key) is not GroupMetadataKey:
            return
        if key.group in self.behind:
            self.behind.discard(key.group)
            self._caught_up.setdefault(batch, []).append(key.group)
        if value is None:
            topics = self._joining.topics.pop(key.group, None)
            shadow = self._membership.deleted(key.group)
            self._deleted.setdefault(batch, []).append(_Deleted(key.group, shadow, topics))

    def lost(self, batches: list[Batch], told: ErrorCode) -> None:
        """Batches will never be durable; whoever waits for them is told so."""
        numbers = {batch.number for batch in batches}
        self._ledger.lost(numbers, told)
        self._committed.lost(numbers)
        for batch in reversed(batches):
            self.behind.update(self._caught_up.pop(batch.number, []))
            for deleted in reversed(self._deleted.pop(batch.number, [])):
                self._membership.undeleted(deleted.group_id, deleted.shadow)
                self._joining.topics[deleted.group_id] = deleted.topics

    def failed(self, batches: list[Batch]) -> None:
        """Batches were lost while the coordinator lives on: some logs are behind now."""
        self.behind.update(key.group for key, value in _generations(batches) if not value.members)

    def undone(self, shard: Shard, batches: list[Batch]) -> None:
        """A group whose first record was lost is gone again (S5)."""
        deleted = {
            encode_key(key)
            for key, _ in _generations(batches)
            for batch in batches
            if (encode_key(key), None) in batch.pairs
        }
        for key, value in _generations(batches):
            if value.generation or value.members or encode_key(key) in deleted:
                continue
            known = key.group in shard.logged.groups or key.group in shard.logged.offsets
            gone = known or key.group not in shard.groups
            require(gone, "S5", f"{key.group} is there, its record is not")

    def vanished(self, group_id: str) -> None:
        """A group whose record was lost is gone, as if it had never been."""
        self._membership.deleted(group_id)
        self._joining.topics.pop(group_id, None)

    def restarted(self) -> None:
        """Memory comes from the log now: nothing is behind, nothing on its way."""
        self.behind.clear()
        self._caught_up.clear()


def _generations(batches: list[Batch]) -> Iterator[tuple[GroupMetadataKey, GroupMetadataValue]]:
    """The records of groups in some batches, tombstones left out."""
    for batch in batches:
        for key_bytes, value_bytes in batch.pairs:
            key = decode_key(key_bytes)
            if type(key) is GroupMetadataKey and value_bytes is not None:
                value = decode_value(key, value_bytes)
                assert value is not None
                yield key, value
