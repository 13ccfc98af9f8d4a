"""Members of groups of both types, which commit what they have read.

Members of a restless group leave, die and are slow. Those of a hasty one leave and come back at
once, so that it forms again and again. Those of a steady one stay: once it is formed, nobody
notices more of a move than NOT_COORDINATOR and its like, and generation, member ids and assignments
stay (K7).
"""

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from coterie.assignors.model import TopicPartition
from coterie.conversation.consumer_protocol_member import FENCED, ConsumerProtocolMember
from coterie.conversation.member import ClassicMember, Member
from coterie.protocol.errors import ErrorCode
from coterie.server.cluster.image import CoordinatorType
from tests.simulation.brokers.clients import MOVED, Ask, Steps
from tests.simulation.checks.violation import require

if TYPE_CHECKING:
    from tests.simulation.brokers.world import World

TOPIC, PARTITIONS = "records", 3
_JOIN_VERSION, _SYNC_VERSION, _HEARTBEAT_VERSION, _LEAVE_VERSION = 9, 5, 4, 5
_COMMIT_VERSION, _CONSUMER_VERSION = 9, 1
# Longer than all that can keep a steady member from its coordinator.
_STEADY_SESSION_MS = 60_000
_REBALANCE_MS = 4_000
# How often a leader takes its time for the assignment, and how often an event comes meanwhile.
_LEADS_SLOWLY, _MEETS_AN_EVENT = 0.8, 0.5
# How often a member commits instead of sending a heartbeat only.
_COMMITS = 0.5

# After these a member joins again.
_AGAIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
_OUTDATED = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class Settled(NamedTuple):
    """What a member knows of its place in a group."""

    member_id: str
    generation: int
    partitions: tuple[int, ...]


class Mood(NamedTuple):
    """How often a member dies, leaves, and is slow, at each of its steps in a storm.

    `away_ms` is how long it is away at most. One that hurries sends heartbeats more often then, so
    a rebalance is over soon.
    """

    dies: float = 0.0
    leaves: float = 0.0
    is_slow: float = 0.0
    away_ms: int = 1_500
    hurries: bool = False


STEADY, RESTLESS = Mood(), Mood(0.04, 0.04, 0.04)
HASTY = Mood(leaves=0.2, away_ms=300, hurries=True)


class GroupInfo:
    """A group, and what its members know of it.

    Attributes:
        group_id: its id.
        mood: whether its members stay.
        size: how many members it has at rest.
        settled: member id, generation and partitions of each member that knows them, by its name.
        kept: what `settled` has to be from now on; None before a steady group is formed.
        values: the offsets that its members commit.
    """

    def __init__(self, group_id: str, size: int, mood: Mood) -> None:
        self.group_id = group_id
        self.mood = mood
        self.size = size
        self.settled: dict[str, Settled] = {}
        self.kept: dict[str, Settled] | None = None
        self.values = count()

    @property
    def steady(self) -> bool:
        """Whether its members stay."""
        return self.mood is STEADY

    @property
    def rests(self) -> bool:
        """Whether all members know one generation, in which no two have the same partitions."""
        generations = {each.generation for each in self.settled.values()}
        owned = [index for each in self.settled.values() for index in each.partitions]
        is_whole = len(self.settled) == self.size and len(generations) == 1
        return is_whole and sorted(owned) == list(range(PARTITIONS))

    def settle(self, name: str, settled: Settled) -> None:
        """Note what a member knows now; in a steady group it stays the same (K7)."""
        self.settled[name] = settled
        if self.kept is not None:
            same = settled == self.kept[name]
            require(same, "K7", f"{name} has {settled} instead of {self.kept[name]}")

    def refused(self, name: str, error: int) -> None:
        """Note that a member was refused for good, which does not happen in a steady group (K7)."""
        require(self.kept is None, "K7", f"{name} of a steady group is answered {error}")
        self.settled.pop(name, None)


def _happens(world: "World", share: float) -> bool:
    return not world.is_calm and share > 0 and world.chance.random() < share


def _commit(world: "World", name: str, group: GroupInfo, member: Member) -> Steps:
    """Commit an offset as a member; return the error, or None without an answer."""
    value = next(group.values)
    request = member.commit_request({TopicPartition(TOPIC, 0): value}, _COMMIT_VERSION)
    write = world.ledger.register(group.group_id).writes(value, world.moment())
    answer = yield Ask(request, _COMMIT_VERSION)
    error = None if answer is None else answer.topics[0].partitions[0].error_code
    write.answered(world.moment(), acknowledged=error == ErrorCode.NONE)
    return error


# --- classic groups -------------------------------------------------------------------------------


class _Classic(ClassicMember):
    def metadata(self, protocol: str) -> bytes:
        return b""


def classic(world: "World", name: str, group: GroupInfo) -> Steps:
    """Be a member of a classic group again and again."""
    while True:
        session_ms = _STEADY_SESSION_MS if group.steady else world.chance.choice((2_000, 5_000))
        member = _Classic(
            group.group_id, protocols=("range",), session_ms=session_ms, rebalance_ms=_REBALANCE_MS
        )
        while (yield from _join(world, name, group, member)):
            if not (yield from _stay(world, name, group, member)):
                break
        group.settled.pop(name, None)
        yield world.chance.randint(1, group.mood.away_ms)


def _join(world: "World", name: str, group: GroupInfo, member: _Classic) -> Steps:
    """Join until the member knows its assignment; return whether it goes on."""
    while True:
        answer = yield Ask(member.join_request(_JOIN_VERSION), _JOIN_VERSION)
        error = None if answer is None else ErrorCode(answer.error_code)
        if error == ErrorCode.NONE:
            member.take_join(answer)
            yield world.pause_ms()
            if member.leads and world.chance.random() < _LEADS_SLOWLY:
                # The group is completing its rebalance meanwhile. A sync of a Stable group does not
                # prolong the session, which may have begun two seconds ago.
                place = CoordinatorType.GROUP, group.group_id
                leader = world.cluster.leadership.coordinator(*place)
                if leader is not None:
                    world.faults.strike(leader.node_id, place, _MEETS_AN_EVENT)
                yield world.chance.randint(50, 800)
            if (yield from _sync(world, name, group, member)):
                return True
        elif error == ErrorCode.MEMBER_ID_REQUIRED:
            member.take_join(answer)
        elif error == ErrorCode.UNKNOWN_MEMBER_ID:
            member.member_id = ""
        else:
            known = error is None or error in MOVED or error in _AGAIN
            require(known, "K7", f"{name} is answered {error!r} when it joins")
            if error == ErrorCode.NOT_COORDINATOR and answer.member_id:
                same = answer.member_id == member.member_id or not member.member_id
                require(same, "K7", f"{member.member_id} is called {answer.member_id}")
            yield None
        if _happens(world, group.mood.dies):
            return False


def _sync(world: "World", name: str, group: GroupInfo, member: _Classic) -> Steps:
    """Ask for the assignment; return whether the member has it."""
    assert member.joined is not None, "a member that syncs has joined"
    ids = sorted(each.member_id for each in member.joined.members)
    assigned = {each: bytes(range(PARTITIONS)[at :: len(ids)]) for at, each in enumerate(ids)}
    while True:
        answer = yield Ask(member.sync_request(assigned, _SYNC_VERSION), _SYNC_VERSION)
        if answer is None:
            yield None
            continue
        error = ErrorCode(answer.error_code)
        if error == ErrorCode.NONE:
            partitions = tuple(answer.assignment)
            world.ledger.assigned(group.group_id, member.generation_id, name, partitions)
            group.settle(name, Settled(member.member_id, member.generation_id, partitions))
            return True
        if error in MOVED:
            yield None
        else:
            if error == ErrorCode.UNKNOWN_MEMBER_ID:
                member.member_id = ""
            else:
                require(error in _AGAIN, "K7", f"{name} is answered {error!r} when it syncs")
            return False


def _stay(world: "World", name: str, group: GroupInfo, member: _Classic) -> Steps:
    """Send heartbeats and commits; return whether the member joins again."""
    while True:
        yield world.heartbeat_ms() // (4 if group.mood.hurries and not world.is_calm else 1)
        if _happens(world, group.mood.is_slow):
            yield world.chance.randint(500, 6_000)
        if _happens(world, group.mood.dies):
            return False
        if _happens(world, group.mood.leaves):
            yield Ask(member.leave_request(_LEAVE_VERSION), _LEAVE_VERSION)
            return False
        if world.chance.random() < _COMMITS:
            error = yield from _commit(world, name, group, member)
        else:
            answer = yield Ask(member.heartbeat_request(_HEARTBEAT_VERSION), _HEARTBEAT_VERSION)
            error = None if answer is None else answer.error_code
        if error is None or not error or error in MOVED:
            continue
        group.refused(name, error)
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            member.member_id = ""
        else:
            require(error in _AGAIN, "K7", f"{name} is answered {error}")
        return True


# --- consumer groups ------------------------------------------------------------------------------


def consumer(world: "World", name: str, group: GroupInfo) -> Steps:
    """Be a member of a consumer group again and again."""
    for life in count(1):
        member = ConsumerProtocolMember(
            group.group_id, f"{name}-{life}",
            names=(TOPIC,), topic_ids={TOPIC: world.topic_id(TOPIC)}, rebalance_ms=_REBALANCE_MS,
        )  # fmt: skip
        yield from _beat(world, name, group, member)
        group.settled.pop(name, None)
        yield world.chance.randint(1, group.mood.away_ms)


def _beat(world: "World", name: str, group: GroupInfo, member: ConsumerProtocolMember) -> Steps:
    """Send heartbeats and commits until the member leaves or dies."""
    owned: frozenset[TopicPartition] = frozenset()
    while True:
        if _happens(world, group.mood.dies):
            return
        if _happens(world, group.mood.leaves) and member.generation_id > 0:
            yield Ask(member.leave_request(_CONSUMER_VERSION), _CONSUMER_VERSION)
            return
        request = member.heartbeat_request(owned, _CONSUMER_VERSION)
        answer = yield Ask(request, _CONSUMER_VERSION)
        if answer is None:
            member.says_all = True
            yield None
            continue
        wanted = member.take(answer)
        error = ErrorCode(answer.error_code)
        if error:
            if error in FENCED:
                group.refused(name, error)
                owned = frozenset()
            else:
                require(error in MOVED, "K7", f"{name} is answered {error!r}")
            yield None
            continue
        if wanted is not None and wanted != owned:
            if not wanted >= owned:
                yield world.chance.choice((0, 5, 100, 700))
            owned = wanted
        partitions = tuple(sorted(each.partition for each in owned))
        group.settle(name, Settled(member.member_id, member.generation_id, partitions))
        yield world.heartbeat_ms()
        if _happens(world, group.mood.is_slow):
            yield world.chance.randint(500, 6_000)
        if world.chance.random() < _COMMITS:
            error_of_commit = yield from _commit(world, name, group, member)
            if error_of_commit and error_of_commit not in MOVED:
                # Its heartbeats tell it the same.
                require(error_of_commit in _OUTDATED, "K7", f"{name} is answered {error_of_commit}")
                group.refused(name, error_of_commit)
