"""A member of the client's group that the scenario plays: it joins, leads and follows on command.

It sends no heartbeats; its session timeout is longer than any run.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from coterie.assignors import TopicPartition
from coterie.client_check.broker import NODE, ScriptedBroker
from coterie.conversation.member import ClassicMember
from coterie.conversation.subscriptions import (
    by_topic,
    decoded_assignment,
    encoded_assignment,
    encoded_subscription,
)
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupResponse
from coterie.protocol.messages.offset_commit import OffsetCommitResponse
from coterie.protocol.messages.sync_group import SyncGroupResponse
from coterie.protocol.wire import Message
from coterie.testing.loopback import ask

_R = TypeVar("_R", bound=Message)

_SESSION_TIMEOUT_MS = 3_600_000
_REBALANCE_TIMEOUT_MS = 60_000


class ScriptedMember(ClassicMember):
    """One member.

    Attributes:
        name: for the conversation.
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
        self.name = name
        self.sync_error = 0
        self.owned: tuple[TopicPartition, ...] = ()
        self.topics = tuple(topics)
        self._broker = broker

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
        response = await self._ask(request, JoinGroupResponse)
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
        response = await self._ask(request, SyncGroupResponse)
        self.sync_error = response.error_code
        self.owned = decoded_assignment(response.assignment)
        return self.owned

    def others(self) -> list[str]:
        """Return the ids of the other members of the generation that it leads."""
        assert self.joined is not None, "a member joins first"
        return [each.member_id for each in self.joined.members if each.member_id != self.member_id]

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets as this member, or without a group before it has joined."""
        names = self._broker.server.topics.by_name
        topic_ids = {topic: names[topic].topic_id for topic, _ in offsets}
        request = self.commit_request(offsets, _version(ApiKey.OFFSET_COMMIT), topic_ids)
        await self._ask(request, OffsetCommitResponse)

    async def _ask(self, request: Message, cls: type[_R]) -> _R:
        api = ApiKey(type(request).api_key or 0)
        talk = self._broker.conversation
        exchange = talk.request(self.name, 0, NODE, api, _version(api), None, request)
        response = await ask(self._broker.server, request, cls)
        talk.answered(exchange, response)
        return response


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
