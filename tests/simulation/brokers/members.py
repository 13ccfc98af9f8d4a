"""Members of groups of both types, which commit what they have read.

Members of a restless group leave, die and are slow. Those of a hasty one leave and come back at
once, so that it forms again and again. Those of a steady one stay: once it is formed, nobody
notices more of a move than NOT_COORDINATOR and its like, and generation, member ids and assignments
stay. Those of a static one are restarted, and have the same assignment under another member id
(K7). In a mixed group a member chooses its protocol at each start, so the group is upgraded and
downgraded.
"""

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from coterie.assignors.model import TopicPartition
from coterie.conversation.member import Member
from coterie.protocol.errors import ErrorCode
from tests.simulation.brokers.clients import Ask, Steps
from tests.simulation.checks.violation import require

if TYPE_CHECKING:
    from tests.simulation.brokers.world import World

TOPIC, PARTITIONS = "records", 3
_COMMIT_VERSION = 9
REBALANCE_MS = 4_000
# How often a member commits instead of sending a heartbeat only.
COMMITS = 0.5
# Longer than all that can keep a member from its coordinator.
_LONG_SESSION_MS = 60_000


class Mood(NamedTuple):
    """How often a member dies, leaves, is slow and is restarted, at each of its steps in a storm.

    Attributes:
        dies, leaves, is_slow, restarts: how often.
        away_ms: how long it is away at most.
        session_ms: its session, or half of it.
        hurries: whether it sends heartbeats more often in a storm, so a rebalance is over soon.
    """

    dies: float = 0.0
    leaves: float = 0.0
    is_slow: float = 0.0
    restarts: float = 0.0
    away_ms: int = 1_500
    session_ms: int = 2_400
    hurries: bool = False


RESTLESS = Mood(0.04, 0.04, 0.04)
# Those who are gone are waited for only shortly.
HASTY = Mood(leaves=0.2, away_ms=300, session_ms=1_200, hurries=True)
STEADY = Mood(session_ms=_LONG_SESSION_MS)
STATIC = Mood(is_slow=0.04, restarts=0.15, session_ms=_LONG_SESSION_MS)


class Settled(NamedTuple):
    """What a member knows of its place in a group."""

    member_id: str
    generation: int
    partitions: tuple[int, ...]


class GroupInfo:
    """A group, and what its members know of it.

    Attributes:
        group_id: its id.
        mood: whether its members stay.
        size: how many members it has at rest.
        settled: member id, generation and partitions of each member that knows them, by its name.
        away: the members that are being restarted.
        kept: what `settled` has to be from now on; None before a steady group is formed.
        values: the offsets that its members commit.
    """

    def __init__(self, group_id: str, size: int, mood: Mood) -> None:
        self.group_id = group_id
        self.mood = mood
        self.size = size
        self.settled: dict[str, Settled] = {}
        self.away: set[str] = set()
        self.kept: dict[str, Settled] | None = None
        self.values = count()

    @property
    def steady(self) -> bool:
        """Whether its members stay."""
        return self.mood in (STEADY, STATIC)

    @property
    def rests(self) -> bool:
        """Whether all members know one generation, in which no two have the same partitions."""
        generations = {each.generation for each in self.settled.values()}
        owned = [index for each in self.settled.values() for index in each.partitions]
        is_whole = len(self.settled) == self.size and len(generations) == 1
        return is_whole and sorted(owned) == list(range(PARTITIONS))

    @property
    def is_mixed(self) -> bool:
        """Whether its members use both protocols."""
        return self.group_id.endswith("mixed")

    def instance_id(self, name: str) -> str | None:
        """Return the instance id of a member; None if it is no static one."""
        return name if self.mood is STATIC else None

    def settle(self, name: str, settled: Settled) -> None:
        """Note what a member knows now; in a steady group it stays the same (K7)."""
        self.settled[name] = settled
        if self.kept is not None:
            before = self.kept[name]
            if self.mood is STATIC:
                before = before._replace(member_id=settled.member_id)
            require(settled == before, "K7", f"{name} has {settled} instead of {before}")

    def refused(self, name: str, error: int) -> None:
        """Note that a member was refused for good, which does not happen in a steady group (K7)."""
        require(self.kept is None, "K7", f"{name} of a steady group is answered {error}")
        self.settled.pop(name, None)

    def comes_back(self, name: str) -> None:
        """Note that a member that was restarted has its place again."""
        self.away.discard(name)


def happens(world: "World", share: float) -> bool:
    """Draw whether something happens that does so only in a storm."""
    return not world.is_calm and share > 0 and world.chance.random() < share


def commit(world: "World", group: GroupInfo, member: Member) -> Steps:
    """Commit an offset as a member; return the error, or None without an answer."""
    value = next(group.values)
    request = member.commit_request({TopicPartition(TOPIC, 0): value}, _COMMIT_VERSION)
    write = world.ledger.register(group.group_id).writes(value, world.moment())
    answer = yield Ask(request, _COMMIT_VERSION)
    error = None if answer is None else answer.topics[0].partitions[0].error_code
    write.answered(world.moment(), acknowledged=error == ErrorCode.NONE)
    return error
