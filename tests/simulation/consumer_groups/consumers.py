"""A member of the consumer protocol, as Kafka's clients are.

Its first heartbeat, and the one after an error or a lost response, says everything. Otherwise it
says what it owns only after that has changed. It gives partitions up before it takes others, which
may take long; meanwhile it sends heartbeats.
"""

import re
from collections.abc import Iterable
from typing import Any

from coterie.coordinator.groups.consumer.states import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
)
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatTopicPartitions,
)
from tests.simulation.checks.violation import require
from tests.simulation.consumer_groups.processes import RETRIABLE, Partition, Process

_REGEXES = ("t.*", "t[01]", ".*", "none.*")
# After these errors the member drops its partitions and joins again.
_FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
# After these errors the process ends.
_FATAL = (
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
)


class ConsumerClient:
    """A client; see `Client`."""

    uses_classic = False
    owns_as_told = True

    def __init__(self, process: Process, member_id: str) -> None:
        self._process = process
        self._world = process.world
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.owned: frozenset[Partition] = frozenset()
        self.wanted: frozenset[Partition] = frozenset()
        self._said: frozenset[Partition] | None = None
        self._is_revoking = False
        self._says_all = True
        self._waits = False
        rng = self._world.rng
        self.rebalance_ms = rng.randint(2_000, 6_000)
        self._assignor = rng.choice((None, None, "uniform", "range"))
        self.names: list[str] | None = None
        self.regex: str | None = None
        if process.usual_topics and rng.random() < 0.7:
            self.names, self.regex = process.usual_topics, ""
        else:
            self._choose_topics()
        self._told: tuple[list[str] | None, str | None] = (self.names, self.regex)

    def __repr__(self) -> str:
        return f"ConsumerClient({self.member_id!r}, {self.epoch}, owns {len(self.owned)})"

    @property
    def is_settled(self) -> bool:
        """See `Client`."""
        return self.epoch > 0 and self.owned == self.wanted

    def wants(self, topic: str) -> bool:
        """See `Client`; these expressions mean the same to Python."""
        if self.names is not None and topic in self.names:
            return True
        return bool(self.regex) and re.fullmatch(self.regex or "", topic) is not None

    def _choose_topics(self) -> None:
        rng = self._world.rng
        if rng.random() < self._world.regexes:
            # Without names a heartbeat leaves those that the member had, or its predecessor.
            is_new = not self.names and self._process.instance_id is None
            self.names = rng.choice(([], None)) if is_new else []
            self.regex = rng.choice(_REGEXES)
        else:
            # A joiner without topics would be no trial of anything.
            self.names, self.regex = self._world.some_topics(), ""

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """See `Client`."""
        self._beat()

    def reconnect(self) -> None:
        """See `Client`."""
        self._waits, self._says_all = False, True
        self._beat()

    def resubscribe(self) -> None:
        """See `Client`."""
        self._choose_topics()
        self._says_all = True

    def refresh(self) -> None:
        """See `Client`; the coordinator knows the topics."""

    def leave(self) -> None:
        """See `Client`; a static member may only be away for a while, and a joiner just dies."""
        if self._waits or not self.epoch:
            return
        self.owned = frozenset()
        static = self._process.instance_id is not None
        epoch = STATIC_LEAVE_EPOCH if static and self._world.rng.random() < 0.8 else LEAVE_EPOCH
        request = self._request(epoch)
        self._process.request(request, 1)

    # -- heartbeats --------------------------------------------------------------------------------

    def _request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._process.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self._process.instance_id,
        )

    def _beat(self) -> None:
        if self._waits:
            return
        request = self._request(self.epoch)
        if self._says_all or self.epoch == JOIN_EPOCH:
            request.rebalance_timeout_ms = self.rebalance_ms
            request.subscribed_topic_names, request.subscribed_topic_regex = self.names, self.regex
            self._told = self.names, self.regex
            request.server_assignor = self._assignor
            request.topic_partitions = _listed(self.owned)
        elif self.owned != self._said:
            request.topic_partitions = _listed(self.owned)
        if request.topic_partitions is not None:
            self._said = self.owned
        self._waits = True
        self._process.request(request, 1)

    def receive(self, request: Any, message: Any) -> None:
        """See `Client`."""
        self._waits = False
        error = ErrorCode(message.error_code)
        if error:
            self._refused(error)
            return
        require(message.member_id == self.member_id, "answers", f"{message} to {self}")
        self.epoch = message.member_epoch
        self._says_all = self._told != (self.names, self.regex)
        if message.assignment is not None:
            self.wanted = frozenset(
                (topic.topic_id, index)
                for topic in message.assignment.topic_partitions
                for index in topic.partitions
            )
        self._go_on()
        self._process.after(self._world.heartbeat_delay_ms(), self._beat)

    def _refused(self, error: ErrorCode) -> None:
        rng = self._world.rng
        if error in _FENCED:
            self.owned = self.wanted = frozenset()
            self.epoch, self._says_all = JOIN_EPOCH, True
            # A group of classic members that may not be upgraded stays for a while.
            patience_ms = 2_000 if error == ErrorCode.GROUP_ID_NOT_FOUND else 300
            self._process.after(rng.randint(1, patience_ms), self._beat)
        elif error in _FATAL:
            self._process.stop(2_000)
        else:
            require(error in RETRIABLE, "answers", f"{error!r} to {self}")
            self._says_all = True
            self._process.after(rng.randint(20, 200), self._beat)

    # -- partitions --------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Give up what is not wanted any more; then take the rest."""
        if self._is_revoking:
            return
        if self.owned <= self.wanted:
            # What it has just said that it owns may have made others the owners of the rest.
            if not self._waits:
                self.owned = self.wanted
            return
        self._is_revoking = True
        delay_ms = self._world.revocation_ms(self.rebalance_ms)
        self._process.after(delay_ms, self._revoked, self.wanted)

    def _revoked(self, wanted: frozenset[Partition]) -> None:
        self._is_revoking = False
        self.owned &= wanted
        self._go_on()
        if not self._is_revoking:
            self._beat()


def _listed(partitions: Iterable[Partition]) -> list[HeartbeatTopicPartitions]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(partitions):
        topics.setdefault(topic_id, []).append(index)
    return [
        HeartbeatTopicPartitions(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in topics.items()
    ]
