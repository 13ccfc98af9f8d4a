"""DeleteTopics: delete topics, their records, and all committed offsets for them (KIP-4).

[topics/deletion]
"""

from collections import Counter
from collections.abc import Iterable

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
_NEITHER = "Neither topic name nor id were specified."
_BOTH = "You may not specify both topic name and topic id."
_NAME_TWICE = "Duplicate topic name."
_ID_TWICE = "Duplicate topic id."
_NAME_OF_ID = "The provided topic name maps to an ID that was already supplied."

# How often a request has each pair of a name and an id.
Naming = Counter[tuple[str | None, bytes]]


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
        times = naming(asked)
        for name, topic_id in times:
            yield None
            refused_naming = refusals_of_naming(self._broker, times, name, topic_id)
            if refused_naming is not None:
                self._answers += refused_naming
                continue
            try:
                topic = _find(self._broker, name, topic_id)
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


def naming(asked: Iterable[DeleteTopicsRequestTopic]) -> Naming:
    """Return how often a request has each pair of a name and an id."""
    return Counter((each.name, each.topic_id) for each in asked)


def refusals_of_naming(
    broker: Services, times: Naming, name: str | None, topic_id: bytes
) -> list[DeleteTopicsResponseTopic] | None:
    """Return the answers for a pair that does not name a topic, or not it alone; None if it does.

    [topics/deletion]
    """
    refused = ErrorCode.INVALID_REQUEST
    if (name is None) == (topic_id == ZERO_UUID):
        text = _NEITHER if name is None else _BOTH
        return [_answer(name, topic_id, refused, text)] * times[name, topic_id]
    if times[name, topic_id] > 1:
        text = _NAME_TWICE if name is not None else _ID_TWICE
        return [_answer(name, topic_id, refused, text)]
    if name is not None:
        topic = broker.topics.by_name.get(name)
        if topic is not None and times[None, topic.topic_id]:
            return [_answer(name, topic.topic_id, refused, _NAME_OF_ID)]
    else:
        topic = broker.topics.by_id.get(topic_id)
        if topic is not None and times[topic.name, ZERO_UUID] == 1:
            # The answer for its name is the one for both.
            return []
    return None


def _find(broker: Services, name: str | None, topic_id: bytes) -> Topic:
    """Return the topic to delete.

    Raises:
        TopicRefused: it does not exist.
    """
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
