"""A member of a streams group (KIP-1071), whose topology is one subtopology without state."""

from __future__ import annotations

import asyncio
from functools import partial

from benchmarks.requests import REBALANCE_TIMEOUT_MS, Refused
from benchmarks.session import PATIENCE_S, RETRY_AFTER_S, Conversation, Session, until_ready
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsHeartbeatSubtopology,
    StreamsHeartbeatTaskIds,
    StreamsHeartbeatTopology,
)

_TOPOLOGY_EPOCH = 0


class StreamsMember:
    """A member that is a process of its own: it takes over at once what an answer tells it.

    Attributes:
        member_id: its id. All have the same length.
        epoch: the epoch that it was told.
    """

    def __init__(
        self, session: Session, conversation: Conversation, group: str, number: int = 0
    ) -> None:
        """Prepare a member, which does not join yet."""
        self._agreed = session.requests.agreed(ApiKey.STREAMS_GROUP_HEARTBEAT)
        self._conversation = conversation
        self._group = group
        self.member_id = f"bench-{number:016d}"
        self.epoch = 0
        self._active: list[StreamsHeartbeatTaskIds] = []
        # What the broker was told of it.
        self._told: list[StreamsHeartbeatTaskIds] = []

    async def join(self, topic: str) -> None:
        """Join the group as an application that reads a topic.

        Raises:
            Refused: the broker answered with an error that does not pass.
        """
        subtopology = StreamsHeartbeatSubtopology(
            subtopology_id="0",
            source_topics=[topic],
            source_topic_regex=[],
            state_changelog_topics=[],
            repartition_sink_topics=[],
            repartition_source_topics=[],
            copartition_groups=[],
        )
        request = self.heartbeat()
        request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
        request.topology = StreamsHeartbeatTopology(
            epoch=_TOPOLOGY_EPOCH, subtopologies=[subtopology]
        )
        request.process_id = self.member_id
        request.active_tasks, request.standby_tasks, request.warmup_tasks = [], [], []
        await until_ready(partial(self._exchange, request))

    async def settle(self) -> None:
        """Send heartbeats until it has tasks and nothing is new.

        The first tasks of a group are assigned after `group.streams.initial.rebalance.delay.ms`.

        Raises:
            Refused: the broker answered with an error.
            ConnectionError: it got no task.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while await self._beat() or not self._active:
            if loop.time() > deadline:
                raise ConnectionError(f"the member of {self._group!r} was not given the tasks")
            if not self._active:
                await asyncio.sleep(RETRY_AFTER_S)

    async def _beat(self) -> bool:
        """Send a heartbeat; return whether its answer was news, or it had something to tell."""
        before = self.epoch, self._active
        request = self.heartbeat()
        told = self._active != self._told
        if told:
            request.active_tasks = self._told = self._active
            request.standby_tasks, request.warmup_tasks = [], []
        await self._exchange(request)
        return told or (self.epoch, self._active) != before

    def heartbeat(self) -> StreamsGroupHeartbeatRequest:
        """Return the heartbeat that tells nothing new."""
        return StreamsGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            endpoint_information_epoch=0,
        )

    async def _exchange(self, request: StreamsGroupHeartbeatRequest) -> None:
        response: StreamsGroupHeartbeatResponse = self._agreed.response(
            await self._conversation.exchange(self._agreed.frame(request))
        )
        if response.error_code:
            raise Refused(ApiKey.STREAMS_GROUP_HEARTBEAT, response.error_code)
        self.epoch = response.member_epoch
        if response.active_tasks is not None:
            self._active = response.active_tasks
