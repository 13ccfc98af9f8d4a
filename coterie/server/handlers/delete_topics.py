"""DeleteTopics: delete topics, their records, and all committed offsets for them (KIP-4).

[topics/deletion]
"""

from collections import Counter
from typing import TYPE_CHECKING

from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode
from coterie.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.protocol.wire import ZERO_UUID
from coterie.server.logs.topic_rules import TopicRefused
from coterie.server.logs.topics import Topic
from coterie.server.network.delayed_response import DelayedResponse

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection


def handle(
    broker: "Broker", request: DeleteTopicsRequest, connection: "Connection"
) -> DeleteTopicsResponse | None:
    """Delete the topics that can be deleted, and answer for each name or id.

    The response is sent when the deletions are complete.
    """
    asked = request.topics or [DeleteTopicsRequestTopic(name=name) for name in request.topic_names]
    times = Counter((each.name, each.topic_id) for each in asked)
    answers: list[DeleteTopicsResponseTopic] = []
    deletions = _Deletions(DeleteTopicsResponse(responses=answers))
    for (name, topic_id), count in times.items():
        try:
            topic = _find(broker, name, topic_id, once=count == 1)
            deletions.delete(broker, topic)
            answers.append(_answer(topic.name, topic.topic_id, ErrorCode.NONE, None))
        except TopicRefused as refused:
            answers.append(_answer(name, topic_id, refused.error, refused.text))
    return deletions.response_when_done(connection)


class _Deletions:
    """The deletions of one request, and its response."""

    def __init__(self, response: DeleteTopicsResponse) -> None:
        self._response = response
        self._begun: set[Topic] = set()
        self._incomplete: set[Topic] = set()
        self._delayed: DelayedResponse | None = None

    def delete(self, broker: "Broker", topic: Topic) -> None:
        """Delete a topic, unless that was begun: a request may name one by name and by id.

        Raises:
            TopicRefused: the disk fails.
        """
        if topic in self._begun:
            return
        self._begun.add(topic)
        self._incomplete.add(topic)
        try:
            broker.delete_topic(topic, lambda: self._done(topic))
        except TopicRefused:
            self._incomplete.discard(topic)
            raise

    def _done(self, topic: Topic) -> None:
        self._incomplete.discard(topic)
        if self._delayed is not None and not self._incomplete:
            delayed, self._delayed = self._delayed, None
            delayed.send(self._response)

    def response_when_done(self, connection: "Connection") -> DeleteTopicsResponse | None:
        """Return the response, or delay it until the deletions are complete."""
        if not self._incomplete:
            return self._response
        self._delayed = DelayedResponse(connection)
        connection.delay(self._delayed)
        return None


def _find(broker: "Broker", name: str | None, topic_id: bytes, *, once: bool) -> Topic:
    """Return the topic to delete.

    Raises:
        TopicRefused: it does not exist or cannot be deleted.
    """
    if not once:
        text = "Duplicate topic name." if name is not None else "Duplicate topic id."
        raise TopicRefused(ErrorCode.INVALID_REQUEST, text)
    if name is None and topic_id == ZERO_UUID:
        text = "Neither topic name nor id were specified."
        raise TopicRefused(ErrorCode.INVALID_REQUEST, text)
    if name is not None and topic_id != ZERO_UUID:
        text = "You may not specify both topic name and topic id."
        raise TopicRefused(ErrorCode.INVALID_REQUEST, text)
    if name is None:
        topic, error = broker.topics.by_id.get(topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic, error = broker.topics.by_name.get(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        raise TopicRefused(error, DEFAULT_MESSAGES[error])
    if not broker.config.get_bool("delete.topic.enable"):
        raise TopicRefused(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    if topic.name == OFFSETS_TOPIC:
        # Kafka would delete it, and the state of every group with it.
        text = f"{topic.name} holds the groups of this broker and can't be deleted."
        raise TopicRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    return topic


def _answer(
    name: str | None, topic_id: bytes, error: ErrorCode, text: str | None
) -> DeleteTopicsResponseTopic:
    return DeleteTopicsResponseTopic(
        name=name, topic_id=topic_id, error_code=error, error_message=text
    )
