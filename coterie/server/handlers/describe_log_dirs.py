"""DescribeLogDirs: the data directory, its free space and the size of each log (KIP-113).

[topics/log-directories]
"""

from collections.abc import Generator

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponsePartition,
    DescribeLogDirsResponseResult,
    DescribeLogDirsResponseTopic,
)
from coterie.server.handlers.closed_logs import must_wait
from coterie.server.logs.partition import Partition
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices, made_in_steps
from coterie.server.operating_system import volume_bytes
from coterie.server.services import Services

_UNKNOWN_BYTES = -1


def handle(
    broker: Services, request: DescribeLogDirsRequest, connection: Exchange
) -> DescribeLogDirsResponse | None:
    """Describe the one data directory, with the logs that exist of those that are named."""
    named = _named(broker, request)
    unopened = [each for each in broker.logs.unopened(named.items()) if each.may_have_records]
    if must_wait(broker, unopened, request, connection):
        return None
    return answer_in_slices(broker, connection, _answer(broker, named))


def _named(broker: Services, request: DescribeLogDirsRequest) -> dict[str, list[int]]:
    """Return the partitions to describe by topic, each of them once."""
    if request.topics is None:
        return {
            topic.name: [partition.index for partition in topic.partitions]
            for topic in broker.topics.all()
        }
    named: dict[str, dict[int, None]] = {}
    for each in request.topics:
        named.setdefault(each.topic, {}).update(dict.fromkeys(each.partitions))
    return {name: list(indexes) for name, indexes in named.items()}


def _answer(
    broker: Services, named: dict[str, list[int]]
) -> Generator[None, None, DescribeLogDirsResponse]:
    topics = []
    for name, indexes in named.items():
        yield
        topic = broker.topics.by_name.get(name)
        found = [] if topic is None else [topic.partition(index) for index in indexes]
        existing = [each for each in found if each is not None]
        partitions = yield from made_in_steps(_size, existing)
        if partitions:
            topics.append(DescribeLogDirsResponseTopic(name=name, partitions=partitions))
    path = broker.config.text("log.dirs") or ""
    total_bytes, usable_bytes = _space(path)
    result = DescribeLogDirsResponseResult(
        error_code=ErrorCode.NONE,
        log_dir=path,
        topics=topics,
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
    return DescribeLogDirsResponse(results=[result])


def _size(partition: Partition) -> DescribeLogDirsResponsePartition:
    log = partition.opened_log
    return DescribeLogDirsResponsePartition(
        partition_index=partition.index,
        partition_size=0 if log is None else log.size_bytes,
        offset_lag=0,
        is_future_key=False,
    )


def _space(path: str) -> tuple[int, int]:
    """Return the total and the free bytes of the volume; both are unknown for data in memory."""
    try:
        return volume_bytes(path)
    except OSError:
        return _UNKNOWN_BYTES, _UNKNOWN_BYTES
