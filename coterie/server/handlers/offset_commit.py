"""OffsetCommit: which topics exist is told here, the rest by the coordinator (spec section 9).

As in Kafka the partitions that do not exist come first in a topic's answer, and a request without
any that exists does not reach its group.
"""

from typing import TYPE_CHECKING, Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coterie.server.logs.topics import Topics

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection
    from coterie.server.network.responses import DelayedResponse

_TOPIC_IDS_SINCE = 10


def handle(
    broker: "Broker", request: OffsetCommitRequest, connection: "Connection"
) -> OffsetCommitResponse | None:
    """Commit for the partitions that exist."""
    missing = _resolve(broker.topics, request, by_id=connection.version >= _TOPIC_IDS_SINCE)
    commit = broker.coordinator.offset_commit
    if missing is None:
        answer: OffsetCommitResponse | None = broker.groups.ask(commit, request, connection)
        return answer
    if not request.topics:
        return missing.response
    answer = broker.groups.ask(commit, request, connection, reply=missing)
    return None if answer is None else missing.merged(answer)


def _resolve(topics: Topics, request: OffsetCommitRequest, *, by_id: bool) -> "_Missing | None":
    """Give every topic its name and id, and take out what does not exist."""
    missing: _Missing | None = None
    for asked in request.topics:
        topic = topics.by_id.get(asked.topic_id) if by_id else topics.by_name.get(asked.name)
        if topic is not None:
            asked.name, asked.topic_id = topic.name, topic.topic_id
            there = len(topic.partitions)
            for each in asked.partitions:
                if not 0 <= each.partition_index < there:
                    break
            else:
                continue
        else:
            there = 0
        missing = missing or _Missing()
        unknown = topic is None and by_id
        error = ErrorCode.UNKNOWN_TOPIC_ID if unknown else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        missing.take(asked, there, error)
    if missing is not None:
        request.topics = [topic for topic in request.topics if topic.partitions]
    return missing


class _Missing:
    """The answers for partitions that don't exist, to be merged with the coordinator's.

    In place of a connection's reply, it merges what the coordinator sends later.
    """

    def __init__(self) -> None:
        self.response = OffsetCommitResponse(topics=[])
        self._topics: dict[tuple[str, bytes], OffsetCommitResponseTopic] = {}
        self._reply: DelayedResponse | None = None

    def take(self, asked: OffsetCommitRequestTopic, there: int, error: ErrorCode) -> None:
        """Move the partitions of `asked` from `there` on into the answer."""
        gone = [each for each in asked.partitions if not 0 <= each.partition_index < there]
        asked.partitions = [each for each in asked.partitions if 0 <= each.partition_index < there]
        self._topic(asked.name, asked.topic_id).partitions += [
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
            for each in gone
        ]

    def _topic(self, name: str, topic_id: bytes) -> OffsetCommitResponseTopic:
        topic = self._topics.get((name, topic_id))
        if topic is None:
            topic = OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=[])
            self._topics[(name, topic_id)] = topic
            self.response.topics.append(topic)
        return topic

    def merged(self, answer: OffsetCommitResponse) -> OffsetCommitResponse:
        """Both answers in one."""
        for topic in answer.topics:
            self._topic(topic.name, topic.topic_id).partitions += topic.partitions
        return self.response

    def around(self, reply: "DelayedResponse") -> "_Missing":
        """Stand in for the reply."""
        self._reply = reply
        return self

    def send(self, answer: Any) -> None:
        """The coordinator's answer has come."""
        assert self._reply is not None
        self._reply.send(self.merged(answer))
