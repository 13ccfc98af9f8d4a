"""Clients that delete groups, offsets of groups, and topics.

What was deleted stays so, whichever broker coordinates or leads it afterwards (K3): nobody creates
it again. Nothing is required of a group for which a request was lost that would do so, because the
request may be handled late.
"""

from collections.abc import Callable, Generator
from itertools import count
from typing import TYPE_CHECKING, Any

from coterie.assignors.model import TopicPartition
from coterie.conversation.consumer_protocol_member import ConsumerProtocolMember
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.simulation.brokers.classic_members import Classic
from tests.simulation.brokers.clients import MOVED, Ask, Steps
from tests.simulation.brokers.members import REBALANCE_MS, RESTLESS, TOPIC
from tests.simulation.brokers.registers import commit_request, fetch_request
from tests.simulation.checks.violation import require
from tests.unit.server.produced import batch, produce_request

if TYPE_CHECKING:
    from tests.simulation.brokers.world import World

_COMMIT_VERSION, _FETCH_VERSION, _DELETE_VERSION = 7, 8, 2
_JOIN_VERSION, _SYNC_VERSION, _LEAVE_VERSION, _CONSUMER_VERSION = 9, 5, 5, 1
_CREATE_TOPICS_VERSION, _DELETE_TOPICS_VERSION, _PRODUCE_VERSION = 7, 6, 9
_PARTITIONS = 2

# An error code, or None if an answer was lost.
_Answer = Generator[Any, Any, int | None]


def _answered(
    request: Any, version: int, error_of: Callable[[Any], int], *, again: bool = False
) -> _Answer:
    """Send a request until it is answered by the broker that is in charge; return the error.

    Args:
        request, version: the request.
        error_of: returns the error in a response.
        again: whether it is sent again after an answer was lost, instead of returning None.
    """
    while True:
        answer = yield Ask(request, version)
        if answer is None and not again:
            return None
        error = None if answer is None else error_of(answer)
        if error is not None and error not in MOVED:
            return error
        yield None


def _whole(answer: Any) -> int:
    return int(answer.error_code)


def _of_partition(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code)


# --- groups ---------------------------------------------------------------------------------------


def group_deleter(world: "World", name: str) -> Steps:
    """Fill a group, delete it, and look at some that were deleted, again and again."""
    deleted: list[str] = []
    for number in count():
        group_id = f"{name}-{number}"
        fill = world.chance.choice((_commit_all, _be_classic, _be_consumer))
        if (yield from fill(world, group_id)):
            if fill is _commit_all and world.chance.random() < 0.6:
                yield from _delete_offset(world, group_id)
            # A classic member that has left is there again if that was not yet in the log; a group
            # without offsets may be removed by itself [offsets/sweep].
            other = {
                _be_classic: ErrorCode.NON_EMPTY_GROUP,
                _be_consumer: ErrorCode.GROUP_ID_NOT_FOUND,
            }.get(fill)
            yield from _delete_group(world, group_id, other)
            deleted.append(group_id)
        if deleted:
            yield from _look_at(world.chance.choice(deleted))
        yield world.pause_ms()


def _commit_all(world: "World", group_id: str) -> Steps:
    """Commit offsets of two partitions; return whether no answer was lost."""
    for index in range(_PARTITIONS):
        request = commit_request(group_id, next(world.numbers), index)
        error = yield from _answered(request, _COMMIT_VERSION, _of_partition)
        require(not error, "K3", f"a commit of {group_id} is answered {error}")
        if error is None:
            return False
    return True


def _be_classic(_world: "World", group_id: str) -> Steps:
    """Be the only member of a classic group and leave it; return whether all was answered."""
    member = Classic(
        group_id, protocols=("range",), session_ms=RESTLESS.session_ms, rebalance_ms=REBALANCE_MS
    )
    for _ in range(2):
        answer = yield Ask(member.join_request(_JOIN_VERSION), _JOIN_VERSION)
        if answer is None:
            return False
        member.take_join(answer)
    if answer.error_code:
        return False
    sync = member.sync_request({member.member_id: b""}, _SYNC_VERSION)
    if (yield from _answered(sync, _SYNC_VERSION, _whole)) != ErrorCode.NONE:
        return False
    commit = member.commit_request({TopicPartition(TOPIC, 0): 1}, _COMMIT_VERSION)
    if (yield from _answered(commit, _COMMIT_VERSION, _of_partition)) != ErrorCode.NONE:
        return False
    leave = member.leave_request(_LEAVE_VERSION)
    return (yield from _answered(leave, _LEAVE_VERSION, _whole)) == ErrorCode.NONE


def _be_consumer(world: "World", group_id: str) -> Steps:
    """Be the only member of a consumer group and leave it; return whether all was answered."""
    member = ConsumerProtocolMember(
        group_id,
        f"{group_id}-{next(world.numbers)}",
        names=(TOPIC,),
        topic_ids={TOPIC: world.topic_id(TOPIC)},
        rebalance_ms=REBALANCE_MS,
    )
    answer = yield Ask(member.heartbeat_request((), _CONSUMER_VERSION), _CONSUMER_VERSION)
    if answer is None or answer.error_code:
        return False
    member.take(answer)
    leave = member.leave_request(_CONSUMER_VERSION)
    return (yield from _answered(leave, _CONSUMER_VERSION, _whole)) == ErrorCode.NONE


def _delete_offset(world: "World", group_id: str) -> Steps:
    """Delete one of the two offsets of a group."""
    partition = OffsetDeleteRequestPartition(partition_index=1)
    topic = OffsetDeleteRequestTopic(name=TOPIC, partitions=[partition])
    request = OffsetDeleteRequest(group_id=group_id, topics=[topic])
    error = yield from _answered(request, 0, _whole, again=True)
    require(not error, "K3", f"OffsetDelete of {group_id} is answered {error}")
    world.checks.deleted_offsets.add((group_id, TOPIC, 1))


def _delete_group(world: "World", group_id: str, other: ErrorCode | None) -> Steps:
    """Delete a group; `other` is an error that may be right, too."""
    request = DeleteGroupsRequest(groups_names=[group_id])
    may_be_gone = other == ErrorCode.GROUP_ID_NOT_FOUND
    while True:
        answer = yield Ask(request, _DELETE_VERSION)
        error = None if answer is None else answer.results[0].error_code
        if error == ErrorCode.NONE or (may_be_gone and error == ErrorCode.GROUP_ID_NOT_FOUND):
            world.checks.deleted_groups.add(group_id)
            return
        # What a coordinator refuses when it gives up may be in the log all the same.
        may_be_gone |= error is None or error in MOVED
        known = error is None or error in MOVED or error == other
        require(known, "K3", f"the deletion of {group_id} is answered {error}")
        yield None


def _look_at(group_id: str) -> Steps:
    """Fetch the offset of a group that was deleted."""
    answer = yield Ask(fetch_request(group_id), _FETCH_VERSION)
    if answer is not None and not answer.groups[0].error_code:
        found = answer.groups[0].topics[0].partitions[0].committed_offset
        require(found == -1, "K3", f"{group_id} was deleted and has offset {found}")


# --- topics ---------------------------------------------------------------------------------------


def topic_deleter(world: "World", name: str) -> Steps:
    """Create a topic, use it and delete it, again and again in storms.

    Each changes the image, which all brokers shall show at rest.
    """
    for number in count():
        while world.is_calm:
            yield 200
        topic = f"{name}-{number}"
        described = CreateTopicsRequestTopic(
            name=topic, num_partitions=_PARTITIONS, replication_factor=-1
        )
        create = CreateTopicsRequest(topics=[described])
        yield from _settle(create, _CREATE_TOPICS_VERSION, ErrorCode.TOPIC_ALREADY_EXISTS)
        for index in range(_PARTITIONS):
            value = batch(str(next(world.numbers)).encode())
            yield Ask(produce_request(value, topic, index), _PRODUCE_VERSION)
            offset = next(world.numbers)
            yield Ask(commit_request(f"{name}-offsets", offset, index, topic), _COMMIT_VERSION)
        yield world.pause_ms()
        named = DeleteTopicsRequestTopic(name=topic)
        delete = DeleteTopicsRequest(topics=[named], timeout_ms=60_000)
        gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        yield from _settle(delete, _DELETE_TOPICS_VERSION, gone)
        world.checks.deleted_topics.add(topic)
        yield world.pause_ms()


def _settle(request: Any, version: int, settled: ErrorCode) -> Steps:
    """Send a request until it is done; after a lost answer an error says that it was."""
    may_be_done = False
    while True:
        answer = yield Ask(request, version)
        if answer is not None:
            found = answer.topics if hasattr(answer, "topics") else answer.responses
            error = found[0].error_code
            if not error or (may_be_done and error == settled):
                return
            require(error in MOVED, "K3", f"{type(request).__name__} is answered {error}")
        may_be_done = True
        yield None
