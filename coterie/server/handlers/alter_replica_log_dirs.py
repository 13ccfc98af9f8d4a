"""AlterReplicaLogDirs: move logs between the data directories of a broker, which has one (KIP-113).

[topics/log-directories]
"""

from collections.abc import Generator

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponsePartition,
    AlterReplicaLogDirsResponseTopic,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import MADE_AT_ONCE, answer_in_slices, made_in_steps
from coterie.server.services import Services

# Kafka moves a log to a directory TOPIC-PARTITION.ID-future, with an id of 32 digits.
_LONGEST_NAME = 255 - len("-." + 32 * "0" + "-future")


def handle(
    broker: Services, request: AlterReplicaLogDirsRequest, connection: Exchange
) -> AlterReplicaLogDirsResponse | None:
    """Accept the directory in which the logs are, and refuse every other one."""
    return answer_in_slices(broker, connection, _answer(broker, request))


def _answer(
    broker: Services, request: AlterReplicaLogDirsRequest
) -> Generator[None, None, AlterReplicaLogDirsResponse]:
    own = broker.config.text("log.dirs")
    errors: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for named in directory.topics:
            yield
            topic = broker.topics.by_name.get(named.name)
            for count, index in enumerate(named.partitions, 1):
                if not count % MADE_AT_ONCE:
                    yield
                error = ErrorCode.NONE
                if len(named.name) + len(str(index)) > _LONGEST_NAME:
                    error = ErrorCode.INVALID_TOPIC_EXCEPTION
                elif directory.path != own:
                    error = ErrorCode.LOG_DIR_NOT_FOUND
                elif topic is None or not topic.has(index):
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                errors.setdefault(named.name, {})[index] = error
    results = []
    for name, by_index in errors.items():
        partitions = yield from made_in_steps(_result, by_index.items())
        results.append(AlterReplicaLogDirsResponseTopic(topic_name=name, partitions=partitions))
        yield
    return AlterReplicaLogDirsResponse(results=results)


def _result(answered: tuple[int, ErrorCode]) -> AlterReplicaLogDirsResponsePartition:
    index, error = answered
    return AlterReplicaLogDirsResponsePartition(partition_index=index, error_code=error)
