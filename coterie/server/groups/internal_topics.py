"""The internal topics of streams groups: the broker creates those that a topology needs.

It begins after the answer to the heartbeat that lists them as missing. A failure is shown in the
answers that follow, for two heartbeat intervals, and after that the creation is tried again
[streams-groups/internal-topics].

Invariant: a topic is being created once at a time; of failures so many are remembered as there are
topics that groups need.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from coterie.coordinator.streams_topology.model import InternalTopic, StatusCode
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from coterie.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from coterie.server.environment import Environment
from coterie.server.loggers import REQUESTS
from coterie.server.logs.partition import Topic
from coterie.server.metadata.topic_changes import Change, TopicChanges
from coterie.server.metadata.topic_rules import TopicRefused
from coterie.server.metadata.topics import Topics

# For how many heartbeat intervals a failure is remembered, as in Kafka.
_REMEMBERED_INTERVALS = 2
# The most failures that are remembered; clients choose the names. A topic whose failure is
# forgotten is tried again earlier.
MOST_FAILURES = 10_000


class _Failure(NamedTuple):
    """Why a topic was not created, and until when that is remembered."""

    reason: str
    until_ms: int


class InternalTopics:
    """Creates the internal topics of the streams groups that a broker coordinates."""

    def __init__(
        self,
        environment: Environment,
        topics: "Topics[Topic]",
        changes: TopicChanges,
        creation: Callable[[CreateTopicsRequestTopic], Change[Topic]],
    ) -> None:
        """Begin without failures.

        Args:
            environment: its clock and its log are used.
            topics: the topics that exist and that are being created.
            changes: makes the topics.
            creation: returns the change that makes one.
        """
        self._environment = environment
        self._topics = topics
        self._changes = changes
        self._creation = creation
        self._failures: dict[str, _Failure] = {}

    def complete(
        self,
        response: StreamsGroupHeartbeatResponse,
        topics: Sequence[InternalTopic],
        unauthorized: Sequence[str],
    ) -> None:
        """Begin to create the topics that an answer lists as missing, and say what has failed.

        Args:
            response: the answer to a heartbeat.
            topics: the topics that its group needs.
            unauthorized: those of them that the client may not create; one keeps all of them.
        """
        status = next(
            (
                each
                for each in response.status or ()
                if each.status_code == StatusCode.MISSING_INTERNAL_TOPICS
            ),
            None,
        )
        if status is None:
            return
        if unauthorized:
            names = ", ".join(unauthorized)
            status.status_detail += f"; Unauthorized to CREATE on topics {names}."
            return
        now_ms = self._environment.now_ms()
        kept_ms = _REMEMBERED_INTERVALS * response.heartbeat_interval_ms
        failed = []
        for topic in topics:
            failure = self._failures.get(topic.name)
            if failure is not None and failure.until_ms > now_ms:
                failed.append(f"{topic.name} ({failure.reason})")
            else:
                self._failures.pop(topic.name, None)
                self._create(topic, kept_ms)
        if failed:
            status.status_detail += f"; Creation failed: {', '.join(failed)}."

    def _create(self, topic: InternalTopic, kept_ms: int) -> None:
        """Begin to create a topic, unless it is being created or exists."""
        name, topics = topic.name, self._topics
        if name in topics.being_created or name in topics.by_name:
            return

        def created(_topic: Topic | None, failure: Exception | None) -> None:
            topics.being_created.discard(name)
            if failure is None:
                return
            reason = str(failure)
            if isinstance(failure, TopicRefused):
                reason = failure.text or failure.error.name
            else:
                self._environment.loggers.named(REQUESTS).error(
                    "internal topic not created", topic=name, exc_info=failure
                )
            if len(self._failures) >= MOST_FAILURES:
                self._failures.clear()
            until_ms = self._environment.now_ms() + kept_ms
            self._failures[name] = _Failure(reason, until_ms)

        asked = CreateTopicsRequestTopic(
            name=name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            assignments=[],
            configs=[
                CreateTopicsRequestConfig(name=key, value=value)
                for key, value in topic.configs.items()
            ],
        )
        topics.being_created.add(name)
        self._changes.submit(self._creation(asked), created)
