"""OffsetCommit: the server checks which partitions exist, the coordinator does the rest.

As in Kafka, a request of which no partition exists does not reach its group
[offsets/commit-errors].
"""

from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coterie.server.coordinators.runtime import context_of
from coterie.server.handlers.missing_partitions import MissingPartitions
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.services import Services

_TOPIC_IDS_SINCE = 10

Missing = MissingPartitions[OffsetCommitResponseTopic]


def handle(
    broker: Services, request: OffsetCommitRequest, connection: Exchange
) -> OffsetCommitResponse | None:
    """Commit offsets of the partitions that exist."""
    missing = _take_out_missing(
        broker.topics.published.image, request, by_id=connection.version >= _TOPIC_IDS_SINCE
    )
    if missing is None:
        delayed = DelayedResponse(connection)
        context = context_of(connection, delayed)
        effects = broker.coordinator.offset_commit(connection.now_ms, request, context)
        return broker.groups.answer(effects, delayed)
    if not request.topics:
        return OffsetCommitResponse(topics=missing.merged(()))

    def complete(response: OffsetCommitResponse) -> OffsetCommitResponse:
        response.topics = missing.merged(response.topics)
        return response

    commit = broker.coordinator.offset_commit
    return broker.groups.submit(commit, request, connection, complete=complete)


def _take_out_missing(
    topics: TopicsImage, request: OffsetCommitRequest, *, by_id: bool
) -> Missing | None:
    """Set name and id of every topic and take missing partitions out; None if there are none."""
    missing: Missing | None = None
    for asked in request.topics:
        topic = topics.by_id.get(asked.topic_id) if by_id else topics.by_name.get(asked.name)
        if topic is not None:
            asked.name, asked.topic_id = topic.name, topic.topic_id
            count = topic.partitions
            for each in asked.partitions:
                if not 0 <= each.partition_index < count:
                    break
            else:
                # The usual case makes no objects: commits are on the hot path.
                continue
        else:
            count = 0
        unknown_id = topic is None and by_id
        error = ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if missing is None:
            missing = MissingPartitions(OffsetCommitResponseTopic, OffsetCommitResponsePartition)
        missing.take_out(asked, count, error, asked.topic_id)
    if missing is not None:
        request.topics = [topic for topic in request.topics if topic.partitions]
    return missing
