"""OffsetFetch, which waits for `__consumer_offsets` [offsets/fetch-before-the-topic].

From version 10 on, topics are named by their ids [offsets/fetch-by-topic-id].

The coordinator finds offsets by topic name, and checks the id for which they were committed. The
server turns the ids of a request into names, and names into ids where a group's offsets of all
topics are fetched.
"""

from collections.abc import Callable

from coterie.coordinator.groups.responses import fetch_error_response
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.handlers.many_groups import GROUPS_TOGETHER, PartedRequest, parts_of
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

# Before this version offsets were in ZooKeeper.
_OFFSETS_TOPIC_SINCE = 1
_TOPIC_IDS_SINCE = 10
# More topics and partitions than these are fetched in a turn of their own: half a millisecond.
_OFFSETS_TOGETHER = 500


def handle(
    broker: Services, request: OffsetFetchRequest, connection: Exchange
) -> OffsetFetchResponse | None:
    """Fetch the committed offsets of each group once."""
    if len(request.groups) > 1:
        # Kafka answers for a group as often as the request names it: a small request could need a
        # response of gigabytes.
        request.groups = list({group.group_id: group for group in request.groups}.values())
    if OFFSETS_TOPIC in broker.topics.hidden and connection.version >= _OFFSETS_TOPIC_SINCE:
        # The client looks for the coordinator, and with that the topic comes into being.
        error = ErrorCode.NOT_COORDINATOR
        return fetch_error_response(request, error, connection.version)
    fetch = broker.coordinator.offset_fetch
    if _is_large(broker, request):
        _fetch_in_parts(broker, request, connection)
        return None
    if connection.version < _TOPIC_IDS_SINCE:
        complete = None if connection.version else _name_missing
        return broker.groups.submit(fetch, request, connection, complete=complete)
    topics_by_id = _TopicsById(broker.topics.published.image, request)
    return broker.groups.submit(fetch, request, connection, complete=topics_by_id.complete)


def _is_large(broker: Services, request: OffsetFetchRequest) -> bool:
    """Return whether a request is handled in slices."""
    groups = request.groups
    if len(groups) > GROUPS_TOGETHER:
        return True
    left = _OFFSETS_TOGETHER
    for topics in (request.topics, *(group.topics for group in groups)):
        for topic in topics or ():
            left -= 1 + len(topic.partition_indexes)
        if left < 0:
            return True
    if not groups:
        fetches_all = [request.group_id] if request.topics is None else []
    else:
        fetches_all = [group.group_id for group in groups if group.topics is None]
    return sum(map(broker.coordinator.offset_count, fetches_all)) > left


def _fetch_in_parts(broker: Services, request: OffsetFetchRequest, connection: Exchange) -> None:
    """Fetch the offsets of some groups, or of one with many, at a time.

    The offsets of one group are fetched at once, so that they are of one moment.
    """
    version = connection.version
    topics_of = broker.topics.published.image

    def complete(
        part: OffsetFetchRequest,
    ) -> Callable[[OffsetFetchResponse], OffsetFetchResponse] | None:
        if version >= _TOPIC_IDS_SINCE:
            return _TopicsById(topics_of, part).complete
        return None if version else _name_missing

    parted = PartedRequest(broker, connection, broker.coordinator.offset_fetch, _joined)
    if not request.groups:
        parted.submit([request], complete)
        return
    stable = request.require_stable
    is_small = len(request.groups) > GROUPS_TOGETHER and not any(
        group.topics is None for group in request.groups
    )
    parts = parts_of(request.groups) if is_small else [[group] for group in request.groups]
    parted.submit(
        [OffsetFetchRequest(groups=part, require_stable=stable) for part in parts], complete
    )


def _joined(parts: list[OffsetFetchResponse]) -> OffsetFetchResponse:
    response = parts[0]
    response.groups = [group for each in parts for group in each.groups]
    return response


def _name_missing(response: OffsetFetchResponse) -> OffsetFetchResponse:
    """In version 0 a partition without an offset has an error [offsets/oldest-versions]."""
    for topic in response.topics:
        for each in topic.partitions:
            if each.committed_offset < 0 and not each.error_code:
                each.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return response


class _TopicsById:
    """The translation between ids and names for one request."""

    def __init__(self, topics: TopicsImage, request: OffsetFetchRequest) -> None:
        """Set the names of the request's topics, and take out those whose id is unknown."""
        self._topics = topics
        # For each group of the request: its unknown topics, and whether it fetches all topics.
        self._unknown: list[list[OffsetFetchResponseTopic]] = []
        self._fetches_all: list[bool] = []
        for group in request.groups:
            unknown = []
            for asked in group.topics or ():
                topic = topics.by_id.get(asked.topic_id)
                if topic is None:
                    unknown.append(refused_topic(asked, ErrorCode.UNKNOWN_TOPIC_ID))
                else:
                    asked.name = topic.name
            if group.topics is not None and unknown:
                group.topics = [each for each in group.topics if each.topic_id in topics.by_id]
            self._unknown.append(unknown)
            self._fetches_all.append(group.topics is None)

    def complete(self, response: OffsetFetchResponse) -> OffsetFetchResponse:
        """Add the ids and the unknown topics to the coordinator's response."""
        for group, fetches_all, unknown in zip(
            response.groups, self._fetches_all, self._unknown, strict=True
        ):
            if fetches_all:
                self._set_ids(group)
            if not group.error_code:
                group.topics += unknown
        return response

    def _set_ids(self, group: OffsetFetchResponseGroup) -> None:
        """Set the ids of a group's topics. A topic that was deleted has none and is left out."""
        existing = []
        for answered in group.topics:
            topic = self._topics.by_name.get(answered.name)
            if topic is not None:
                answered.topic_id = topic.topic_id
                existing.append(answered)
        group.topics = existing


def refused_topic(asked: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    """Return a topic whose offsets are not fetched."""
    return OffsetFetchResponseTopic(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=index,
                committed_offset=-1,
                metadata="",
                error_code=error,
            )
            for index in asked.partition_indexes
        ],
    )
