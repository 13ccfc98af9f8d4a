"""DescribeProducers: the producers that partitions remember (KIP-664).

[data-plane/described-producers]
"""

from collections.abc import Generator

from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode
from coterie.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResponsePartition,
    DescribeProducersResponseProducer,
    DescribeProducersResponseTopic,
)
from coterie.server.handlers.closed_logs import must_wait
from coterie.server.logs.partition import Partition
from coterie.server.metadata.topic_rules import invalid_name
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices
from coterie.server.services import Services
from coterie.storage.errors import StorageError

# How many producers are listed in one step: about a millisecond.
_AT_ONCE = 500


def handle(
    broker: Services, request: DescribeProducersRequest, connection: Exchange
) -> DescribeProducersResponse | None:
    """List the producers of each partition."""
    named = [(each.name, each.partition_indexes) for each in request.topics]
    if must_wait(broker, broker.logs.unopened(named), request, connection):
        return None
    return answer_in_slices(broker, connection, _answer(broker, request))


def _answer(
    broker: Services, request: DescribeProducersRequest
) -> Generator[None, None, DescribeProducersResponse]:
    # A partition is listed once, however often it is named: it may have many producers.
    wanted: dict[str, dict[int, None]] = {}
    for asked in request.topics:
        wanted.setdefault(asked.name, {}).update(dict.fromkeys(asked.partition_indexes))
        yield
    topics = []
    for name, indexes in wanted.items():
        partitions = []
        for index in indexes:
            partitions.append((yield from _describe(broker, name, index)))
            yield
        topics.append(DescribeProducersResponseTopic(name=name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _describe(
    broker: Services, name: str, index: int
) -> Generator[None, None, DescribeProducersResponsePartition]:
    text = invalid_name(name)
    if text is not None:
        return _error(index, ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    # Looked up each time, because the topic may be deleted between two steps.
    found = broker.logs.readable(name, index, may_follow=True)
    if isinstance(found, Partition):
        return (yield from _list(found))
    return _error(index, found, None if name in broker.topics.by_name else DEFAULT_MESSAGES[found])


def _list(
    partition: Partition,
) -> Generator[None, None, DescribeProducersResponsePartition]:
    try:
        entries = list(partition.log.producers)
    except (StorageError, OSError):
        return _error(partition.index, ErrorCode.KAFKA_STORAGE_ERROR)
    producers = []
    for number, entry in enumerate(entries, 1):
        producers.append(
            DescribeProducersResponseProducer(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.timestamp_ms,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.current_txn_first_offset,
            )
        )
        if not number % _AT_ONCE:
            yield
    return DescribeProducersResponsePartition(
        partition_index=partition.index, error_code=ErrorCode.NONE, active_producers=producers
    )


def _error(
    index: int, error: ErrorCode, text: str | None = None
) -> DescribeProducersResponsePartition:
    return DescribeProducersResponsePartition(
        partition_index=index, error_code=error, error_message=text, active_producers=[]
    )
