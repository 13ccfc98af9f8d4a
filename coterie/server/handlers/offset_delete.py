"""OffsetDelete: the server checks which partitions exist, the coordinator deletes (KIP-496)."""

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from coterie.server.handlers.missing_partitions import MissingPartitions
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def handle(
    broker: Services, request: OffsetDeleteRequest, connection: Exchange
) -> OffsetDeleteResponse | None:
    """Delete a group's offsets of the partitions that exist.

    The coordinator gets the request even if none exists: its error about the group comes first.
    """
    missing = MissingPartitions(OffsetDeleteResponseTopic, OffsetDeleteResponsePartition)
    for asked in request.topics:
        topic = broker.topics.published.image.by_name.get(asked.name)
        count = 0 if topic is None else topic.partitions
        missing.take_out(asked, count, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    request.topics = [asked for asked in request.topics if asked.partitions]

    def complete(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        # An error about the group is the whole response.
        if not response.error_code:
            response.topics = missing.merged(response.topics)
        return response

    return broker.groups.submit(
        broker.coordinator.offset_delete, request, connection, complete=complete
    )
