"""A member of the consumer protocol, as Kafka's clients are.

It gives partitions up before it takes others, which may take long; meanwhile it sends heartbeats.
"""

import re
from collections.abc import Iterable
from typing import Any

from coterie.conversation.consumer_protocol_member import FENCED, HeartbeatMember
from coterie.protocol.errors import ErrorCode
from tests.simulation.checks.violation import require
from tests.simulation.consumer_groups.processes import RETRIABLE, Partition, Process

_REGEXES = ("t.*", "t[01]", ".*", "none.*")
_VERSION = 1
# After these errors the process ends.
_FATAL = (
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
)


class ConsumerClient(HeartbeatMember[Partition]):
    """A client; see `Client`."""

    uses_classic = False
    owns_as_told = True

    def __init__(self, process: Process, member_id: str) -> None:
        self._process = process
        self._world = process.world
        rng = self._world.rng
        super().__init__(
            process.group_id,
            member_id,
            names=None,
            rebalance_ms=rng.randint(2_000, 6_000),
            assignor=rng.choice((None, None, "uniform", "range")),
            instance_id=process.instance_id,
        )
        self.owned: frozenset[Partition] = frozenset()
        self.wanted: frozenset[Partition] = frozenset()
        self._is_revoking = False
        self._waits = False
        if process.usual_topics and rng.random() < 0.7:
            self.names, self.regex = process.usual_topics, ""
        else:
            self._choose_topics()

    def id_of(self, partition: Partition) -> bytes:
        """Return the id of the topic; see `HeartbeatMember`."""
        return partition[0]

    def partitions(self, topic_id: bytes, indexes: Iterable[int]) -> Iterable[Partition]:
        """Return partitions of a topic; see `HeartbeatMember`."""
        return [(topic_id, index) for index in indexes]

    def __repr__(self) -> str:
        return f"ConsumerClient({self.member_id!r}, {self.generation_id}, owns {len(self.owned)})"

    @property
    def is_settled(self) -> bool:
        """See `Client`."""
        return self.generation_id > 0 and self.owned == self.wanted

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
        self._waits, self.says_all = False, True
        self._beat()

    def resubscribe(self) -> None:
        """See `Client`."""
        self._choose_topics()
        self.says_all = True

    def refresh(self) -> None:
        """See `Client`; the coordinator knows the topics."""

    def leave(self) -> None:
        """See `Client`; a static member may only be away for a while, and a joiner just dies."""
        if self._waits or not self.generation_id:
            return
        self.owned = frozenset()
        for_good = self.instance_id is not None and self._world.rng.random() >= 0.8
        self._process.request(self.leave_request(_VERSION, for_good=for_good), _VERSION)

    # -- heartbeats --------------------------------------------------------------------------------

    def _beat(self) -> None:
        if self._waits:
            return
        self._waits = True
        self._process.request(self.heartbeat_request(self.owned, _VERSION), _VERSION)

    def receive(self, request: Any, message: Any) -> None:
        """See `Client`."""
        self._waits = False
        error = ErrorCode(message.error_code)
        is_mine = bool(error) or message.member_id == self.member_id
        require(is_mine, "answers", f"{message} to {self}")
        wanted = self.take(message)
        if error:
            self._refused(error)
            return
        if wanted is not None:
            self.wanted = wanted
        self._go_on()
        self._process.after(self._world.heartbeat_delay_ms(), self._beat)

    def _refused(self, error: ErrorCode) -> None:
        rng = self._world.rng
        if error in FENCED:
            self.owned = self.wanted = frozenset()
            # A group of classic members that may not be upgraded stays for a while.
            patience_ms = 2_000 if error == ErrorCode.GROUP_ID_NOT_FOUND else 300
            self._process.after(rng.randint(1, patience_ms), self._beat)
        elif error in _FATAL:
            self._process.stop(2_000)
        else:
            require(error in RETRIABLE, "answers", f"{error!r} to {self}")
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
