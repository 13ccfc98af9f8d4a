"""A consumer process that speaks the consumer protocol (KIP-848).

It sends heartbeats, and one at once after it has given up or taken over partitions. What it is told
while a batch is processed it does with its next poll. If that takes longer than
max.poll.interval.ms, it leaves, and joins again under the same id.
"""

from typing import Any

from coterie.conversation.consumer_protocol_member import FENCED, ConsumerProtocolMember
from coterie.lab.kernel import MS
from coterie.protocol.errors import ErrorCode
from tests.story.drawn.broker import Broker
from tests.story.drawn.timed_process import COMMIT_US, Settings, TimedProcess

_RETRY_US = 700_000
_HEARTBEAT_VERSION = 1


class ConsumerProcess(TimedProcess, ConsumerProtocolMember):
    """One process."""

    COMMIT_VERSION = 9

    def __init__(
        self, broker: Broker, settings: Settings, client: str, host: str, instance: str | None
    ) -> None:
        ConsumerProtocolMember.__init__(
            self,
            settings.group,
            "",
            names=[settings.group],
            topic_ids=broker.topic_ids,
            rebalance_ms=settings.max_poll_ms,
            instance_id=instance,
        )
        self.begin(broker, settings, client, host)
        self._lives = 0
        # What it was told while it was busy.
        self._told: frozenset[int] | None = None

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start as a new process, with an id of its own."""
        self._lives += 1
        self.is_running = True
        self._paused_until_us = self._busy_until_us = 0
        self.member_id = f"{self.client}@{self.host}-{self._lives}"
        self._join()

    def stop(self) -> None:
        """Stop in order. The place of a static member is kept for its session."""
        if self._phase == "member":
            self._commit_once()
            self._leave()
        self._down()

    def _leave(self) -> None:
        request = self.leave_request(_HEARTBEAT_VERSION)
        self.broker.submit(self._context, request, _HEARTBEAT_VERSION, lambda _: None)

    def _poll_is_due(self) -> None:
        if self._is_busy and self._phase == "member":
            self._leave()
            self._enter("left")
            self.owned, self._told = frozenset(), None
            self._act_at(self._busy_until_us, self._number, self._join)

    # -- the group ---------------------------------------------------------------------------------

    def _join(self) -> None:
        self.generation_id, self.owned, self._told = 0, frozenset(), None
        self._enter("member")
        self._beat()
        self._after(COMMIT_US, self._commit)

    def _unreachable(self) -> None:
        self.says_all = True
        self._after(_RETRY_US, self._beat)

    def _beat(self) -> None:
        if self._told is not None and not self._is_busy:
            self.owned, self._told = self._told, None
        owned = self.partitions(self.topic_ids[self.group_id], self.owned)
        request = self.heartbeat_request(owned, _HEARTBEAT_VERSION)
        self._send(request, _HEARTBEAT_VERSION, self._beaten)

    def _beaten(self, response: Any) -> None:
        told = self.take(response)
        error = response.error_code
        if error in FENCED:
            self._enter("member")
            self._after(5 * MS, self._join)
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self._down()
        elif error:
            self._after(_RETRY_US, self._beat)
        else:
            indexes = None if told is None else frozenset(each.partition for each in told)
            if indexes is not None and indexes != self.owned:
                self._told = indexes
            at_once = self._told is not None and not self._is_busy
            self._after(5 * MS if at_once else self.interval_ms * MS, self._beat)
