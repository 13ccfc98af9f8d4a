"""A consumer process: joins, commits every five seconds, leaves, dies, hangs or is paused.

It behaves as common libraries do. An eager one gives up its partitions before it rejoins, a
cooperative one rejoins after it has given some up. A thread of its own sends heartbeats while the
application processes a batch; if that takes longer than max.poll.interval.ms, it leaves the group.
"""

from typing import Any

from coterie.assignors.cooperative_sticky import assign_cooperative_sticky
from coterie.assignors.model import TopicPartition
from coterie.assignors.range import assign_range
from coterie.conversation.member import ClassicMember
from coterie.conversation.subscriptions import (
    decoded_assignment,
    encoded_assignment,
    encoded_subscription,
    subscription_of,
)
from coterie.lab.kernel import MS
from coterie.protocol.errors import ErrorCode
from tests.story.drawn.broker import Broker
from tests.story.drawn.timed_process import COMMIT_US, Settings, TimedProcess

COOPERATIVE, EAGER = "cooperative-sticky", "range"
_RETRY_US = 700_000
_JOIN_VERSION, _SYNC_VERSION, _HEARTBEAT_VERSION, _LEAVE_VERSION = 9, 5, 4, 5


class Process(TimedProcess, ClassicMember):
    """One process.

    Attributes:
        rejoins_anew: whether it takes a new member id after the broker was away for longer than the
            session timeout, as librdkafka does and Java's consumer, kafka-python and aiokafka do
            not.
    """

    COMMIT_VERSION = 8

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        client: str,
        host: str,
        instance: str | None,
        *,
        rejoins_anew: bool,
    ) -> None:
        ClassicMember.__init__(
            self,
            settings.group,
            protocols=(settings.assignor,),
            session_ms=settings.session_ms,
            rebalance_ms=settings.max_poll_ms,
            instance_id=instance,
        )
        self.begin(broker, settings, client, host)
        self.rejoins_anew = rejoins_anew
        self._heard_us = 0
        self._must_rejoin = False

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start as a new process."""
        self.is_running = True
        self._paused_until_us = self._busy_until_us = 0
        self._forget()
        self._join()

    def stop(self) -> None:
        """Stop in order. A static member does not leave its group (KIP-345)."""
        if self._phase == "member":
            self._commit_once()
        if self.member_id and self.instance_id is None:
            self._leave("the consumer is being closed")
        self._down()

    def _forget(self) -> None:
        self.member_id, self.generation_id = "", -1
        self.owned = frozenset()

    def _poll_is_due(self) -> None:
        """Leave, because max.poll.interval.ms is over."""
        if not self._is_busy:
            return
        if self.instance_id is None and self.member_id:
            self._leave("consumer poll timeout has expired.")
        self._forget()
        self._enter("left")
        self._act_at(self._busy_until_us, self._number, self._join)

    def _unreachable(self) -> None:
        """Try again; after the session timeout a client may give up its member id."""
        is_over = self._now_us - self._heard_us > self.settings.session_ms * MS
        if is_over and self.rejoins_anew and self.member_id:
            self._forget()
            self._phase = "joining"
        again = self._heartbeat if self._phase == "member" else self._join
        self._enter(self._phase)
        if self._phase == "member":
            self._after(COMMIT_US, self._commit)
        self._after(_RETRY_US, again)

    # -- the group ---------------------------------------------------------------------------------

    def _join(self) -> None:
        if self._is_busy:
            self._act_at(self._busy_until_us, self._number, self._join)
            return
        if self._phase == "member":
            self._commit_once()
        self._must_rejoin = False
        if self.settings.assignor == EAGER:
            self.owned = frozenset()
        self._enter("joining")
        request = self.join_request(_JOIN_VERSION)
        self._send(request, _JOIN_VERSION, self._joined)

    def metadata(self, protocol: str) -> bytes:
        """Return its subscription."""
        owned = [TopicPartition(self.group_id, number) for number in sorted(self.owned)]
        return encoded_subscription([self.group_id], owned, self.generation_id, version=2)

    def _joined(self, response: Any) -> None:
        self._heard_us = self._now_us
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.take_join(response)
            self._join()
        elif response.error_code == ErrorCode.NONE:
            self.take_join(response)
            self._sync(response)
        else:
            self._refused(response.error_code)

    def _sync(self, joined: Any) -> None:
        self._enter("syncing")
        request = self.sync_request(self._assignments(joined) if self.leads else {}, _SYNC_VERSION)
        self._send(request, _SYNC_VERSION, self._synced)

    def _assignments(self, joined: Any) -> dict[str, bytes]:
        if joined.skip_assignment:
            return {}
        members = [subscription_of(each) for each in joined.members]
        cooperative = self.settings.assignor == COOPERATIVE
        assign = assign_cooperative_sticky if cooperative else assign_range
        found = assign({self.group_id: self.settings.partitions}, members)
        return {member_id: encoded_assignment(given) for member_id, given in found.items()}

    def _synced(self, response: Any) -> None:
        self._heard_us = self._now_us
        if response.error_code != ErrorCode.NONE:
            self._refused(response.error_code)
            return
        assigned = frozenset(each.partition for each in decoded_assignment(response.assignment))
        revoked = self.owned - assigned
        self.owned = assigned
        self._enter("member")
        if revoked and self.settings.assignor == COOPERATIVE:
            self._join()
            return
        self._after(self._heartbeat_us, self._heartbeat)
        self._after(COMMIT_US, self._commit)

    def _refused(self, error: int) -> None:
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            if error == ErrorCode.UNKNOWN_MEMBER_ID:
                self._forget()
            self._enter("joining")
            self._after(5 * MS, self._join)
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self._down()
        else:
            self._enter("joining")
            self._after(100 * MS, self._join)

    @property
    def _heartbeat_us(self) -> int:
        return min(9_000, max(2_000, self.settings.session_ms // 5)) * MS

    def _heartbeat(self) -> None:
        request = self.heartbeat_request(_HEARTBEAT_VERSION)
        self._send(request, _HEARTBEAT_VERSION, self._beaten)

    def _beaten(self, response: Any) -> None:
        self._heard_us = self._now_us
        error = response.error_code
        if error not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._refused(error)
            return
        # While a batch is processed the heartbeats go on. The member rejoins with its next poll.
        if error == ErrorCode.REBALANCE_IN_PROGRESS and not self._is_busy:
            self._join()
            return
        self._after(min(self._heartbeat_us, max(0, self._busy_until_us - self._now_us) or
                        self._heartbeat_us), self._heartbeat)  # fmt: skip

    def _leave(self, reason: str) -> None:
        shown = reason if self.settings.gives_reasons else None
        request = self.leave_request(_LEAVE_VERSION, shown)
        self.broker.submit(self._context, request, _LEAVE_VERSION, lambda _: None)
