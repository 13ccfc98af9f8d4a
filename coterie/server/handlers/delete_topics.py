"""DeleteTopics: delete topics, their records, and all committed offsets for them (KIP-4).

[topics/deletion]
"""

from collections import Counter

from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode
from coterie.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)
from coterie.protocol.refusals import refusal
from coterie.protocol.wire import ZERO_UUID
from coterie.server.logs.partition import Topic
from coterie.server.metadata.topic_changes import Change
from coterie.server.metadata.topic_rules import TopicRefused
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.quotas.mutations import Mutations
from coterie.server.services import Services

# The first version that is refused above the quota of changes (KIP-599).
_STRICT_SINCE = 5
# The first version with an error of its own for deletions that the settings forbid (KIP-322).
_DISABLED_SINCE = 3


def handle(broker: Services, request: DeleteTopicsRequest, connection: Exchange) -> None:
    """Delete the topics that can be deleted, and answer for each name or id.

    The response is sent when the deletions are complete.
    """
    asked = request.topics or [DeleteTopicsRequestTopic(name=name) for name in request.topic_names]
    delayed = DelayedResponse(connection)
    connection.delay_and_mute(delayed)
    if not broker.config.get_bool("delete.topic.enable"):
        is_known = connection.version >= _DISABLED_SINCE
        error = ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
        delayed.send(refusal(request, error, connection.version))
        return
    deletions = _Deletions(broker, delayed, Mutations(broker, connection, _STRICT_SINCE))

    def deleted(_result: None, failure: Exception | None) -> None:
        if failure is None:
            deletions.answer()
        else:
            connection.fail_request(failure)

    broker.changes.submit(deletions.delete_all(asked), deleted)


class _Deletions:
    """The deletions of one request, and its response."""

    def __init__(self, broker: Services, delayed: DelayedResponse, mutations: Mutations) -> None:
        self._broker = broker
        self._mutations = mutations
        self._delayed = delayed
        self._answers: list[DeleteTopicsResponseTopic] = []
        self._incomplete: set[Topic] = set()
        self._all_begun = False

    def delete_all(self, asked: list[DeleteTopicsRequestTopic]) -> Change[None]:
        """Delete the topics that can be deleted."""
        times = Counter((each.name, each.topic_id) for each in asked)
        for (name, topic_id), count in times.items():
            yield None
            try:
                topic = _find(self._broker, name, topic_id, once=count == 1)
                self._mutations.count(topic.partition_count)
                yield from self._delete(topic)
                self._answers.append(_answer(topic.name, topic.topic_id, ErrorCode.NONE, None))
            except TopicRefused as refused:
                self._answers.append(_answer(name, topic_id, refused.error, refused.text))

    def _delete(self, topic: Topic) -> Change[None]:
        self._incomplete.add(topic)
        try:
            yield from self._broker.topic_deletion(topic, lambda: self._done(topic))
        except TopicRefused:
            self._incomplete.discard(topic)
            raise

    def _done(self, topic: Topic) -> None:
        self._incomplete.discard(topic)
        if self._all_begun and not self._incomplete:
            self._all_begun = False
            self._send()

    def answer(self) -> None:
        """Send the response when the deletions are complete."""
        if self._incomplete:
            self._all_begun = True
        else:
            self._send()

    def _send(self) -> None:
        self._delayed.send(
            DeleteTopicsResponse(throttle_time_ms=self._mutations.wait_ms, responses=self._answers)
        )


def _find(broker: Services, name: str | None, topic_id: bytes, *, once: bool) -> Topic:
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
    return topic


def _answer(
    name: str | None, topic_id: bytes, error: ErrorCode, text: str | None
) -> DeleteTopicsResponseTopic:
    return DeleteTopicsResponseTopic(
        name=name, topic_id=topic_id, error_code=error, error_message=text
    )
