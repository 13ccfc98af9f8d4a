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
from coterie.protocol.wire import ZERO_UUID
from coterie.server.logs.topic_rules import TopicRefused
from coterie.server.logs.topics import Topic

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection


def handle(
    broker: "Broker", request: DeleteTopicsRequest, _connection: "Connection"
) -> DeleteTopicsResponse:
    """Delete the topics that can be deleted, and answer for each name or id."""
    asked = request.topics or [DeleteTopicsRequestTopic(name=name) for name in request.topic_names]
    times = Counter((each.name, each.topic_id) for each in asked)
    answers, deleted = [], set()
    for (name, topic_id), count in times.items():
        try:
            topic = _find(broker, name, topic_id, once=count == 1)
            # A request may name a topic by its name and by its id.
            if topic not in deleted:
                broker.delete_topic(topic)
                deleted.add(topic)
            answers.append(_answer(topic.name, topic.topic_id, ErrorCode.NONE, None))
        except TopicRefused as refused:
            answers.append(_answer(name, topic_id, refused.error, refused.text))
    return DeleteTopicsResponse(responses=answers)


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
    if topic.is_internal:
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
