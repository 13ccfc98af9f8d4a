"""OffsetFetch: committed offsets; from version 10 on topics are told by their ids (spec section
10).

The coordinator knows offsets by name and by the id they were committed for. Here ids become names
before it is asked, and the other way round for groups that ask for all they have.
"""

from typing import TYPE_CHECKING, Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from coterie.server.logs.topics import Topics

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection
    from coterie.server.network.responses import DelayedResponse

_TOPIC_IDS_SINCE = 10


def handle(
    broker: "Broker", request: OffsetFetchRequest, connection: "Connection"
) -> OffsetFetchResponse | None:
    """Ask the coordinator, by name and once for each group."""
    if len(request.groups) > 1:
        # Kafka answers a group as often as it is named: a small request, an answer of gigabytes.
        request.groups = list({group.group_id: group for group in request.groups}.values())
    fetch = broker.coordinator.offset_fetch
    if connection.version < _TOPIC_IDS_SINCE:
        answer: OffsetFetchResponse | None = broker.groups.ask(fetch, request, connection)
        return answer
    by_id = _ById(broker.topics, request)
    answer = broker.groups.ask(fetch, request, connection, reply=by_id)
    return None if answer is None else by_id.completed(answer)


class _ById:
    """Turns the ids of a request into names, and the coordinator's answer into ids."""

    def __init__(self, topics: Topics, request: OffsetFetchRequest) -> None:
        self._topics = topics
        # Per group of the request: whether it asked for everything, and the topics unknown here.
        self._unknown: list[list[OffsetFetchResponseTopic]] = []
        self._everything: list[bool] = []
        self._reply: DelayedResponse | None = None
        for group in request.groups:
            unknown = []
            for topic in group.topics or ():
                known = topics.by_id.get(topic.topic_id)
                if known is None:
                    unknown.append(_unknown(topic))
                else:
                    topic.name = known.name
            if group.topics is not None and unknown:
                group.topics = [each for each in group.topics if each.topic_id in topics.by_id]
            self._unknown.append(unknown)
            self._everything.append(group.topics is None)

    def completed(self, answer: OffsetFetchResponse) -> OffsetFetchResponse:
        """Add what the coordinator could not tell."""
        for group, everything, unknown in zip(
            answer.groups, self._everything, self._unknown, strict=True
        ):
            if everything:
                self._tell_ids(group)
            if not group.error_code:
                group.topics += unknown
        return answer

    def _tell_ids(self, group: OffsetFetchResponseGroup) -> None:
        """A topic that does not exist (any more) has no id to tell, and is left out."""
        told = []
        for topic in group.topics:
            known = self._topics.by_name.get(topic.name)
            if known is not None:
                topic.topic_id = known.topic_id
                told.append(topic)
        group.topics = told

    def around(self, reply: "DelayedResponse") -> "_ById":
        """Stand in for the reply."""
        self._reply = reply
        return self

    def send(self, answer: Any) -> None:
        """The coordinator's answer has come."""
        assert self._reply is not None
        self._reply.send(self.completed(answer))


def _unknown(topic: OffsetFetchRequestTopic) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=index,
                committed_offset=-1,
                metadata="",
                error_code=ErrorCode.UNKNOWN_TOPIC_ID,
            )
            for index in topic.partition_indexes
        ],
    )
