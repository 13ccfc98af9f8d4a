"""The coordinator under test, its log, and what another reader of the log makes of it.

Invariant: `records` is what the bytes of the log add up to, pending ones included.
"""

from collections.abc import Callable, Hashable
from random import Random
from typing import Any, NamedTuple

from coterie.conformance.harness import Batch, Pair
from coterie.coordinator.groups.config import ConsumerSettings
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.recorded.records import RecordedGroups
from coterie.coordinator.kernel.append import Append
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    decode_key,
    decode_value,
    group_of,
)
from coterie.protocol.messages.record_types import UnknownKey
from coterie.protocol.wire import Message
from tests.simulation.checks.violation import require
from tests.simulation.log import compact, newest
from tests.unit.coordinator.consumer.harness import ConsumerHarness


class Sent(NamedTuple):
    """A request on its way."""

    number: int
    request: Any


class CheckedGroups(ConsumerHarness):
    """The coordinator.

    Attributes:
        records: see the module.
        classic: the groups that have a record of a classic group in the log.
        appended: batches whose fate the world has not decided yet.
        outbox: responses that the world has not delivered yet, with their requests.
        durable_epochs: group, member and epoch of every current assignment that became durable.
        changed: the groups whose records have changed since the latest checks.
        answered: by group, the largest epoch that a member was told in this life of the group.
    """

    def __init__(self, settings: ConsumerSettings, policy: str) -> None:
        self.records = RecordedGroups(ConsumerGroup)
        self.classic: set[str] = set()
        self.appended: list[Batch] = []
        self.outbox: list[tuple[Sent, Any]] = []
        self.durable_epochs: set[tuple[str, str, int]] = set()
        self.answered: dict[str, int] = {}
        self.changed: set[str] = set()
        self._sent: dict[Hashable, Sent] = {}
        super().__init__(
            settings=settings,
            consumer={"migration_policy": policy, "regex_refresh_interval_ms": 600_000},
            group_min_session_timeout_ms=500,
            offsets_retention_check_interval_ms=60_000,
        )
        self.holds = True

    # -- requests ----------------------------------------------------------------------------------

    def request(self, number: int, request: Message, version: int, client: ClientContext) -> None:
        """Pass a request on; its response comes into the outbox."""
        self._sent[number] = Sent(number, request)
        context = RequestContext(client, version, number)
        self.carry_out(self.handle(request, context), number)

    def deliver(self, to: Any, message: Any) -> None:
        """See `CoordinatorHarness`; what a member is told is durable."""
        sent = self._sent.pop(to)
        request = sent.request
        if isinstance(request, ConsumerGroupHeartbeatRequest) and message.member_epoch > 0:
            told = (request.group_id, message.member_id, message.member_epoch)
            require(told in self.durable_epochs, "durable-answers", f"{told} is not durable")
            before = self.answered.get(request.group_id, 0)
            self.answered[request.group_id] = max(before, message.member_epoch)
        self.outbox.append((sent, message))

    # -- the log -----------------------------------------------------------------------------------

    def append(self, append: Append) -> Batch:
        """See `CoordinatorHarness`; the records are read as another reader would."""
        batch = super().append(append)
        self.written.clear()
        for pair in batch.pairs:
            self._read(pair)
        self.appended.append(batch)
        return batch

    def _read(self, pair: Pair) -> None:
        key = decode_key(pair[0])
        if isinstance(key, GroupMetadataKey):
            (self.classic.discard if pair[1] is None else self.classic.add)(key.group)
        if type(key) in self.records.keys:
            assert not isinstance(key, UnknownKey)
            self.records.apply(key, decode_value(key, pair[1]))
            self.changed.add(group_of(key))

    def _read_again(self) -> None:
        self.records, self.classic = RecordedGroups(ConsumerGroup), set()
        for pair in self.logs[0].durable:
            self._read(pair)
        for batch in self.logs[0].pending:
            for pair in batch.pairs:
                self._read(pair)

    def acknowledge(self, partition: int, count: int) -> None:
        """See `CoordinatorHarness`."""
        self._note_durable(count)
        super().acknowledge(partition, count)

    def _note_durable(self, count: int) -> None:
        for batch in list(self.logs[0].pending)[:count]:
            for raw_key, raw_value in batch.pairs:
                key = decode_key(raw_key)
                if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
                    value = decode_value(key, raw_value)
                    if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
                        self.durable_epochs.add((key.group_id, key.member_id, value.member_epoch))

    def fail(self, error: ErrorCode) -> None:
        """Lose all pending batches; the partition is loaded again."""
        self.fail_appends(0, error)
        self._read_again()

    def crash(self, survivors: Callable[[int], int]) -> None:
        """Crash and start again; some of the pending batches, the oldest ones, are durable."""
        pending = len(self.logs[0].pending)
        count = survivors(pending)
        self._note_durable(count)
        self.logs[0].acknowledge(count)
        self._sent.clear()
        self.outbox.clear()
        self.appended.clear()
        self.restart()
        self._read_again()

    def compact(self, rng: Random) -> None:
        """Compact a part of the log."""
        before = newest(self.logs[0])
        compact(self.logs[0], rng)
        require(newest(self.logs[0]) == before, "simulation", "the simulated cleaner is wrong")
        self._read_again()
