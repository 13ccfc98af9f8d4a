"""How a client's place in its group shows in the conversation, for each of the two protocols.

A scenario that holds for both asks its run for joins, heartbeats and identity, and does not name
the requests.
"""

from typing import Protocol

from coterie.assignors.model import TopicPartition
from coterie.client_check.conversation import ClientExchange, Conversation
from coterie.conversation.consumer_protocol_member import JOIN_EPOCH
from coterie.conversation.subscriptions import decoded_assignment
from coterie.protocol.messages.consumer_group_heartbeat import HeartbeatTopicPartitions

# The values of `--protocol` and of {protocol}; those of group.protocol of Kafka's clients.
CLASSIC = "classic"
CONSUMER = "consumer"
BOTH = (CLASSIC, CONSUMER)
# A session is long for a client of the classic protocol that is silent for half of it, and an
# interval for one of the consumer protocol that misses two heartbeats.
_SILENT_PART = 0.5
_SILENT_INTERVALS = 3


class Membership(Protocol):
    """The client as a member.

    Attributes:
        join, heartbeat: Kafka's names of the APIs with which it joins and stays.
    """

    join: str
    heartbeat: str

    def joins(self, after: int = 0) -> list[ClientExchange]:
        """Return the requests with which it joins, after a place."""

    def leaves(self, after: int = 0) -> list[ClientExchange]:
        """Return the requests with which it leaves, after a place."""

    def identity(self) -> tuple[int, str]:
        """Return its newest generation or epoch, and its member id; -1 and "" before it has one."""

    def settled(self, generation: int, after: int) -> ClientExchange | None:
        """Return the newest exchange that gave it an assignment.

        Args:
            generation: in a later generation or epoch than this one.
            after: after this place.
        """

    def assigned(self, exchange: ClientExchange) -> tuple[TopicPartition, ...]:
        """Return the partitions that the response of such an exchange has."""

    def silence_limit_s(self, session_ms: int) -> float:
        """Return how long it may send no heartbeat, at a session timeout."""


class ClassicMembership:
    """JoinGroup, SyncGroup and Heartbeat; see `Membership`."""

    join = "JoinGroup"
    heartbeat = "Heartbeat"

    def __init__(self, talk: Conversation) -> None:
        """Read a conversation."""
        self._talk = talk

    def joins(self, after: int = 0) -> list[ClientExchange]:
        """Return its JoinGroups; see `Membership`."""
        return self._talk.of("JoinGroup", after=after)

    def leaves(self, after: int = 0) -> list[ClientExchange]:
        """Return its LeaveGroups; see `Membership`."""
        return self._talk.of("LeaveGroup", after=after)

    def identity(self) -> tuple[int, str]:
        """Return what its newest JoinGroup was answered; see `Membership`."""
        for each in reversed(self.joins()):
            if each.response is not None and not each.error:
                return each.response.generation_id, each.response.member_id
        return -1, ""

    def settled(self, generation: int, after: int) -> ClientExchange | None:
        """Return a SyncGroup; see `Membership`."""
        for sync in reversed(self._talk.of("SyncGroup", after=after)):
            if sync.error or sync.response is None:
                continue
            if sync.request.generation_id > generation:
                return sync
        return None

    def assigned(self, exchange: ClientExchange) -> tuple[TopicPartition, ...]:
        """Return the partitions in the response to a SyncGroup; see `Membership`."""
        if exchange.response is None:
            return ()
        return decoded_assignment(exchange.response.assignment)

    def silence_limit_s(self, session_ms: int) -> float:
        """Return a part of the session; see `Membership`."""
        return max(session_ms / 1000 * _SILENT_PART, 1.0)


class ConsumerMembership:
    """ConsumerGroupHeartbeat (KIP-848); see `Membership`."""

    join = "ConsumerGroupHeartbeat"
    heartbeat = "ConsumerGroupHeartbeat"

    def __init__(self, talk: Conversation, topic_names: dict[bytes, str]) -> None:
        """Read a conversation; topics have these names."""
        self._talk = talk
        self._topic_names = topic_names

    def joins(self, after: int = 0) -> list[ClientExchange]:
        """Return its heartbeats with epoch 0; see `Membership`."""
        beats = self._talk.of(self.heartbeat, after=after)
        return [each for each in beats if each.request.member_epoch == JOIN_EPOCH]

    def leaves(self, after: int = 0) -> list[ClientExchange]:
        """Return its heartbeats with a negative epoch; see `Membership`."""
        beats = self._talk.of(self.heartbeat, after=after)
        return [each for each in beats if each.request.member_epoch < 0]

    def identity(self) -> tuple[int, str]:
        """Return what its newest heartbeat was answered; see `Membership`."""
        for each in reversed(self._talk.of(self.heartbeat)):
            if each.response is not None and not each.error and each.response.member_epoch > 0:
                return each.response.member_epoch, each.response.member_id
        return -1, ""

    def settled(self, generation: int, after: int) -> ClientExchange | None:
        """Return a heartbeat that was answered with an assignment; see `Membership`."""
        for beat in reversed(self.assignments(after)):
            if beat.response.member_epoch > generation:
                return beat
        return None

    def assignments(self, after: int = 0) -> list[ClientExchange]:
        """Return the heartbeats after a place that were answered with an assignment."""
        beats = self._talk.of(self.heartbeat, after=after)
        return [
            each
            for each in beats
            if each.response is not None and each.response.assignment is not None
        ]

    def assigned(self, exchange: ClientExchange) -> tuple[TopicPartition, ...]:
        """Return the assignment of a response; see `Membership`."""
        if exchange.response is None or exchange.response.assignment is None:
            return ()
        return self._listed(exchange.response.assignment.topic_partitions)

    def owned(self, exchange: ClientExchange) -> tuple[TopicPartition, ...] | None:
        """Return the partitions that a heartbeat says it owns; None if it does not say."""
        told = exchange.request.topic_partitions
        return None if told is None else self._listed(told)

    def silence_limit_s(self, session_ms: int) -> float:  # noqa: ARG002 - the broker says the interval
        """Return some intervals; see `Membership`."""
        intervals_ms = [
            each.response.heartbeat_interval_ms
            for each in self._talk.of(self.heartbeat)
            if each.response is not None
        ]
        return _SILENT_INTERVALS * max(intervals_ms, default=0) / 1000

    def _listed(self, topics: list[HeartbeatTopicPartitions]) -> tuple[TopicPartition, ...]:
        return tuple(
            TopicPartition(self._topic_names.get(each.topic_id, "?"), index)
            for each in topics
            for index in each.partitions
        )
