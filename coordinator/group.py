"""A classic group and its members, as spec section 3 describes them, and the table of legal
transitions.

What the states mean, and what leads out of them:

Empty
    No members; offsets may remain. A join starts the initial delay -> PreparingRebalance.
PreparingRebalance
    Members are called to rejoin; joins park. All back, or time up -> CompletingRebalance, or Empty
    when nobody came.
CompletingRebalance
    Everybody knows the generation; followers wait for the leader's assignment, syncs park. The
    assignment is durable -> Stable. A change of membership -> PreparingRebalance.
Stable
    Everybody has an assignment. A join, leave, expiry or new subscription -> PreparingRebalance.
Dead
    The partition was given up; whoever still asks is told to look elsewhere.

Invariants: `supported_protocols` counts, per protocol name, the members that offer it;
`awaiting_joins` counts the members with a parked join; the leader is a member or None;
`static_members` maps instance ids to members of this group only.
"""

from enum import StrEnum
from typing import Any

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.consumer_protocol import decode_subscribed_topics

CONSUMER_PROTOCOL_TYPE = "consumer"

Protocols = tuple[tuple[str, bytes], ...]


class GroupState(StrEnum):
    """The states, by their names on the wire."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset({GroupState.DEAD}),
}


class Member:
    """One member of a classic group.

    Attributes:
        member_id, group_instance_id, client_id, client_host: who it is; the host as Java prints it,
            "/127.0.0.1".
        protocols: what it offers, in its order of preference: (name, metadata).
        assignment: what the leader gave it; empty bytes before.
        delayed_join, delayed_sync: reply address of a request that waits, or None.
        is_new: it joined and has not been told its generation yet, so it cannot heartbeat.
        joined_ms: when its latest JoinGroup was parked; 0 after a load.
        deadline_ms: when its session ends. Moved by heartbeats without touching the timer wheel.
        armed_ms: the deadline its wheel entry was armed with; 0 when it has none.
    """

    __slots__ = (
        "armed_ms",
        "assignment",
        "client_host",
        "client_id",
        "deadline_ms",
        "delayed_join",
        "delayed_sync",
        "group_instance_id",
        "is_new",
        "joined_ms",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
    ) -> None:
        """A member as it joins: new, with nothing assigned and nothing parked."""
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.delayed_join: Any = None
        self.delayed_sync: Any = None
        self.is_new = False
        self.joined_ms = 0
        self.deadline_ms = 0
        self.armed_ms = 0

    def last_heard_ms(self) -> int:
        """When it last gave a sign of life, or its session was started for another reason: an
        answer, a load.
        """
        if self.is_new:
            return self.joined_ms
        return max(self.deadline_ms - self.session_timeout_ms, self.joined_ms)

    def metadata(self, protocol_name: str) -> bytes:
        """What the member said about a protocol it offers."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise AssertionError(f"member {self.member_id} does not offer {protocol_name}")

    def vote(self, candidates: set[str]) -> str:
        """The first protocol of its list that everybody offers."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"member {self.member_id} offers none of {candidates}")


class Group:
    """One classic group."""

    __slots__ = (
        "assigned_generation",
        "awaiting_joins",
        "generation_id",
        "group_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "leader",
        "members",
        "new_member_added",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "rebalance_began_ms",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics_",
        "subscriptions",
        "supported_protocols",
    )

    def __init__(self, group_id: str, now_ms: int | None) -> None:
        """An Empty group of generation 0. `now_ms` is None for one whose age is not known (loaded,
        old record).
        """
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp_ms = now_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins: set[str] = set()
        self.pending_syncs: set[str] = set()
        self.supported_protocols: dict[str, int] = {}
        self.awaiting_joins = 0
        self.new_member_added = False
        # The initial delay that runs now and what is left of the largest rebalance timeout behind
        # it (spec 4.5).
        self.initial_delay_ms: int | None = None
        self.initial_remaining_ms = 0
        self.rebalance_began_ms = 0
        # The generation whose leader has handed in its assignment, be it durable yet or not.
        self.assigned_generation = -1
        # What the members of the last generation said they read; None before the first one, and
        # for other types than consumers.
        self.subscriptions: list[bytes] | None = None
        self.subscribed_topics_: frozenset[str] | None = None

    def __repr__(self) -> str:
        return (
            f"Group({self.group_id!r}, {self.state.value}, generation={self.generation_id}, "
            f"leader={self.leader!r}, members={list(self.members)})"
        )

    # -- states ------------------------------------------------------------------------------------

    def transition(self, state: GroupState, now_ms: int) -> None:
        """Go to a state; anything not in the table is our own mistake."""
        assert state in TRANSITIONS[self.state], (
            f"{self.group_id}: {self.state.value} -> {state.value}"
        )
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    # -- members -----------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """Take a member in (spec section 3, add)."""
        if not self.members:
            self.protocol_type = protocol_type
        assert member.member_id not in self.members
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._count(member.protocols, 1)
        if member.delayed_join is not None:
            self.awaiting_joins += 1
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Drop a member, or a pending id (spec section 3, remove). The first-joined member takes
        over a lost lead.
        """
        member = self.members.pop(member_id, None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        if member is None:
            return None
        self._count(member.protocols, -1)
        if member.delayed_join is not None:
            self.awaiting_joins -= 1
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace_static(self, group_instance_id: str, old_id: str, new_id: str) -> Member:
        """Give the member of an instance a new id, in place (spec section 8); parked requests are
        the caller's.
        """
        member = self.members[old_id]
        assert member.delayed_join is None, "the old process is answered first"
        assert member.delayed_sync is None, "the old process is answered first"
        # Rebuilt rather than popped and added: the order of members decides who succeeds a leader.
        self.members = {
            (new_id if member_id == old_id else member_id): each
            for member_id, each in self.members.items()
        }
        member.member_id = new_id
        self.static_members[group_instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        return member

    def update(
        self,
        member: Member,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Take over what a member says of itself when it rejoins."""
        if protocols != member.protocols:
            self._count(member.protocols, -1)
            self._count(protocols, 1)
            member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def delay_join(self, member: Member, to: Any, now_ms: int) -> None:
        """Let a JoinGroup wait. An earlier one of the same member is orphaned and never answered
        (spec 4.2).
        """
        if member.delayed_join is None:
            self.awaiting_joins += 1
        member.delayed_join = to
        member.joined_ms = now_ms

    def take_join(self, member: Member) -> Any:
        """The reply address of a parked JoinGroup, which thereby no longer waits."""
        to, member.delayed_join = member.delayed_join, None
        if to is not None:
            self.awaiting_joins -= 1
        return to

    def all_joined(self) -> bool:
        """Whether every member waits in a join and nobody holds an unused member id."""
        return len(self.members) == self.awaiting_joins and not self.pending_joins

    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of the members; 0 without members."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """See to it that the leader has a parked join; False if no member has one."""
        if self.leader is not None and self.members[self.leader].delayed_join is not None:
            return True
        for member in self.members.values():
            if member.delayed_join is not None:
                self.leader = member.member_id
                return True
        return False

    # -- protocols ---------------------------------------------------------------------------------

    def _count(self, protocols: Protocols, step: int) -> None:
        counts = self.supported_protocols
        # By distinct name: a list that names a protocol twice must not make it look offered by two
        # members.
        for name in {name for name, _ in protocols}:
            count = counts.get(name, 0) + step
            if count:
                counts[name] = count
            else:
                del counts[name]

    def accepts(self, protocol_type: str, names: list[str]) -> bool:
        """Whether a joiner with this protocol type and these protocols fits the members (spec
        section 3).
        """
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        everybody = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.supported_protocols.get(name, 0) == everybody for name in names
        )

    def select_protocol(self) -> str:
        """The protocol most members prefer among those all offer; of equals the one that sorts
        first.
        """
        assert self.members, "a group without members has no protocol to choose"
        everybody = len(self.members)
        candidates = {
            name for name, count in self.supported_protocols.items() if count == everybody
        }
        if len(candidates) == 1:
            return next(iter(candidates))
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        most = max(votes.values())
        return min(name for name, count in votes.items() if count == most)

    def note_subscriptions(self, subscriptions: list[bytes]) -> None:
        """Keep the metadata of a generation as it begins; who joins later does not count yet."""
        consumers = self.protocol_type == CONSUMER_PROTOCOL_TYPE
        self.subscriptions = subscriptions if consumers else None
        self.subscribed_topics_ = None

    def subscribed_topics(self) -> frozenset[str] | None:
        """Topics the last generation of a consumer group subscribes to; None when that cannot be
        told.

        Read from the metadata of its protocol, as version 0, which is a prefix of all later ones
        (spec section 3). Computed when asked for: only deletion and expiry of offsets need it.
        """
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or self.subscriptions is None:
            return None
        if self.subscribed_topics_ is None:
            topics: set[str] = set()
            try:
                for metadata in self.subscriptions:
                    topics.update(decode_subscribed_topics(metadata))
            except MalformedFrame:
                return None
            self.subscribed_topics_ = frozenset(topics)
        return self.subscribed_topics_

    def is_subscribed(self, topic: str) -> bool:
        """Whether offsets of a topic are in use: unreadable subscriptions of a consumer group count
        as all topics.
        """
        topics = self.subscribed_topics()
        if topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in topics
