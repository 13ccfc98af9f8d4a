"""DescribeTopicPartitions: topics page by page, in the order of their names (KIP-966).

[topics/description-pages]
"""

from collections.abc import Callable, Generator

from coterie.protocol.authorized_operations import TOPIC_OPERATIONS
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from coterie.server.cluster.image import ClusterImage
from coterie.server.logs.partition import Partition
from coterie.server.metadata.topic_rules import INTERNAL_TOPICS, invalid_name
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices
from coterie.server.services import Services

_PAGE_LIMIT = "max.request.partition.size.limit"


def handle(
    broker: Services,
    request: DescribeTopicPartitionsRequest,
    connection: Exchange,
    may_see: Callable[[str], bool] | None = None,
) -> DescribeTopicPartitionsResponse | None:
    """Return one page, which begins at the cursor of the request.

    `may_see` tells which topics are among all topics, if not all of them are.
    """
    return answer_in_slices(broker, connection, _answer(broker, request, may_see))


def _answer(
    broker: Services,
    request: DescribeTopicPartitionsRequest,
    may_see: Callable[[str], bool] | None,
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    asked = {each.name for each in request.topics}
    names = sorted(asked or filter(may_see, broker.topics.by_name))
    cursor = request.cursor
    first = 0
    if cursor is not None:
        if cursor.partition_index < 0 or (asked and cursor.topic_name not in asked):
            return DescribeTopicPartitionsResponse(
                topics=[_missing(name, ErrorCode.INVALID_REQUEST) for name in names]
            )
        names = [name for name in names if name >= cursor.topic_name]
        first = cursor.partition_index if names[:1] == [cursor.topic_name] else 0
    left = max(1, min(request.response_partition_limit, broker.config.get_int(_PAGE_LIMIT)))
    topics = []
    for name in names:
        yield
        topic = broker.topics.by_name.get(name)
        if topic is None:
            invalid = invalid_name(name) is not None
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topics.append(_missing(name, ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else error))
            topics[-1].topic_authorized_operations = TOPIC_OPERATIONS
            continue
        if not left:
            return _page(topics, name, first)
        partitions = topic.partitions[first : first + left]
        topics.append(
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.NONE,
                name=name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=[_partition(broker.image, each) for each in partitions],
                topic_authorized_operations=TOPIC_OPERATIONS,
            )
        )
        left -= len(partitions)
        if first + len(partitions) < len(topic.partitions):
            return _page(topics, name, first + len(partitions))
        first = 0
    return DescribeTopicPartitionsResponse(topics=topics)


def _page(
    topics: list[DescribeTopicPartitionsResponseTopic], next_topic: str, next_partition: int
) -> DescribeTopicPartitionsResponse:
    cursor = DescribeTopicPartitionsResponseCursor(
        topic_name=next_topic, partition_index=next_partition
    )
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def _missing(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error, name=name, is_internal=name in INTERNAL_TOPICS, partitions=[]
    )


def _partition(
    image: ClusterImage, partition: Partition
) -> DescribeTopicPartitionsResponsePartition:
    where = image.placement(partition)
    online = where.leader_id >= 0
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if online else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=where.leader_id,
        leader_epoch=where.leader_epoch,
        replica_nodes=where.replicas,
        isr_nodes=where.isr,
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=where.offline,
    )
