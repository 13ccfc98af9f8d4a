"""A member of a consumer group (KIP-848) on a connection of its own."""

from __future__ import annotations

import asyncio

from benchmarks.requests import REBALANCE_TIMEOUT_MS, Refused
from benchmarks.session import NOT_READY, PATIENCE_S, RETRY_AFTER_S, Conversation, Session
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)

# The numbers of partitions by topic id.
_Owned = dict[bytes, list[int]]


class ConsumerMember:
    """A member: it takes over and gives up at once what an answer tells it.

    Attributes:
        group: the name of its group.
        member_id: its id. All have the same length, that of a UUID in the letters of base64.
        epoch: the epoch that it was told.
        owned: its partitions by topic id.
    """

    def __init__(
        self, session: Session, conversation: Conversation, group: str, number: int = 0
    ) -> None:
        """Prepare a member, which does not join yet."""
        self._agreed = session.requests.agreed(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        self._conversation = conversation
        self.group = group
        self.member_id = f"bench-{number:016d}"
        self.epoch = 0
        self.owned: _Owned = {}
        # What the broker was told of it.
        self._told: _Owned = {}

    async def join(self, topic: str) -> None:
        """Join the group as a subscriber of a topic.

        Raises:
            Refused: the broker answered with an error that does not pass.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        while True:
            try:
                await self._exchange(request)
            except Refused as refused:
                if refused.code not in NOT_READY or loop.time() > deadline:
                    raise
                await asyncio.sleep(RETRY_AFTER_S)
            else:
                return

    async def beat(self) -> bool:
        """Send a heartbeat; return whether its answer was news, or it had something to tell.

        Raises:
            Refused: the broker answered with an error.
        """
        before = self.epoch, self.owned
        request = self.heartbeat()
        told = self.owned != self._told
        if told:
            self._told = self.owned
            request.topic_partitions = [
                HeartbeatTopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in self.owned.items()
            ]
        await self._exchange(request)
        return told or (self.epoch, self.owned) != before

    async def leave(self) -> None:
        """Leave the group."""
        self.epoch, self.owned, self._told = -1, {}, {}
        await self._exchange(self.heartbeat())

    async def settle(self) -> None:
        """Send heartbeats until it has partitions and nothing is new.

        Raises:
            Refused: the broker answered with an error.
            ConnectionError: it got no partition.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while await self.beat() or not self.owned:
            if loop.time() > deadline:
                raise ConnectionError(f"the member of {self.group!r} was not given the partition")

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """Return the heartbeat that tells nothing new."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch
        )

    async def _exchange(self, request: ConsumerGroupHeartbeatRequest) -> None:
        frame = self._agreed.frame(request)
        response: ConsumerGroupHeartbeatResponse = self._agreed.response(
            await self._conversation.exchange(frame)
        )
        if code := response.error_code:
            raise Refused(ApiKey.CONSUMER_GROUP_HEARTBEAT, code)
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = {
                each.topic_id: each.partitions
                for each in response.assignment.topic_partitions
                if each.partitions
            }
