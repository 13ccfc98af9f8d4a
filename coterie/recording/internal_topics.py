"""The internal topics that a recorded broker has created because an answer missed them.

No request creates the internal topics of a streams group: the broker does, after the answer to a
heartbeat that says that some are missing [streams-groups/internal-topics].
"""

from collections.abc import Iterable

from coterie.coordinator.streams_topology.model import StatusCode
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsHeartbeatTopology,
)
from coterie.recording.conversation import RecordedExchange


class InternalTopics:
    """What the heartbeats of a conversation say of internal topics, read in their order."""

    def __init__(self) -> None:
        """Begin without any."""
        # By group, those of its topology.
        self._declared: dict[str, set[str]] = {}

    def created_after(self, exchange: RecordedExchange) -> set[str]:
        """Return the topics that may be created after an answer, because some are missing."""
        request, response = exchange.request, exchange.response
        if not isinstance(request, StreamsGroupHeartbeatRequest):
            return set()
        declared = self._declared.setdefault(request.group_id, set())
        if request.topology is not None:
            declared |= _declared_by(request.topology)
        if not isinstance(response, StreamsGroupHeartbeatResponse):
            return set()
        codes = {each.status_code for each in response.status or ()}
        return set(declared) if StatusCode.MISSING_INTERNAL_TOPICS in codes else set()


def created_topics(exchanges: Iterable[RecordedExchange]) -> set[str]:
    """Return all internal topics that may have been created in a conversation."""
    topics = InternalTopics()
    return {name for each in exchanges for name in topics.created_after(each)}


def _declared_by(topology: StreamsHeartbeatTopology) -> set[str]:
    return {
        topic.name
        for each in topology.subtopologies
        for topic in (*each.state_changelog_topics, *each.repartition_source_topics)
    }
