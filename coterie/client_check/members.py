"""A member of the client's group that the scenario plays: it joins, leads and follows on command.

It sends no heartbeats; its session timeout is longer than any run.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from coterie.assignors import MemberSubscription, TopicPartition
from coterie.client_check.broker import NODE, ScriptedBroker
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages import consumer_protocol as consumer
from coterie.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from coterie.protocol.wire import Message
from coterie.testing.loopback import ask

_R = TypeVar("_R", bound=Message)

_SESSION_TIMEOUT_MS = 3_600_000
_REBALANCE_TIMEOUT_MS = 60_000


class ScriptedMember:
    """One member.

    Attributes:
        name: for the conversation.
        member_id: the id that the coordinator gave; "" before.
        generation: the newest generation that it joined.
        joined: the newest response to its JoinGroup.
        sync_error: the error of its newest SyncGroup.
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
        self.name = name
        self.member_id = ""
        self.generation = -1
        self.joined: JoinGroupResponse | None = None
        self.sync_error = 0
        self.owned: tuple[TopicPartition, ...] = ()
        self.topics = tuple(topics)
        self._broker = broker
        self._group_id = group_id
        self._protocols = tuple(protocols)
        self._instance_id = instance_id

    @property
    def is_leader(self) -> bool:
        """Whether it leads its newest generation."""
        return self.joined is not None and self.joined.leader == self.member_id

    async def join(self) -> JoinGroupResponse:
        """Join the group, or its next generation, and return the response."""
        response = await self._join()
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            response = await self._join()
        if not response.error_code:
            self.member_id = response.member_id
            self.generation = response.generation_id
        self.joined = response
        return response

    async def _join(self) -> JoinGroupResponse:
        metadata = consumer.encode_subscription(
            consumer.ConsumerProtocolSubscription(
                topics=list(self.topics),
                user_data=_sticky_data(self.owned, self.generation) if self.owned else None,
                owned_partitions=_by_topic(self.owned),
                generation_id=self.generation,
            )
        )
        return await self._ask(
            JoinGroupRequest(
                group_id=self._group_id,
                session_timeout_ms=_SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
                member_id=self.member_id,
                group_instance_id=self._instance_id,
                protocol_type="consumer",
                protocols=[
                    JoinGroupRequestProtocol(name=name, metadata=metadata)
                    for name in self._protocols
                ],
            ),
            JoinGroupResponse,
        )

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
        encoded = {each: encoded_assignment(own) for each, own in (assignment or {}).items()}
        joined = self.joined
        assert joined is not None, "a member joins first"
        response = await self._ask(
            SyncGroupRequest(
                group_id=self._group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self._instance_id,
                protocol_type=joined.protocol_type,
                protocol_name=joined.protocol_name,
                assignments=[
                    SyncGroupRequestAssignment(member_id=each, assignment=data)
                    for each, data in (encoded | dict(raw or {})).items()
                ],
            ),
            SyncGroupResponse,
        )
        self.sync_error = response.error_code
        self.owned = decoded_assignment(response.assignment)
        return self.owned

    def others(self) -> list[str]:
        """Return the ids of the other members of the generation that it leads."""
        assert self.joined is not None, "a member joins first"
        return [each.member_id for each in self.joined.members if each.member_id != self.member_id]

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets as this member, or without a group before it has joined."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            listed = OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=""
            )
            topics.setdefault(topic, []).append(listed)
        names = self._broker.server.topics.by_name
        await self._ask(
            OffsetCommitRequest(
                group_id=self._group_id,
                generation_id_or_member_epoch=self.generation,
                member_id=self.member_id,
                group_instance_id=self._instance_id,
                topics=[
                    OffsetCommitRequestTopic(
                        name=topic, topic_id=names[topic].topic_id, partitions=listed
                    )
                    for topic, listed in topics.items()
                ],
            ),
            OffsetCommitResponse,
        )

    async def _ask(self, request: Message, cls: type[_R]) -> _R:
        api = ApiKey(type(request).api_key or 0)
        talk = self._broker.conversation
        version = SERVED_VERSIONS[api][1]
        exchange = talk.request(self.name, 0, NODE, api, version, None, request)
        response = await ask(self._broker.server, request, cls)
        talk.answered(exchange, response)
        return response


def encoded_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Return an assignment as bytes."""
    message = consumer.ConsumerProtocolAssignment(assigned_partitions=_by_topic(partitions))
    return consumer.encode_assignment(message, 0)


def decoded_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of an assignment; none if the bytes are empty or no assignment."""
    try:
        decoded = consumer.decode_assignment(data) if data else None
    except MalformedFrame:
        return ()
    return () if decoded is None else _flat(decoded.assigned_partitions)


def subscription_of(member: Any) -> MemberSubscription:
    """Return the subscription of a member in the response to a leader's JoinGroup."""
    decoded = consumer.decode_subscription(member.metadata)
    return MemberSubscription(
        member.member_id,
        tuple(decoded.topics),
        _flat(decoded.owned_partitions),
        decoded.generation_id if decoded.generation_id >= 0 else None,
        member.group_instance_id,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[consumer.TopicPartition]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [consumer.TopicPartition(topic=name, partitions=own) for name, own in topics.items()]


def _flat(topics: Iterable[Any]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic, index) for each in topics for index in each.partitions)


def _sticky_data(owned: Iterable[TopicPartition], generation: int) -> bytes:
    """Return what a member with the assignor sticky has: its partitions and their generation."""
    listed = _by_topic(owned)
    data = len(listed).to_bytes(4, "big")
    for each in listed:
        name = each.topic.encode()
        data += len(name).to_bytes(2, "big") + name + len(each.partitions).to_bytes(4, "big")
        data += b"".join(index.to_bytes(4, "big") for index in each.partitions)
    return data + generation.to_bytes(4, "big")
