"""OffsetDelete: a group forgets offsets (KIP-496); which topics exist is told here."""

from typing import TYPE_CHECKING, Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection
    from coterie.server.network.responses import DelayedResponse


def handle(
    broker: "Broker", request: OffsetDeleteRequest, connection: "Connection"
) -> OffsetDeleteResponse | None:
    """Ask the coordinator about the partitions that exist; it tells of the group in any case."""
    missing = _Missing()
    for asked in request.topics:
        topic = broker.topics.by_name.get(asked.name)
        there = 0 if topic is None else len(topic.partitions)
        gone = [each for each in asked.partitions if not 0 <= each.partition_index < there]
        asked.partitions = [each for each in asked.partitions if 0 <= each.partition_index < there]
        missing.add(asked.name, [each.partition_index for each in gone])
    request.topics = [asked for asked in request.topics if asked.partitions]
    answer = broker.groups.ask(broker.coordinator.offset_delete, request, connection, reply=missing)
    return None if answer is None else missing.merged(answer)


class _Missing:
    """The answers for partitions that don't exist, to be merged with the coordinator's."""

    def __init__(self) -> None:
        self._topics: dict[str, list[OffsetDeleteResponsePartition]] = {}
        self._reply: DelayedResponse | None = None

    def add(self, topic: str, indexes: list[int]) -> None:
        """These partitions do not exist."""
        if indexes:
            self._topics.setdefault(topic, []).extend(
                OffsetDeleteResponsePartition(
                    partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
                for index in indexes
            )

    def merged(self, answer: OffsetDeleteResponse) -> OffsetDeleteResponse:
        """Both answers in one; an error about the group stands alone."""
        if answer.error_code:
            return answer
        for topic in answer.topics:
            self._topics.setdefault(topic.name, []).extend(topic.partitions)
        answer.topics = [
            OffsetDeleteResponseTopic(name=name, partitions=partitions)
            for name, partitions in self._topics.items()
        ]
        return answer

    def around(self, reply: "DelayedResponse") -> "_Missing":
        """Stand in for the reply."""
        self._reply = reply
        return self

    def send(self, answer: Any) -> None:
        """The coordinator's answer has come."""
        assert self._reply is not None
        self._reply.send(self.merged(answer))
