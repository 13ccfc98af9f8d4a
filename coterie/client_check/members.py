"""Members of the client's group that the scenario plays: they do what they are asked to.

They send no heartbeats by themselves; their session timeouts are longer than any run.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from coterie.assignors.model import TopicPartition
from coterie.client_check.broker import NODE, ScriptedBroker
from coterie.conversation.consumer_protocol_member import ConsumerProtocolMember
from coterie.conversation.member import ClassicMember, Member
from coterie.conversation.subscriptions import (
    by_topic,
    decoded_assignment,
    encoded_assignment,
    encoded_subscription,
)
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from coterie.protocol.messages.join_group import JoinGroupResponse
from coterie.protocol.messages.offset_commit import OffsetCommitResponse
from coterie.protocol.messages.sync_group import SyncGroupResponse
from coterie.protocol.wire import Message
from coterie.testing.loopback import ask

_R = TypeVar("_R", bound=Message)

_SESSION_TIMEOUT_MS = 3_600_000
_REBALANCE_TIMEOUT_MS = 60_000


class _Voice:
    """What scripted members say to the broker, and where the conversation keeps it."""

    def __init__(self, broker: ScriptedBroker, name: str) -> None:
        self._broker = broker
        self._name = name

    async def ask(self, request: Message, cls: type[_R]) -> _R:
        """Return the response to a request."""
        api = ApiKey(type(request).api_key or 0)
        talk = self._broker.conversation
        exchange = talk.request(self._name, 0, NODE, api, _version(api), None, request)
        response = await ask(self._broker.server, request, cls)
        talk.answered(exchange, response)
        return response

    async def commit(self, member: Member, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets as a member, or without a group before it has joined."""
        topic_ids = {topic: self._broker.topic_id(topic) for topic, _ in offsets}
        request = member.commit_request(offsets, _version(ApiKey.OFFSET_COMMIT), topic_ids)
        await self.ask(request, OffsetCommitResponse)


class ScriptedMember(ClassicMember):
    """One member of a classic group.

    Attributes:
        sync_error: the error of its newest SyncGroup.
        topics, owned: its subscription and its partitions.
    """

    def __init__(
        self,
        broker: ScriptedBroker,
        group_id: str,
        name: str,
        *,
        protocols: Sequence[str],
        topics: Sequence[str],
        instance_id: str | None = None,
    ) -> None:
        """Describe a member that subscribes to topics and supports some assignors."""
        super().__init__(
            group_id,
            protocols=tuple(protocols),
            session_ms=_SESSION_TIMEOUT_MS,
            rebalance_ms=_REBALANCE_TIMEOUT_MS,
            instance_id=instance_id,
        )
        self.sync_error = 0
        self.owned: tuple[TopicPartition, ...] = ()
        self.topics = tuple(topics)
        self._voice = _Voice(broker, name)

    def metadata(self, protocol: str) -> bytes:  # noqa: ARG002 - the same for all protocols
        """Return the subscription, with the user data of the assignor sticky if it owns any."""
        data = _sticky_data(self.owned, self.generation_id) if self.owned else None
        return encoded_subscription(self.topics, self.owned, self.generation_id, user_data=data)

    async def join(self) -> JoinGroupResponse:
        """Join the group, or its next generation, and return the response."""
        response = await self._join()
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            response = await self._join()
        return response

    async def _join(self) -> JoinGroupResponse:
        request = self.join_request(_version(ApiKey.JOIN_GROUP))
        response = await self._voice.ask(request, JoinGroupResponse)
        self.take_join(response)
        return response

    async def sync(
        self,
        assignment: Mapping[str, Iterable[TopicPartition]] | None = None,
        raw: Mapping[str, bytes] | None = None,
    ) -> tuple[TopicPartition, ...]:
        """Send SyncGroup; return the member's own partitions.

        Args:
            assignment: partitions by member id, from a leader.
            raw: further assignments by member id, as bytes.
        """
        encoded = {each: encoded_assignment(own, 0) for each, own in (assignment or {}).items()}
        request = self.sync_request(encoded | dict(raw or {}), _version(ApiKey.SYNC_GROUP))
        response = await self._voice.ask(request, SyncGroupResponse)
        self.sync_error = response.error_code
        self.owned = decoded_assignment(response.assignment)
        return self.owned

    def others(self) -> list[str]:
        """Return the ids of the other members of the generation that it leads."""
        assert self.joined is not None, "a member joins first"
        return [each.member_id for each in self.joined.members if each.member_id != self.member_id]

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets as this member, or without a group before it has joined."""
        await self._voice.commit(self, offsets)


class ScriptedConsumerMember(ConsumerProtocolMember):
    """One member of the consumer protocol, which takes and gives up what it is asked to at once.

    Attributes:
        owned: its partitions.
    """

    def __init__(
        self,
        broker: ScriptedBroker,
        group_id: str,
        name: str,
        topic: str,
    ) -> None:
        """Describe a member that subscribes to a topic; its id is its name."""
        super().__init__(
            group_id,
            name,
            names=(topic,),
            topic_ids={topic: broker.topic_id(topic)},
            rebalance_ms=_REBALANCE_TIMEOUT_MS,
        )
        self.owned: frozenset[TopicPartition] = frozenset()
        self._voice = _Voice(broker, name)

    async def heartbeat(self) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat, the first one to join, and return the response."""
        version = _version(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        request = self.heartbeat_request(self.owned, version)
        response = await self._voice.ask(request, ConsumerGroupHeartbeatResponse)
        given = self.take(response)
        if given is not None:
            self.owned = given
        return response

    async def leave(self) -> None:
        """Leave the group."""
        request = self.leave_request(_version(ApiKey.CONSUMER_GROUP_HEARTBEAT))
        await self._voice.ask(request, ConsumerGroupHeartbeatResponse)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets as this member."""
        await self._voice.commit(self, offsets)


def _version(api: ApiKey) -> int:
    return SERVED_VERSIONS[api][1]


def _sticky_data(owned: Iterable[TopicPartition], generation: int) -> bytes:
    """Return what a member with the assignor sticky has: its partitions and their generation."""
    listed = by_topic(owned)
    data = len(listed).to_bytes(4, "big")
    for each in listed:
        name = each.topic.encode()
        data += len(name).to_bytes(2, "big") + name + len(each.partitions).to_bytes(4, "big")
        data += b"".join(index.to_bytes(4, "big") for index in each.partitions)
    return data + generation.to_bytes(4, "big")
