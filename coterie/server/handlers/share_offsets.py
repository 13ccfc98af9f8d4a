"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets.

The group coordinator knows which partitions a group reads, share coordinators their start offsets,
and logs where they end [share-groups/describe-offsets].
"""

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

from coterie.coordinator.groups.share.refusal import offsets_error
from coterie.coordinator.groups.share.state_request import OffsetsResponse
from coterie.coordinator.share_state.requests import (
    NO_COUNT,
    NO_EPOCH,
    NO_OFFSET,
    ReadSummary,
    ShareKey,
    StateResult,
)
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode
from coterie.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from coterie.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from coterie.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from coterie.protocol.wire import ZERO_UUID, Message
from coterie.server.logs.partition import Partition
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.sliced_response import run_in_slices
from coterie.server.services import Services
from coterie.server.share_state.asking import Question, ask_each

# A lag that is not known.
_NO_LAG = -1
# The leader epoch of a partition without delivery state, as in Kafka.
_NO_LEADER = 0
# How many lags are computed in one step: some hundred microseconds.
_AT_ONCE = 64


def alter(
    broker: Services, request: AlterShareGroupOffsetsRequest, connection: Exchange
) -> OffsetsResponse | None:
    """Let an empty group begin at other offsets."""
    if not broker.features.serves_share_groups:
        return offsets_error(request, ErrorCode.UNSUPPORTED_VERSION)
    verb = broker.coordinator.alter_share_group_offsets
    return broker.groups.submit(verb, request, connection)


def delete(
    broker: Services, request: DeleteShareGroupOffsetsRequest, connection: Exchange
) -> OffsetsResponse | None:
    """Let an empty group forget where it was in some topics."""
    if not broker.features.serves_share_groups:
        return offsets_error(request, ErrorCode.UNSUPPORTED_VERSION)
    verb = broker.coordinator.delete_share_group_offsets
    return broker.groups.submit(verb, request, connection)


def describe(
    broker: Services, request: DescribeShareGroupOffsetsRequest, connection: Exchange
) -> DescribeShareGroupOffsetsResponse | None:
    """Tell where groups begin to read, and how much they have before them."""
    if not broker.features.serves_share_groups:
        return DescribeShareGroupOffsetsResponse(
            groups=[
                refused_group(each.group_id, ErrorCode.UNSUPPORTED_VERSION)
                for each in request.groups
            ]
        )
    delayed = DelayedResponse(connection)
    connection.delay_and_mute(delayed)
    _Description(broker, request, delayed).begin()
    return None


def refused_group(group_id: str, error: ErrorCode) -> DescribeShareGroupOffsetsResponseGroup:
    """Return the part of a group with an error; it has no text, as in Kafka."""
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=[], error_code=error)


class _Description:
    """The description of the groups of one request."""

    def __init__(
        self,
        broker: Services,
        request: DescribeShareGroupOffsetsRequest,
        delayed: DelayedResponse,
    ) -> None:
        self._broker = broker
        self._request = request
        self._delayed = delayed
        self._groups: list[DescribeShareGroupOffsetsResponseGroup] = []
        # Those whose lag can be computed: topic id, the part of the partition, and how many of its
        # records behind the start offset are done with.
        self._started: list[tuple[bytes, DescribeShareGroupOffsetsResponsePartition, int]] = []

    def begin(self) -> None:
        """Ask for the start offsets."""
        broker = self._broker
        ask_each(self._questions(), broker.persister.ask, self._open_logs, broker.loop.call_soon)

    # -- start offsets -----------------------------------------------------------------------------

    def _questions(self) -> Iterator[Question | None]:
        for asked in self._request.groups:
            group_id = asked.group_id
            group = DescribeShareGroupOffsetsResponseGroup(
                group_id=group_id, topics=[], error_code=ErrorCode.NONE
            )
            self._groups.append(group)
            yield None
            if asked.topics is not None:
                yield from self._named(group, asked.topics)
                continue
            topics = self._broker.coordinator.share_partitions(group_id)
            if isinstance(topics, ErrorCode):
                self._groups[-1] = refused_group(group_id, topics)
                continue
            for topic_id, topic in topics.items():
                part = _topic_part(group, topic.name, topic_id)
                yield from self._of_topic(group_id, part, sorted(topic.partitions))

    def _named(
        self,
        group: DescribeShareGroupOffsetsResponseGroup,
        topics: list[DescribeShareGroupOffsetsRequestTopic],
    ) -> Iterator[Question | None]:
        """Yield the questions about topics that a request names; unknown ones come last."""
        by_name = self._broker.topics.published.image.by_name
        if not group.group_id and any(each.topic_name in by_name for each in topics):
            self._groups[-1] = refused_group(group.group_id, ErrorCode.INVALID_GROUP_ID)
            return
        # Of each topic, its part and the partitions in it: what is named twice counts once.
        parts: dict[str, tuple[DescribeShareGroupOffsetsResponseTopic, set[int]]] = {}
        known = [each for each in topics if each.topic_name in by_name]
        unknown = [each for each in topics if each.topic_name not in by_name]
        for asked in (*known, *unknown):
            yield None
            name = asked.topic_name
            if name not in parts:
                topic_id = by_name[name].topic_id if name in by_name else ZERO_UUID
                parts[name] = _topic_part(group, name, topic_id), set()
            part, there = parts[name]
            indexes = [each for each in dict.fromkeys(asked.partitions) if each not in there]
            there.update(indexes)
            yield from self._of_topic(group.group_id, part, indexes)

    def _of_topic(
        self, group_id: str, topic: DescribeShareGroupOffsetsResponseTopic, indexes: list[int]
    ) -> Iterator[Question | None]:
        for index in indexes:
            part = without_offset(index)
            topic.partitions.append(part)
            request = ReadSummary(ShareKey(group_id, topic.topic_id, index), NO_EPOCH)
            # No state belongs to a topic that does not exist, or to a negative number.
            is_asked = topic.topic_id != ZERO_UUID and index >= 0
            yield (request, partial(self._take, topic.topic_id, part)) if is_asked else None

    def _take(
        self,
        topic_id: bytes,
        part: DescribeShareGroupOffsetsResponsePartition,
        result: StateResult,
    ) -> None:
        if result.error:
            part.error_code, part.error_message = result.error, result.message
            return
        part.start_offset, part.leader_epoch = result.start_offset, result.leader_epoch
        if result.start_offset != NO_OFFSET and result.delivery_complete_count != NO_COUNT:
            self._started.append((topic_id, part, result.delivery_complete_count))

    # -- lags --------------------------------------------------------------------------------------

    def _open_logs(self) -> None:
        """Open the logs whose ends are asked for."""
        opener = self._broker.logs.opener
        partitions = [
            each
            for each in map(self._partition, self._started)
            if each is not None and each.opened_log is None and opener.may_open(each)
        ]
        if partitions:
            opener.open(partitions, self._answer)
        else:
            self._answer()

    def _partition(
        self, started: tuple[bytes, DescribeShareGroupOffsetsResponsePartition, int]
    ) -> Partition | None:
        topic_id, part, _ = started
        topic = self._broker.topics.by_id.get(topic_id)
        return None if topic is None else topic.partition(part.partition_index)

    def _answer(self) -> None:
        delayed = self._delayed
        run_in_slices(self._broker, delayed.connection, self._with_lags(), delayed.send)

    def _with_lags(self) -> Generator[None, None, DescribeShareGroupOffsetsResponse]:
        for number, started in enumerate(self._started):
            partition, (_, part, count) = self._partition(started), started
            if partition is not None and partition.opened_log is not None:
                part.lag = partition.high_watermark - part.start_offset - count
            if not number % _AT_ONCE:
                yield
        return DescribeShareGroupOffsetsResponse(groups=self._groups)


def _topic_part(
    group: DescribeShareGroupOffsetsResponseGroup, name: str, topic_id: bytes
) -> DescribeShareGroupOffsetsResponseTopic:
    """Return a topic of a group, without partitions yet."""
    part = DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, partitions=[])
    group.topics.append(part)
    return part


def without_offset(
    index: int, error: ErrorCode = ErrorCode.NONE
) -> DescribeShareGroupOffsetsResponsePartition:
    """Return a partition of which nothing is known, or nothing may be said."""
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=NO_OFFSET,
        leader_epoch=_NO_LEADER,
        lag=_NO_LAG,
        error_code=error,
        error_message=DEFAULT_MESSAGES[error] if error else None,
    )


HANDLERS: dict[ApiKey, Callable[[Any, Any, Any], Message | None]] = {
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: describe,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: alter,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: delete,
}
