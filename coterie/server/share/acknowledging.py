"""The acknowledgements of one ShareFetch or ShareAcknowledge [share-partitions/acknowledgement]."""

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Protocol

from coterie.coordinator.share_partition.acknowledgement import AcknowledgedBatch, shape_error
from coterie.coordinator.share_state.requests import ShareKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_session_parts import (
    AcknowledgementBatch,
    ShareLeader,
    ShareNodeEndpoint,
)
from coterie.server.handlers.moved_leaders import endpoints_of
from coterie.server.logs.partition import Partition
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services
from coterie.server.share.limits import HANDLED_AT_ONCE, READ_AT_ONCE
from coterie.server.share.sessions import SessionKey, SharedPartition

_MAX_ID_LENGTH = 36
# With these a client looks for another leader.
MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
# What a client reads where there is no other leader, as Kafka sends it.
_NO_HINT = (0, 0)

# Returns whether the client may read a topic.
MayRead = Callable[[str], bool]
# What a request acknowledges, by partition.
Wanted = dict[SharedPartition, list[AcknowledgementBatch]]


class AsksForPartition(Protocol):
    """A partition of a request, with its acknowledgements."""

    partition_index: int
    acknowledgement_batches: list[AcknowledgementBatch]


class AsksForTopic(Protocol):
    """A topic of a request."""

    topic_id: bytes

    @property
    def partitions(self) -> Sequence[AsksForPartition]:
        """Its partitions."""


def ids_error(group_id: str | None, member_id: str | None) -> ErrorCode:
    """Return INVALID_REQUEST for a request without a group or a usable member id."""
    if group_id is None or not member_id or len(member_id) > _MAX_ID_LENGTH:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def partitions_of(topics: Iterable[AsksForTopic]) -> Wanted:
    """Return the partitions of a request with what it acknowledges of each."""
    return {
        (topic.topic_id, each.partition_index): each.acknowledgement_batches
        for topic in topics
        for each in topic.partitions
    }


def acknowledged_partitions(wanted: Wanted) -> Wanted:
    """Return the partitions of which something is acknowledged."""
    return {each: batches for each, batches in wanted.items() if batches}


def find_partition(
    broker: Services, wanted: SharedPartition, may_read: MayRead
) -> Partition | ErrorCode:
    """Return a partition that this broker leads and the client may read, or why there is none."""
    topic_id, index = wanted
    topic = broker.topics.by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not may_read(topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return broker.logs.led(topic_id, index)


def partition_errors(
    broker: Services, partitions: Iterable[SharedPartition], may_read: MayRead
) -> Generator[None, None, dict[SharedPartition, ErrorCode]]:
    """Return why each partition cannot be read here, NONE if it can; in steps."""
    errors = {}
    for count, wanted in enumerate(partitions, 1):
        found = find_partition(broker, wanted, may_read)
        errors[wanted] = found if isinstance(found, ErrorCode) else ErrorCode.NONE
        if not count % HANDLED_AT_ONCE:
            yield
    return errors


def acknowledge_each(
    broker: Services,
    key: SessionKey,
    asked: Wanted,
    may_read: MayRead,
    *,
    may_renew: bool,
    done: Callable[[SharedPartition, ErrorCode, str | None], None],
) -> Generator[None, None, bool]:
    """Apply the acknowledgements of each partition, in steps; `done` is called for each.

    Those of one partition are one operation, and so one step.

    Returns:
        Whether those of any partition make sense. Then all partitions that the request names are
        answered [share-partitions/fetch-answers].
    """
    group_id, member_id = key
    make_sense = False
    for count, (each, wire) in enumerate(asked.items(), 1):
        batches = [
            AcknowledgedBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in wire
        ]
        found: Partition | ErrorCode = ErrorCode.UNKNOWN_TOPIC_ID
        if each[0] in broker.topics.by_id:
            error = shape_error(batches, may_renew=may_renew)
            found = error or find_partition(broker, each, may_read)
        if isinstance(found, ErrorCode):
            done(each, found, None)
        else:
            make_sense = True
            share_key = ShareKey(group_id, *each)
            broker.share.acknowledge(share_key, member_id, batches, partial(done, each))
        if not count % READ_AT_ONCE:
            yield
    return make_sense


class Leaders:
    """The leaders that a response tells a client, which looks for them at the wrong broker.

    Attributes:
        endpoints: where the client finds them.
    """

    def __init__(self, broker: Services, connection: Exchange) -> None:
        """Tell nothing yet."""
        self._broker = broker
        self._connection = connection
        self._node_ids: set[int] = set()

    def hint(self, wanted: SharedPartition, error: int) -> ShareLeader:
        """Return the leader of a partition that was refused with an error."""
        topic_id, index = wanted
        topic = self._broker.topics.by_id.get(topic_id)
        partition = None if topic is None else topic.partition(index)
        if partition is None or error not in MOVED:
            return ShareLeader.of(*_NO_HINT)
        where = self._broker.image.placement(partition)
        self._node_ids.add(where.leader_id)
        return ShareLeader.of(where.leader_id, where.leader_epoch)

    @property
    def endpoints(self) -> list[ShareNodeEndpoint]:
        """See the class."""
        if not self._node_ids:
            return []
        return endpoints_of(self._node_ids, self._broker, self._connection, ShareNodeEndpoint)
