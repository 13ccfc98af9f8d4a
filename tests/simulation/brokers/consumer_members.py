"""Members of the consumer protocol (KIP-848)."""

from typing import TYPE_CHECKING, Any

from coterie.assignors.model import TopicPartition
from coterie.conversation.consumer_protocol_member import FENCED, ConsumerProtocolMember
from coterie.protocol.errors import ErrorCode
from tests.simulation.brokers.clients import MOVED, Ask, Steps
from tests.simulation.brokers.members import (
    COMMITS,
    REBALANCE_MS,
    TOPIC,
    GroupInfo,
    Settled,
    commit,
    happens,
)
from tests.simulation.checks.violation import require

if TYPE_CHECKING:
    from tests.simulation.brokers.world import World

_VERSION = 1
_OUTDATED = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


def consumer_life(world: "World", name: str, group: GroupInfo, before: Any) -> Steps:
    """Be a member once.

    Args:
        world: the world.
        name: the name of the client.
        group: its group.
        before: the member that had this place before and was restarted, or None.
    """
    member = ConsumerProtocolMember(
        group.group_id,
        f"{name}-{next(world.numbers)}",
        names=(TOPIC,),
        topic_ids={TOPIC: world.topic_id(TOPIC)},
        rebalance_ms=REBALANCE_MS,
        instance_id=group.instance_id(name),
    )
    yield from _beat(world, name, group, member)
    return member


def _leave_for_a_while(world: "World", name: str, member: ConsumerProtocolMember) -> Steps:
    """Tell the coordinator that a static member will be back."""
    request = member.leave_request(_VERSION)
    while True:
        answer = yield Ask(request, _VERSION)
        if answer is not None and answer.error_code not in MOVED:
            left = answer.error_code == ErrorCode.NONE
            require(left, "K7", f"{name} is answered {answer.error_code} when it is restarted")
            return
        yield None


def _refused(
    world: "World",
    name: str,
    group: GroupInfo,
    member: ConsumerProtocolMember,
    error: ErrorCode,
    *,
    was_lost: bool,
) -> Steps:
    """Take the error of a heartbeat; return whether the member has lost its place."""
    if error in FENCED:
        group.refused(name, error)
        return True
    if error == ErrorCode.UNRELEASED_INSTANCE_ID and was_lost:
        # As in Kafka, it has to leave the place that it has itself.
        yield from _leave_for_a_while(world, name, member)
    elif error != ErrorCode.UNKNOWN_SERVER_ERROR or not group.is_mixed:
        # Of a mixed one the first join phase may not be over [consumer-groups/upgrade].
        require(error in MOVED, "K7", f"{name} is answered {error!r}")
    return False


def _beat(world: "World", name: str, group: GroupInfo, member: ConsumerProtocolMember) -> Steps:
    """Send heartbeats and commits until the member leaves or dies."""
    owned: frozenset[TopicPartition] = frozenset()
    # Whether an answer to its join was lost, so that it may have its place without knowing it.
    was_lost = False
    while True:
        if happens(world, group.mood.dies):
            return
        if happens(world, group.mood.leaves) and member.generation_id > 0:
            yield Ask(member.leave_request(_VERSION), _VERSION)
            return
        if happens(world, group.mood.restarts) and member.generation_id > 0:
            group.away.add(name)
            yield from _leave_for_a_while(world, name, member)
            return
        request = member.heartbeat_request(owned, _VERSION)
        answer = yield Ask(request, _VERSION)
        if answer is None:
            member.says_all = True
            was_lost |= member.generation_id <= 0
            yield None
            continue
        wanted = member.take(answer)
        error = ErrorCode(answer.error_code)
        if error:
            # A coordinator that has given up may have written a join that it refuses.
            was_lost |= member.generation_id <= 0 and error == ErrorCode.NOT_COORDINATOR
            if (yield from _refused(world, name, group, member, error, was_lost=was_lost)):
                owned = frozenset()
            yield None
            continue
        if wanted is not None and wanted != owned:
            if not wanted >= owned:
                yield world.chance.choice((0, 5, 100, 700))
            owned = wanted
        partitions = tuple(sorted(each.partition for each in owned))
        group.settle(name, Settled(member.member_id, member.generation_id, partitions))
        group.comes_back(name)
        yield world.heartbeat_ms()
        if happens(world, group.mood.is_slow):
            yield world.chance.randint(500, 6_000)
        if world.chance.random() < COMMITS:
            error_of_commit = yield from commit(world, group, member)
            if error_of_commit and error_of_commit not in MOVED:
                # Its heartbeats tell it the same.
                require(error_of_commit in _OUTDATED, "K7", f"{name} is answered {error_of_commit}")
                group.refused(name, error_of_commit)
