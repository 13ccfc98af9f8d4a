"""Members of the classic protocol, in classic groups and in consumer groups that were upgraded."""

from typing import TYPE_CHECKING, Any

from coterie.conversation.member import ClassicMember
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from coterie.server.cluster.image import CoordinatorType
from tests.simulation.brokers.clients import MOVED, Ask, Steps
from tests.simulation.brokers.members import (
    COMMITS,
    PARTITIONS,
    REBALANCE_MS,
    STATIC,
    TOPIC,
    GroupInfo,
    Settled,
    commit,
    happens,
)
from tests.simulation.checks.violation import require

if TYPE_CHECKING:
    from tests.simulation.brokers.world import World

_JOIN_VERSION, _SYNC_VERSION, _HEARTBEAT_VERSION, _LEAVE_VERSION = 9, 5, 4, 5
# The versions of a subscription, and of an assignment, of eager members.
_EAGER_VERSION = 0
# How often a leader takes its time for the assignment, and how often an event comes meanwhile.
_LEADS_SLOWLY, _MEETS_AN_EVENT = 0.8, 0.5
# How often the process of a static member that was restarted goes on for some time.
_LINGERS = 0.5

# After these a member joins again.
_AGAIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


class Classic(ClassicMember):
    """A member.

    Attributes:
        is_replaced: whether its successor has its place.
        was_lost: whether a JoinGroup of it had no answer, and may be handled at any time.
    """

    is_replaced = False
    was_lost = False

    def metadata(self, protocol: str) -> bytes:
        """See `ClassicMember`."""
        return encode_subscription(ConsumerProtocolSubscription(topics=[TOPIC]), _EAGER_VERSION)


def _assignment(partitions: list[int]) -> bytes:
    topics = [TopicPartition(topic=TOPIC, partitions=partitions)]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics), _EAGER_VERSION)


def _assigned(assignment: bytes) -> tuple[int, ...]:
    found = decode_assignment(assignment).assigned_partitions if assignment else []
    return tuple(sorted(index for topic in found for index in topic.partitions))


def classic_life(world: "World", name: str, group: GroupInfo, before: Any) -> Steps:
    """Be a member once; return it, or None if there is nothing of it left.

    Args:
        world: the world.
        name: the name of the client.
        group: its group.
        before: the member that had this place before and was restarted, or None.
    """
    member = Classic(
        group.group_id,
        protocols=("range",),
        session_ms=world.chance.choice((1, 2)) * group.mood.session_ms,
        rebalance_ms=REBALANCE_MS,
        instance_id=group.instance_id(name),
    )
    while (yield from _join(world, name, group, member)):
        if before is not None:
            before.is_replaced = True
            group.comes_back(name)
        if not (yield from _stay(world, name, group, member)):
            break
    if group.mood is STATIC and happens(world, _LINGERS):
        world.join(f"{name} before", _linger(world, name, member))
    return member


def _linger(world: "World", name: str, member: Classic) -> Steps:
    """Be the process of a static member that has a successor: it is fenced then (K7)."""
    for _ in range(world.chance.randint(2, 20)):
        yield world.chance.randint(5, 100)
        is_replaced = member.is_replaced
        answer = yield Ask(member.heartbeat_request(_HEARTBEAT_VERSION), _HEARTBEAT_VERSION)
        if answer is not None and is_replaced:
            error = answer.error_code
            fenced = error == ErrorCode.FENCED_INSTANCE_ID or error in MOVED
            require(fenced, "K7", f"{name} is answered {error} after it was replaced")
    while True:
        yield 60_000


def _join(world: "World", name: str, group: GroupInfo, member: Classic) -> Steps:
    """Join until the member knows its assignment; return whether it goes on."""
    while True:
        answer = yield Ask(member.join_request(_JOIN_VERSION), _JOIN_VERSION)
        error = None if answer is None else ErrorCode(answer.error_code)
        if error == ErrorCode.NONE:
            member.take_join(answer)
            if not group.mood.hurries:
                yield world.pause_ms()
            if member.leads and world.chance.random() < _LEADS_SLOWLY:
                yield from _lead_slowly(world, group)
            if (yield from _sync(world, name, group, member)):
                return True
        elif error == ErrorCode.MEMBER_ID_REQUIRED:
            member.take_join(answer)
        elif error == ErrorCode.UNKNOWN_MEMBER_ID:
            member.member_id = ""
        else:
            member.was_lost |= error is None
            known = error is None or error in MOVED or error in _AGAIN
            require(known, "K7", f"{name} is answered {error!r} when it joins")
            if error == ErrorCode.NOT_COORDINATOR and answer.member_id:
                same = answer.member_id == member.member_id or not member.member_id
                require(same, "K7", f"{member.member_id} is called {answer.member_id}")
            yield None
        if happens(world, group.mood.dies):
            return False


def _lead_slowly(world: "World", group: GroupInfo) -> Steps:
    """Let the group complete its rebalance for some time.

    A sync of a Stable group does not prolong the session, which may have begun some time ago.
    """
    place = CoordinatorType.GROUP, group.group_id
    coordinator = world.cluster.leadership.coordinator(*place)
    if coordinator is not None:
        world.faults.strike(coordinator.node_id, place, _MEETS_AN_EVENT)
    yield world.chance.randint(50, min(group.mood.session_ms // 3, 800))


def _sync(world: "World", name: str, group: GroupInfo, member: Classic) -> Steps:
    """Ask for the assignment; return whether the member has it."""
    assert member.joined is not None, "a member that syncs has joined"
    ids = sorted(each.member_id for each in member.joined.members)
    indexes = list(range(PARTITIONS))
    assigned = {each: _assignment(indexes[at :: len(ids)]) for at, each in enumerate(ids)}
    while True:
        answer = yield Ask(member.sync_request(assigned, _SYNC_VERSION), _SYNC_VERSION)
        if answer is None:
            yield None
            continue
        error = ErrorCode(answer.error_code)
        if error == ErrorCode.NONE:
            partitions = _assigned(answer.assignment)
            world.ledger.assigned(group.group_id, member.generation_id, name, partitions)
            group.settle(name, Settled(member.member_id, member.generation_id, partitions))
            return True
        if error in MOVED:
            yield None
        else:
            _refused(name, group, member, error)
            return False


def _refused(name: str, group: GroupInfo, member: Classic, error: int) -> None:
    """Note that a member has to join again."""
    if error == ErrorCode.FENCED_INSTANCE_ID and member.was_lost:
        # Its own JoinGroup, which it has sent again, was handled twice.
        member.member_id = ""
        return
    group.refused(name, error)
    if error == ErrorCode.UNKNOWN_MEMBER_ID:
        member.member_id = ""
    else:
        require(error in _AGAIN, "K7", f"{name} is answered {error}")


def _stay(world: "World", name: str, group: GroupInfo, member: Classic) -> Steps:
    """Send heartbeats and commits; return whether the member joins again."""
    while True:
        yield world.heartbeat_ms() // (4 if group.mood.hurries and not world.is_calm else 1)
        if happens(world, group.mood.is_slow):
            yield world.chance.randint(500, 6_000)
        if happens(world, group.mood.dies):
            return False
        if happens(world, group.mood.restarts):
            group.away.add(name)
            return False
        if happens(world, group.mood.leaves):
            yield Ask(member.leave_request(_LEAVE_VERSION), _LEAVE_VERSION)
            return False
        error = None
        commits = world.chance.random() < COMMITS
        if commits:
            error = yield from commit(world, group, member)
        if not commits or (group.is_mixed and not error):
            # A commit does not prolong the session in a consumer group.
            answer = yield Ask(member.heartbeat_request(_HEARTBEAT_VERSION), _HEARTBEAT_VERSION)
            error = None if answer is None else answer.error_code
        if error is None or not error or error in MOVED:
            continue
        _refused(name, group, member, error)
        return True
