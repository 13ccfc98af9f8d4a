"""A consumer process: joins, commits every five seconds, leaves, dies, hangs or is paused.

It behaves as common libraries do. An eager one gives up its partitions before it rejoins, a
cooperative one rejoins after it has given some up. A thread of its own sends heartbeats while the
application processes a batch; if that takes longer than max.poll.interval.ms, it leaves the group.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from coterie.assignors import (
    MemberSubscription,
    TopicPartition,
    assign_cooperative_sticky,
    assign_range,
)
from coterie.coordinator.kernel.request import ClientContext
from coterie.lab.kernel import MS, SECOND
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages import consumer_protocol as consumer
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.story.drawn.broker import Broker

COOPERATIVE, EAGER = "cooperative-sticky", "range"
_COMMIT_US = 5 * SECOND
_RETRY_US = 700_000
_JOIN_VERSION, _SYNC_VERSION, _HEARTBEAT_VERSION, _LEAVE_VERSION, _COMMIT_VERSION = 9, 5, 4, 5, 8


class Settings(NamedTuple):
    """What all processes of a group have in common.

    Attributes:
        group: its id, which is also the name of its topic.
        partitions: of the topic.
        assignor: eager or cooperative.
        session_ms, max_poll_ms: the timeouts.
        gives_reasons: whether a process says why it leaves (KIP-800).
    """

    group: str
    partitions: int
    assignor: str
    session_ms: int
    max_poll_ms: int
    gives_reasons: bool


class Process:
    """One process.

    Attributes:
        client, host, instance: its names.
        is_running: whether it has been started and neither stopped nor killed.
        owned: its partitions.
        rejoins_anew: whether it takes a new member id after the broker was away for longer than the
            session timeout, as librdkafka does and Java's consumer, kafka-python and aiokafka do
            not.
    """

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
        self.broker = broker
        self.settings = settings
        self.client = client
        self.host = host
        self.instance = instance
        self.rejoins_anew = rejoins_anew
        self.is_running = False
        self.owned: frozenset[int] = frozenset()
        self._context = ClientContext(client_host=f"/{host}", client_id=client)
        self._member_id = ""
        self._generation = -1
        self._phase = "down"
        # What was scheduled in an earlier phase is not carried out.
        self._number = 0
        self._paused_until_us = self._busy_until_us = self._busy_since_us = 0
        self._heard_us = 0
        self._must_rejoin = False

    @property
    def identity(self) -> str:
        """The identity that findings name."""
        return self.instance or f"{self.client} at {self.host}"

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
        if self._member_id and self.instance is None:
            self._leave("the consumer is being closed")
        self._down()

    def kill(self) -> None:
        """Die without a word."""
        self._down()

    def pause(self, duration_us: int) -> None:
        """Do nothing for some time, as with SIGSTOP or on a suspended machine."""
        self._paused_until_us = self._now_us + duration_us

    def hang(self, duration_us: int) -> None:
        """Process a batch for some time, without a poll; heartbeats go on."""
        self._busy_since_us, self._busy_until_us = self._now_us, self._now_us + duration_us
        self._act_at(self._now_us + self.settings.max_poll_ms * MS, self._number, self._poll_is_due)

    def _down(self) -> None:
        self.is_running = False
        self._enter("down")
        self.owned = frozenset()

    def _forget(self) -> None:
        self._member_id, self._generation = "", -1
        self.owned = frozenset()

    def _poll_is_due(self) -> None:
        """Leave, because max.poll.interval.ms is over."""
        if self._busy_until_us <= self._now_us:
            return
        if self.instance is None and self._member_id:
            self._leave("consumer poll timeout has expired.")
        self._forget()
        self._enter("left")
        self._act_at(self._busy_until_us, self._number, self._join)

    # -- time --------------------------------------------------------------------------------------

    @property
    def _now_us(self) -> int:
        return self.broker.world.now_us

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._number += 1

    def _after(self, delay_us: int, call: Callable[..., None], *arguments: Any) -> None:
        self._act_at(self._now_us + delay_us, self._number, call, *arguments)

    def _act_at(self, at_us: int, number: int, call: Callable[..., None], *arguments: Any) -> None:
        self.broker.world.at(at_us, self._act, number, call, arguments)

    def _act(self, number: int, call: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if number != self._number:
            return
        if self._paused_until_us > self._now_us:
            self._act_at(self._paused_until_us + 5 * MS, number, call, *arguments)
            return
        call(*arguments)

    def _send(self, request: Any, version: int, then: Callable[[Any], None]) -> None:
        number = self._number

        def answered(response: Any) -> None:
            self._act(number, self._unreachable if response is None else then,
                      () if response is None else (response,))  # fmt: skip

        self.broker.submit(self._context, request, version, answered)

    def _unreachable(self) -> None:
        """Try again; after the session timeout a client may give up its member id."""
        is_over = self._now_us - self._heard_us > self.settings.session_ms * MS
        if is_over and self.rejoins_anew and self._member_id:
            self._forget()
            self._phase = "joining"
        again = self._heartbeat if self._phase == "member" else self._join
        self._enter(self._phase)
        if self._phase == "member":
            self._after(_COMMIT_US, self._commit)
        self._after(_RETRY_US, again)

    # -- the group ---------------------------------------------------------------------------------

    def _join(self) -> None:
        if self._busy_until_us > self._now_us:
            self._act_at(self._busy_until_us, self._number, self._join)
            return
        if self._phase == "member":
            self._commit_once()
        self._must_rejoin = False
        owned = sorted(self.owned)
        if self.settings.assignor == EAGER:
            self.owned, owned = frozenset(), []
        self._enter("joining")
        subscription = consumer.ConsumerProtocolSubscription(
            topics=[self.settings.group],
            owned_partitions=[
                consumer.TopicPartition(topic=self.settings.group, partitions=owned)
            ] if owned else [],
            generation_id=self._generation,
        )  # fmt: skip
        request = JoinGroupRequest(
            group_id=self.settings.group,
            session_timeout_ms=self.settings.session_ms,
            rebalance_timeout_ms=self.settings.max_poll_ms,
            member_id=self._member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(
                    name=self.settings.assignor,
                    metadata=consumer.encode_subscription(subscription, 2),
                )
            ],
        )
        self._send(request, _JOIN_VERSION, self._joined)

    def _joined(self, response: Any) -> None:
        self._heard_us = self._now_us
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            self._join()
        elif response.error_code == ErrorCode.NONE:
            self._member_id, self._generation = response.member_id, response.generation_id
            self._sync(response)
        else:
            self._refused(response.error_code)

    def _sync(self, joined: Any) -> None:
        self._enter("syncing")
        request = SyncGroupRequest(
            group_id=self.settings.group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=self._assignments(joined) if joined.leader == self._member_id else [],
        )
        self._send(request, _SYNC_VERSION, self._synced)

    def _assignments(self, joined: Any) -> list[SyncGroupRequestAssignment]:
        if joined.skip_assignment:
            return []
        topic = self.settings.group
        members = []
        for each in joined.members:
            subscription = consumer.decode_subscription(each.metadata)
            owned = tuple(
                TopicPartition(topic, number)
                for part in subscription.owned_partitions
                for number in part.partitions
            )
            members.append(
                MemberSubscription(
                    each.member_id,
                    (topic,),
                    owned,
                    subscription.generation_id,
                    group_instance_id=each.group_instance_id,
                )
            )
        cooperative = self.settings.assignor == COOPERATIVE
        assign = assign_cooperative_sticky if cooperative else assign_range
        found = assign({topic: self.settings.partitions}, members)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_encoded(topic, given))
            for member_id, given in found.items()
        ]

    def _synced(self, response: Any) -> None:
        self._heard_us = self._now_us
        if response.error_code != ErrorCode.NONE:
            self._refused(response.error_code)
            return
        assigned = frozenset(
            number
            for part in consumer.decode_assignment(response.assignment).assigned_partitions
            for number in part.partitions
        )
        revoked = self.owned - assigned
        self.owned = assigned
        self._enter("member")
        if revoked and self.settings.assignor == COOPERATIVE:
            self._join()
            return
        self._after(self._heartbeat_us, self._heartbeat)
        self._after(_COMMIT_US, self._commit)

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
        request = HeartbeatRequest(
            group_id=self.settings.group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self.instance,
        )
        self._send(request, _HEARTBEAT_VERSION, self._beaten)

    def _beaten(self, response: Any) -> None:
        self._heard_us = self._now_us
        error = response.error_code
        if error not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._refused(error)
            return
        # While a batch is processed the heartbeats go on. The member rejoins with its next poll.
        is_busy = self._busy_until_us > self._now_us
        if error == ErrorCode.REBALANCE_IN_PROGRESS and not is_busy:
            self._join()
            return
        self._after(min(self._heartbeat_us, max(0, self._busy_until_us - self._now_us) or
                        self._heartbeat_us), self._heartbeat)  # fmt: skip

    def _leave(self, reason: str) -> None:
        request = LeaveGroupRequest(
            group_id=self.settings.group,
            members=[
                LeaveGroupRequestMember(
                    member_id=self._member_id,
                    group_instance_id=self.instance,
                    reason=reason if self.settings.gives_reasons else None,
                )
            ],
        )
        self.broker.submit(self._context, request, _LEAVE_VERSION, lambda _: None)

    # -- commits -----------------------------------------------------------------------------------

    def _commit(self) -> None:
        if self._busy_until_us <= self._now_us:
            self._commit_once()
        self._after(_COMMIT_US, self._commit)

    def _commit_once(self) -> None:
        if not self.owned:
            return
        offset = self._now_us // 10_000
        request = OffsetCommitRequest(
            group_id=self.settings.group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            group_instance_id=self.instance,
            topics=[
                OffsetCommitRequestTopic(
                    name=self.settings.group,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=number, committed_offset=offset, committed_metadata=""
                        )
                        for number in sorted(self.owned)
                    ],
                )
            ],
        )
        self.broker.submit(self._context, request, _COMMIT_VERSION, lambda _: None)


def _encoded(topic: str, given: list[TopicPartition]) -> bytes:
    numbers = [each.partition for each in given]
    parts = [consumer.TopicPartition(topic=topic, partitions=numbers)] if numbers else []
    return consumer.encode_assignment(
        consumer.ConsumerProtocolAssignment(assigned_partitions=parts)
    )
