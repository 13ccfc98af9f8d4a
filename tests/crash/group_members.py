"""Members of groups in a story, of both protocols, and the ledger that says what they were told.

A moment is a number of operations of the disk. What was answered at a moment is a promise from then
on; what was asked for at a moment may have taken effect from then on.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from coterie.conversation.member import ClassicMember
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatTopicPartitions,
)
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.crash.broker_run import AGAIN

LEAVE, LEAVE_FOR_A_WHILE = -1, -2
REBALANCE_MS = 30_000
_SESSION_MS = 45_000
# More rounds of heartbeats than a group needs to come to rest.
_ROUNDS = 8

# A partition of a topic id.
Partition = tuple[bytes, int]


class Broker(Protocol):
    """What members ask."""

    @property
    def done(self) -> int:
        """The moment."""

    def ask_all(self, request: Any, version: int) -> Any:
        """Return the answer to a request."""

    def pause(self) -> None:
        """Let time pass until a request that was refused for a while is sent again."""


class State(NamedTuple):
    """What a member knows of itself.

    Attributes:
        since: from which moment on.
        epoch: its epoch, or its generation.
        owned: the partitions that it owns.
    """

    since: int
    epoch: int
    owned: frozenset[Partition]


class Life(NamedTuple):
    """A group, from its creation to its deletion.

    Attributes:
        group_id: its id.
        asked: the moments at which a member asked for something that may change it.
        members: those that it has had.
        deleted: when its deletion was asked for, and when that was answered; empty for never.
    """

    group_id: str
    asked: list[int]
    members: "list[StoryMember]"
    deleted: list[int]

    def told(self, operations: int) -> int:
        """Return the largest epoch that a member was told until a moment."""
        states = [state for each in self.members for state in each.states]
        return max((each.epoch for each in states if each.since <= operations), default=-1)


class Commit(NamedTuple):
    """An offset, when it was asked for and answered, None for never; no offset is -1."""

    asked: int
    answered: int | None
    offset: int


class Ledger:
    """What clients know.

    Attributes:
        lives: of every group, in order.
        commits: by group, topic and partition, in order.
    """

    def __init__(self) -> None:
        """Begin with a broker that nobody has asked anything."""
        self.lives: list[Life] = []
        self.commits: dict[tuple[str, str, int], list[Commit]] = {}

    def life(self, group_id: str) -> Life:
        """Return the group that lives; it is created if there is none."""
        for each in self.lives:
            if each.group_id == group_id and not each.deleted:
                return each
        self.lives.append(Life(group_id, [], [], []))
        return self.lives[-1]

    def commit(self, key: tuple[str, str, int], commit: Commit) -> None:
        """Note an offset."""
        self.commits.setdefault(key, []).append(commit)


class StoryMember:
    """A member of a group.

    Attributes:
        states: what it was told, in order.
        ends: the moment from which on it may be gone, because that was asked for.
    """

    uses_classic = False

    def __init__(
        self, broker: Broker, ledger: Ledger, group_id: str, member_id: str, **fields: Any
    ) -> None:
        """Describe a member that has not joined.

        Args:
            broker: what it asks.
            ledger: what it notes.
            group_id, member_id: the names.
            fields: of its first heartbeat.
        """
        self._broker = broker
        self._life = ledger.life(group_id)
        self._ledger = ledger
        self.group_id = group_id
        self.member_id = member_id
        self._fields = fields
        self.epoch = 0
        self.owned: frozenset[Partition] = frozenset()
        self.states: list[State] = []
        self.ends: int | None = None

    def __repr__(self) -> str:
        return f"{self.member_id} of {self.group_id} at {self.epoch}"

    def at(self, operations: int) -> State | None:
        """Return what it knew at a moment; None if it was no member, or may be gone."""
        if self.ends is not None and self.ends <= operations:
            return None
        known = [each for each in self.states if each.since <= operations]
        return known[-1] if known else None

    def after_crash(self, broker: Broker, state: State) -> "StoryMember":
        """Return the same member, which goes on with another broker, and notes nothing here."""
        again = type(self)(broker, Ledger(), self.group_id, self.member_id, **self._fields)
        again.epoch, again.owned = state.epoch, state.owned
        return again

    def _asks(self) -> None:
        self._life.asked.append(self._broker.done)

    def _knows(self) -> None:
        self.states.append(State(self._broker.done, self.epoch, self.owned))
        if self not in self._life.members:
            self._life.members.append(self)

    def beat(self, epoch: int | None = None) -> ErrorCode:
        """Send a heartbeat that says everything, and take what it answers.

        Args:
            epoch: another one than its own, with which it leaves.
        """
        self._asks()
        owned: dict[bytes, list[int]] = {}
        for topic_id, index in sorted(self.owned):
            owned.setdefault(topic_id, []).append(index)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            rebalance_timeout_ms=REBALANCE_MS,
            topic_partitions=[
                HeartbeatTopicPartitions(topic_id=each, partitions=indexes)
                for each, indexes in owned.items()
            ],
            **self._fields,
        )
        while (answer := self._broker.ask_all(request, 1)).error_code in AGAIN:
            self._broker.pause()
        if not answer.error_code and epoch is None:
            self._take(answer)
        return ErrorCode(answer.error_code)

    def _take(self, answer: Any) -> None:
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            wanted = frozenset(
                (topic.topic_id, index)
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
            )
            # What it gives up it says before it takes anything else.
            self.owned = self.owned & wanted if self.owned - wanted else wanted
        self._knows()

    def join(self) -> "StoryMember":
        """Become a member."""
        error = self.beat()
        assert not error, f"{self} is refused: {error!r}"
        return self

    def leave(self, epoch: int = LEAVE) -> None:
        """Leave, or be away for a while."""
        self.ends = self._broker.done
        error = self.beat(epoch)
        assert not error, f"{self} may not leave: {error!r}"

    def commit(self, topic: str, partition: int, offset: int) -> None:
        """Commit an offset with its epoch."""
        asked = self._broker.done
        each = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[each])],
        )
        answer = self._broker.ask_all(request, 9)
        error = answer.topics[0].partitions[0].error_code
        assert not error, f"a commit of {self} is refused: {error!r}"
        key = self.group_id, topic, partition
        self._ledger.commit(key, Commit(asked, self._broker.done, offset))


class ClassicStoryMember(StoryMember):
    """A member of the classic protocol, alone in a classic group or in a consumer group.

    Its fields are `topics`, the names of those to which it subscribes, and `counts`, the partitions
    of each that it takes if it leads a classic group.
    """

    uses_classic = True

    def __init__(
        self, broker: Broker, ledger: Ledger, group_id: str, member_id: str, **fields: Any
    ) -> None:
        super().__init__(broker, ledger, group_id, member_id, **fields)
        self._client = _Client(group_id, tuple(fields["topics"]))
        self._client.member_id = member_id
        self._topics: dict[str, int] = fields["topics"]

    def after_crash(self, broker: Broker, state: State) -> "StoryMember":
        """See `StoryMember`."""
        again = super().after_crash(broker, state)
        assert isinstance(again, ClassicStoryMember)
        again._client.member_id, again._client.generation_id = self.member_id, state.epoch
        return again

    def join(self) -> "StoryMember":
        """Join, or join again, and take the assignment."""
        client = self._client
        self._asks()
        while (answer := self._broker.ask_all(client.join_request(9), 9)).error_code:
            assert answer.error_code in (*AGAIN, ErrorCode.MEMBER_ID_REQUIRED), answer
            client.take_join(answer)
        client.take_join(answer)
        self.member_id = client.member_id
        given = {client.member_id: _all_of(self._topics)} if client.leads else {}
        answer = self._broker.ask_all(client.sync_request(given, 5), 5)
        assert not answer.error_code, f"{self} gets no assignment: {answer}"
        topics = decode_assignment(answer.assignment).assigned_partitions
        self.epoch = client.generation_id
        self.owned = frozenset(
            (each.topic.encode(), index) for each in topics for index in each.partitions
        )
        self._knows()
        return self

    def beat(self, epoch: int | None = None) -> ErrorCode:
        """Send a heartbeat, or leave; join again if that is asked for."""
        client = self._client
        self._asks()
        if epoch is not None:
            answer = self._broker.ask_all(client.leave_request(4), 4)
            return ErrorCode(answer.error_code or answer.members[0].error_code)
        while (answer := self._broker.ask_all(client.heartbeat_request(4), 4)).error_code in AGAIN:
            self._broker.pause()
        error = ErrorCode(answer.error_code)
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            error = ErrorCode.NONE
        return error


class _Client(ClassicMember):
    def __init__(self, group_id: str, topics: tuple[str, ...]) -> None:
        super().__init__(
            group_id, protocols=("range",), session_ms=_SESSION_MS, rebalance_ms=REBALANCE_MS
        )
        self._topics = topics

    def metadata(self, protocol: str) -> bytes:
        """See `ClassicMember`."""
        assert protocol in self.protocols
        return encode_subscription(ConsumerProtocolSubscription(topics=list(self._topics)), 1)


def _all_of(topics: dict[str, int]) -> bytes:
    assigned = [TopicPartition(topic=name, partitions=[*range(n)]) for name, n in topics.items()]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned), 1)


def settle(members: Iterable[StoryMember]) -> None:
    """Let members send heartbeats until nothing changes any more."""
    every = list(members)
    for _ in range(_ROUNDS):
        before = [(each.epoch, each.owned) for each in every]
        for each in every:
            error = each.beat()
            assert not error, f"a heartbeat of {each} is refused: {error!r}"
        if before == [(each.epoch, each.owned) for each in every]:
            return
    raise AssertionError(f"{every} do not come to rest")
