"""A member of a share group (KIP-932): it joins until it has partitions, reads and acknowledges."""

from __future__ import annotations

import asyncio

from benchmarks.requests import Refused, first_error
from benchmarks.session import NOT_READY, PATIENCE_S, RETRY_AFTER_S, Conversation, Session
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.incremental_alter_configs import (
    SET,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from coterie.protocol.messages.share_acknowledge import (
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeTopic,
)
from coterie.protocol.messages.share_fetch import (
    AcquiredRecords,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
)
from coterie.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from coterie.protocol.messages.share_session_parts import AcknowledgementBatch

# The resource type of groups.
_GROUP = 32
_ALTER_VERSION = 1
_ACCEPT = 1
_BY_RECORDS = 1
_MAX_WAIT_MS = 500
_MAX_BYTES = 50 * 1024 * 1024
_CLOSES = -1


class ShareMember:
    """A member that sends heartbeats.

    Attributes:
        member_id: its id. All have the same length.
        epoch: the epoch that it was told.
    """

    def __init__(
        self, session: Session, conversation: Conversation, group: str, number: int = 0
    ) -> None:
        """Prepare a member, which does not join yet."""
        self._session = session
        self._conversation = conversation
        self._agreed = session.requests.agreed(ApiKey.SHARE_GROUP_HEARTBEAT)
        self._group = group
        self.member_id = f"bench-{number:016d}"
        self.epoch = 0
        self._owned = 0

    async def read_from_the_start(self) -> None:
        """Let the group read topics from their start.

        Raises:
            Refused: the broker does not change the setting.
        """
        config = IncrementalAlterConfigsRequestConfig(
            name="share.auto.offset.reset", config_operation=SET, value="earliest"
        )
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=_GROUP, resource_name=self._group, configs=[config]
        )
        api = self._session.requests.at(ApiKey.INCREMENTAL_ALTER_CONFIGS, _ALTER_VERSION)
        frame = api.frame(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        if code := first_error(api.response(await self._conversation.exchange(frame))):
            raise Refused(ApiKey.INCREMENTAL_ALTER_CONFIGS, code)

    async def join(self, topic: str, partitions: int) -> None:
        """Join, and send heartbeats until it has been given the partitions of a topic.

        Raises:
            Refused, ConnectionError: the group does not come about.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while self._owned < partitions:
            if loop.time() > deadline:
                raise ConnectionError(f"the member of {self._group!r} was not given the partitions")
            request = self.heartbeat()
            if not self.epoch:
                request.subscribed_topic_names = [topic]
            await self._exchange(request)
            await asyncio.sleep(RETRY_AFTER_S)
        # One that tells nothing new: its answer tells nothing new either.
        await self._exchange(self.heartbeat())

    def heartbeat(self) -> ShareGroupHeartbeatRequest:
        """Return the heartbeat that tells nothing new."""
        return ShareGroupHeartbeatRequest(
            group_id=self._group, member_id=self.member_id, member_epoch=self.epoch
        )

    async def _exchange(self, request: ShareGroupHeartbeatRequest) -> None:
        frame = self._agreed.frame(request)
        response: ShareGroupHeartbeatResponse = self._agreed.response(
            await self._conversation.exchange(frame)
        )
        if response.error_code in NOT_READY:
            return
        if response.error_code:
            raise Refused(ApiKey.SHARE_GROUP_HEARTBEAT, response.error_code)
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self._owned = sum(len(each.partitions) for each in response.assignment.topic_partitions)


class ShareReader:
    """Reads one partition: each fetch acknowledges what the one before has brought.

    It sends no heartbeats, which brokers do not ask of a share session.
    """

    def __init__(
        self, session: Session, conversation: Conversation, group: str, topic_id: bytes, index: int
    ) -> None:
        """Read nothing yet."""
        self._fetch = session.requests.agreed(ApiKey.SHARE_FETCH)
        self._acknowledge = session.requests.agreed(ApiKey.SHARE_ACKNOWLEDGE)
        self._conversation = conversation
        self._group = group
        self._topic_id = topic_id
        self._index = index
        self._epoch = 0
        self._held: list[AcknowledgementBatch] = []

    async def read(self, records: int, at_once: int) -> int:
        """Read and acknowledge records; return how many.

        Args:
            records: about how many.
            at_once: how many a fetch may bring; exactly one, or about that many.

        Raises:
            Refused: the broker answered with an error.
        """
        count = 0
        while count < records:
            acquired = await self._read_some(at_once)
            self._held = [
                AcknowledgementBatch.of(each.first_offset, each.last_offset, [_ACCEPT])
                for each in acquired
            ]
            count += sum(each.last_offset - each.first_offset + 1 for each in acquired)
        asked = ShareAcknowledgePartition(
            partition_index=self._index, acknowledgement_batches=self._held
        )
        topics = [ShareAcknowledgeTopic(topic_id=self._topic_id, partitions=[asked])]
        request = ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=_CLOSES,
            topics=topics,
        )
        answer = await self._conversation.exchange(self._acknowledge.frame(request))
        if code := first_error(self._acknowledge.response(answer)):
            raise Refused(ApiKey.SHARE_ACKNOWLEDGE, code)
        return count

    @property
    def _member_id(self) -> str:
        return f"bench-reader-{self._index}"

    async def _read_some(self, at_once: int) -> list[AcquiredRecords]:
        named = ShareFetchPartition(partition_index=self._index, acknowledgement_batches=self._held)
        topics = [ShareFetchTopic(topic_id=self._topic_id, partitions=[named])]
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            max_records=at_once,
            batch_size=at_once,
            share_acquire_mode=_BY_RECORDS if at_once == 1 else 0,
            topics=topics if self._held or not self._epoch else [],
            forgotten_topics_data=[],
        )
        self._epoch += 1
        answer = await self._conversation.exchange(self._fetch.frame(request))
        response: ShareFetchResponse = self._fetch.response(answer)
        if (code := first_error(response)) != ErrorCode.NONE:
            raise Refused(ApiKey.SHARE_FETCH, code)
        parts = [part for topic in response.responses for part in topic.partitions]
        if any(part.acknowledge_error_code for part in parts):
            raise Refused(ApiKey.SHARE_FETCH, parts[0].acknowledge_error_code)
        return [each for part in parts for each in part.acquired_records]
