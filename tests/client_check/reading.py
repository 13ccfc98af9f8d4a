"""What the consumer for tests does with partitions: positions, fetches, commits, leader epochs."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from coterie.assignors.model import TopicPartition
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
)
from coterie.protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from coterie.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from coterie.protocol.messages.offset_commit import (
    OffsetCommitResponse,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from coterie.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
)
from coterie.protocol.records import decode_records, iterate_batches
from tests.client_check.wire import Link, Lost

if TYPE_CHECKING:
    from tests.client_check.program import Program

_WAIT_MS = 500
_BACKOFF_S = 0.1
_MAX_BYTES = 1 << 20


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


class Reader:
    """Reads the partitions of one consumer."""

    def __init__(self, consumer: "Program", printed: Callable[[str], object]) -> None:
        self.is_processing = False
        self._consumer = consumer
        self._printed = printed
        self._flaws = consumer.flaws
        # The errors after which it reads from the beginning.
        self._begins_again = {ErrorCode.OFFSET_OUT_OF_RANGE}
        if "begins-again-when-refused" in self._flaws:
            self._begins_again.add(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self._positions: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._leader_epochs: dict[TopicPartition, int] = {}
        self.topic_ids: dict[str, bytes] = {}
        self._link: Link | None = None

    async def _ask(self, request: Any, response: Any) -> Any:
        if self._link is None:
            self._link = await self._consumer.open(self._consumer.bootstrap)
        try:
            return await self._link.ask(request, response)
        except Lost:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection to the leader."""
        if self._link is not None:
            self._link.close()
        self._link = None

    # --- metadata ---------------------------------------------------------------------------------

    async def counts(self, topics: Collection[str] | None) -> dict[str, int]:
        """Return the number of partitions of each topic that exists; of all with None."""
        asked = None if topics is None else [MetadataRequestTopic(name=each) for each in topics]
        request = MetadataRequest(topics=asked)
        while True:
            response = await self._ask(request, MetadataResponse)
            mine = [each for each in response.topics if each.name == self._consumer.topic]
            if not any(each.error_code for each in mine):
                break
            await asyncio.sleep(_BACKOFF_S)
        for topic in response.topics:
            self.topic_ids[topic.name] = topic.topic_id
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                self._leader_epochs[partition] = each.leader_epoch
        return {each.name: len(each.partitions) for each in response.topics if not each.error_code}

    async def _refresh(self) -> None:
        """Ask for metadata; look the end of the read epoch up where the leader epoch is new."""
        before = dict(self._leader_epochs)
        await self.counts([self._consumer.topic])
        if "ignores-truncation" in self._flaws:
            return
        newer = [
            each
            for each in self._positions
            if self._leader_epochs[each] > before.get(each, -1) >= 0
        ]
        if not newer:
            return
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderEpochRequestTopic(
                    topic=topic,
                    partitions=[
                        OffsetForLeaderEpochRequestPartition(
                            partition=index,
                            current_leader_epoch=self._leader_epochs[TopicPartition(topic, index)],
                            leader_epoch=self._epochs.get(TopicPartition(topic, index), 0),
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in _by_topic(newer).items()
            ],
        )
        response = await self._ask(request, OffsetForLeaderEpochResponse)
        for topic in response.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.topic, each.partition)
                end = min(self._positions[partition], each.end_offset)
                self._positions[partition] = end

    # --- positions --------------------------------------------------------------------------------

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Stop reading all partitions but these."""
        self._positions = {
            each: offset for each, offset in self._positions.items() if each in partitions
        }

    async def add(self, partitions: Collection[TopicPartition]) -> None:
        """Begin to read partitions at their committed offsets."""
        new = [each for each in partitions if each not in self._positions]
        if not new:
            return
        committed = await self._committed_offsets(new)
        if committed is None:
            return
        if self._flaws & {"ignores-committed", "stops-everything"}:
            committed = {}
        lost = [each for each in new if committed.get(each, -1) < 0]
        positions = {each: offset for each, offset in committed.items() if offset >= 0}
        if lost:
            positions |= await self._earliest(lost)
        self._committed |= positions
        self._positions |= positions

    async def _committed_offsets(
        self, new: list[TopicPartition]
    ) -> dict[TopicPartition, int] | None:
        consumer = self._consumer
        await self.counts([consumer.topic])
        topics = [
            OffsetFetchRequestTopic(
                name=topic, topic_id=self.topic_ids[topic], partition_indexes=own
            )
            for topic, own in _by_topic(new).items()
        ]
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        group = consumer.offsets_of(topics)
        request = OffsetFetchRequest(group_id=consumer.group_id, topics=topics, groups=[group])
        while True:
            try:
                response = await consumer.ask_coordinator(request, OffsetFetchResponse)
            except Lost:
                await asyncio.sleep(_BACKOFF_S)
                continue
            found = response.groups[0] if response.groups else response
            errors = [found.error_code] + [
                each.error_code for topic in found.topics for each in topic.partitions
            ]
            error = next((each for each in errors if each), 0)
            if not error:
                return {
                    TopicPartition(topic.name or names[topic.topic_id], each.partition_index): (
                        each.committed_offset
                    )
                    for topic in found.topics
                    for each in topic.partitions
                }
            consumer.handle(error)
            is_stale = error == ErrorCode.STALE_MEMBER_EPOCH and "gives-up-stale" in self._flaws
            if is_stale or error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
                return None
            await asyncio.sleep(_BACKOFF_S)

    async def _earliest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsRequestTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsRequestPartition(
                            partition_index=index, timestamp=EARLIEST_TIMESTAMP
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in _by_topic(partitions).items()
            ],
        )
        while True:
            try:
                response = await self._ask(request, ListOffsetsResponse)
            except Lost:
                await asyncio.sleep(_BACKOFF_S)
                continue
            return {
                TopicPartition(topic.name, each.partition_index): each.offset
                for topic in response.topics
                for each in topic.partitions
            }

    # --- fetches ----------------------------------------------------------------------------------

    async def fetches(self) -> None:
        """Read all partitions, again and again."""
        while True:
            if not self._positions:
                await asyncio.sleep(_BACKOFF_S)
                continue
            try:
                response = await self._ask(self._fetch_request(), FetchResponse)
                await self._handle(response)
            except Lost:
                await asyncio.sleep(_BACKOFF_S)

    def _fetch_request(self) -> FetchRequest:
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            topics=[
                FetchRequestTopic(
                    topic=topic,
                    topic_id=self.topic_ids[topic],
                    partitions=[
                        FetchRequestPartition(
                            partition=index,
                            current_leader_epoch=self._leader_epochs[TopicPartition(topic, index)],
                            fetch_offset=self._positions[TopicPartition(topic, index)],
                            partition_max_bytes=_MAX_BYTES,
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in _by_topic(self._positions).items()
            ],
        )

    async def _handle(self, response: FetchResponse) -> None:
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        refresh = False
        for topic in response.responses:
            for each in topic.partitions:
                name = topic.topic or names[topic.topic_id]
                partition = TopicPartition(name, each.partition_index)
                if partition not in self._positions:
                    continue
                if each.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    self._consumer.report(f"{name} may not be read")
                if each.error_code in self._begins_again:
                    self._positions |= await self._earliest([partition])
                elif each.error_code:
                    refresh = True
                else:
                    await self._process(partition, each.records or b"")
        if refresh:
            await asyncio.sleep(_BACKOFF_S)
            await self._refresh()

    async def _process(self, partition: TopicPartition, data: bytes) -> None:
        for position, header in iterate_batches(data):
            for record in decode_records(data, header, position):
                if record.offset < self._positions.get(partition, 1 << 62):
                    continue
                value = (record.value or b"").decode()
                if value.startswith("sleep "):
                    self.is_processing = True
                    await asyncio.sleep(float(value.split()[1]))
                    self.is_processing = False
                if partition not in self._positions:
                    return
                self._printed(f"{partition.topic} {partition.partition} {record.offset} {value}")
                self._positions[partition] = record.offset + 1
                self._epochs[partition] = header.leader_epoch

    # --- commits ----------------------------------------------------------------------------------

    async def commit(self) -> bool:
        """Commit the positions that have changed; return whether none is left."""
        consumer = self._consumer
        beyond = int("commits-beyond" in self._flaws)
        changed = {
            each: offset + beyond
            for each, offset in self._positions.items()
            if self._committed.get(each) != offset + beyond
        }
        if not changed:
            return True
        link = await consumer.coordinator()
        version = link.version(ApiKey.OFFSET_COMMIT)
        offsets = {each: changed[each] for each in sorted(changed)}
        request = consumer.commit_request(offsets, version, self.topic_ids)
        response = await consumer.ask_coordinator(request, OffsetCommitResponse)
        errors = [each.error_code for topic in response.topics for each in topic.partitions]
        error = next((each for each in errors if each), 0)
        is_stale = error == ErrorCode.STALE_MEMBER_EPOCH and "gives-up-stale" in self._flaws
        if not error or is_stale:
            self._committed |= changed
            return True
        consumer.handle(error)
        return False
