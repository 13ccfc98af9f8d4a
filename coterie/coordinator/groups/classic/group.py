"""A classic group; `states.py` describes its states.

Invariants: `supported_protocols` counts for each protocol name the members that support it;
`awaiting_joins` counts the members with a delayed join; the leader is a member or None;
`static_members` maps instance ids to members of this group.
"""

from collections.abc import Sequence
from typing import Any

from coterie.coordinator.groups.classic.member import Member, Protocols
from coterie.coordinator.groups.classic.records import CLASSIC
from coterie.coordinator.groups.classic.states import TRANSITIONS, GroupState
from coterie.coordinator.groups.group_like import GroupLike, SeenMember
from coterie.coordinator.kernel.append import Record
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.consumer_protocol import decode_subscribed_topics
from coterie.protocol.messages.describe_groups import (
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)
from coterie.protocol.messages.log_records import GroupMetadataKey, OffsetCommitValue
from coterie.protocol.messages.offset_commit import OffsetCommitRequest
from coterie.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

CONSUMER_PROTOCOL_TYPE = "consumer"


# Globals are read faster than members of an enumeration.
_EMPTY = GroupState.EMPTY
_COMPLETING_REBALANCE = GroupState.COMPLETING_REBALANCE
_PREPARING = GroupState.PREPARING_REBALANCE
_STABLE = GroupState.STABLE
_DEAD = GroupState.DEAD


class Group(GroupLike):
    """One classic group.

    Attributes:
        previous_state: the state before the present one; it decides whether the join phase is an
            initial one.
        state_timestamp_ms: when the group entered its state; None if that is not known.
        pending_joins: member ids that were answered with MEMBER_ID_REQUIRED and have not joined.
        pending_syncs: members that have not synced in this generation.
        supported_protocols: protocol name to the number of members that support it.
        awaiting_joins: the number of members with a delayed join.
        new_member_added: whether a member was added during the initial delay.
        initial_delay_ms: the part of the initial delay that is running; None outside of it.
        initial_remaining_ms: what of the rebalance timeout is left after that part.
        rebalance_began_ms: when the latest rebalance started.
        assigned_generation: the generation whose leader has sent its assignment, durable or not.
        subscriptions: the metadata of the last generation's members; None before the first one and
            for groups that are not of type "consumer".
    """

    __slots__ = (
        "_subscribed_topics",
        "assigned_generation",
        "awaiting_joins",
        "generation_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "leader",
        "members",
        "new_member_added",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "rebalance_began_ms",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscriptions",
        "supported_protocols",
    )

    def __init__(self, group_id: str, now_ms: int | None) -> None:
        """Create an Empty group of generation 0; `now_ms` is None if its age is not known."""
        self.group_id = group_id
        self.id_hash = None
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp_ms = now_ms
        self.protocol_type = None
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
        self.initial_delay_ms: int | None = None
        self.initial_remaining_ms = 0
        self.rebalance_began_ms = 0
        self.assigned_generation = -1
        self.subscriptions: list[bytes] | None = None
        self._subscribed_topics: frozenset[str] | None = None

    def __repr__(self) -> str:
        return (
            f"Group({self.group_id!r}, {self.state.value}, generation={self.generation_id}, "
            f"leader={self.leader!r}, members={list(self.members)})"
        )

    # -- states ------------------------------------------------------------------------------------

    def transition(self, state: GroupState, now_ms: int) -> None:
        """Enter a state; a transition that is not in the table is a mistake of ours."""
        assert state in TRANSITIONS[self.state], (
            f"{self.group_id}: {self.state.value} -> {state.value}"
        )
        if state is _EMPTY:
            assert not self.members, f"{self} has members"
            assert self.leader is None, f"{self} has a leader and no members"
        elif state is _COMPLETING_REBALANCE:
            assert self.leader in self.members, f"{self} has no leader"
        elif state is _STABLE:
            assert self.assigned_generation == self.generation_id, f"{self} has no assignment"
        assert state is not _PREPARING or not self.pending_syncs, f"{self} waits for syncs"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    # -- members -----------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member; the first one gives the group its protocol type and leads."""
        member_id, instance = member.member_id, member.group_instance_id
        assert member_id not in self.members, f"{member_id} is in {self}"
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type, f"{protocol_type} is not the type of {self}"
        self.members[member_id] = member
        if instance is not None:
            self.static_members[instance] = member_id
        if self.leader is None:
            self.leader = member_id
        self._count_protocols(member.protocols, 1)
        if member.delayed_join is not None:
            self.awaiting_joins += 1
        self.pending_joins.discard(member_id)
        assert self.awaiting_joins <= len(self.members), f"{self} counts its joins wrong"

    def remove(self, member_id: str) -> Member:
        """Remove and return a member.

        If it led, the member that joined first leads [joining/leader-succession].
        """
        assert member_id not in self.pending_joins, f"{member_id} is pending in {self}"
        member = self.members.pop(member_id)
        self.pending_syncs.discard(member_id)
        self._count_protocols(member.protocols, -1)
        if member.delayed_join is not None:
            self.awaiting_joins -= 1
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        assert 0 <= self.awaiting_joins <= len(self.members), f"{self} counts its joins wrong"
        assert (self.leader is None) == (not self.members), f"{self} has no leader"
        return member

    def replace_static(self, group_instance_id: str, old_id: str, new_id: str) -> Member:
        """Give the member of an instance a new id in its place [static-membership/replacement].

        The caller has answered its delayed requests and cancelled its timer.
        """
        assert self.static_members[group_instance_id] == old_id, f"{old_id} in {self}"
        assert new_id not in self.members, f"{new_id} is in {self}"
        member = self.members[old_id]
        assert member.delayed_join is None, "the replaced process is answered first"
        assert member.delayed_sync is None, "the replaced process is answered first"
        # Rebuilt rather than removed and added: the order of members decides who leads next.
        self.members = {
            (new_id if member_id == old_id else member_id): each
            for member_id, each in self.members.items()
        }
        member.member_id = new_id
        self.static_members[group_instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_syncs:
            self.pending_syncs.discard(old_id)
            self.pending_syncs.add(new_id)
        return member

    def update(
        self,
        member: Member,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Take a member's protocols and timeouts from its latest JoinGroup."""
        assert self.members.get(member.member_id) is member, f"{member.member_id} is not in {self}"
        if protocols != member.protocols:
            self._count_protocols(member.protocols, -1)
            self._count_protocols(protocols, 1)
            member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def delay_join(self, member: Member, to: Any, now_ms: int) -> None:
        """Delay a JoinGroup; an earlier one is never answered [joining/repeated-join]."""
        assert self.members.get(member.member_id) is member, f"{member.member_id} is not in {self}"
        if member.delayed_join is None:
            self.awaiting_joins += 1
            assert self.awaiting_joins <= len(self.members), f"{self} counts its joins wrong"
        member.delayed_join = to
        member.joined_ms = now_ms

    def take_delayed_join(self, member: Member) -> Any:
        """Return the reply address of a member's delayed join, or None, and forget it."""
        to, member.delayed_join = member.delayed_join, None
        if to is not None:
            self.awaiting_joins -= 1
            assert self.awaiting_joins >= 0, f"{self} counts its joins wrong"
        return to

    def all_joined(self) -> bool:
        """Return whether every member has a delayed join and no member id is pending."""
        return len(self.members) == self.awaiting_joins and not self.pending_joins

    def rebalance_timeout_ms(self) -> int:
        """Return the largest rebalance timeout of the members; 0 without members."""
        longest_ms = 0
        for member in self.members.values():
            longest_ms = max(longest_ms, member.rebalance_timeout_ms)
        return longest_ms

    def elect_joined_leader(self) -> bool:
        """Keep or choose a leader that has a delayed join; return False if no member has one."""
        if self.leader is not None and self.members[self.leader].delayed_join is not None:
            return True
        for member in self.members.values():
            if member.delayed_join is not None:
                self.leader = member.member_id
                return True
        return False

    # -- protocols ---------------------------------------------------------------------------------

    def _count_protocols(self, protocols: Protocols, step: int) -> None:
        counts = self.supported_protocols
        # Distinct names only [joining/protocol-admission].
        for name in {name for name, _ in protocols}:
            count = counts.get(name, 0) + step
            assert count >= 0, f"{self} counts {name} wrong"
            if count:
                counts[name] = count
            else:
                del counts[name]

    def accepts(self, protocol_type: str, names: list[str]) -> bool:
        """Return whether a joiner's protocols fit the members' [joining/protocol-admission]."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        everyone = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.supported_protocols.get(name, 0) == everyone for name in names
        )

    def select_protocol(self) -> str:
        """Return the protocol of the next generation.

        Every member votes for the first of its protocols that all members support. Of equal votes
        the name that sorts first wins [joining/protocol-choice].
        """
        assert self.members, "a group without members has no protocol"
        everyone = len(self.members)
        candidates = {name for name, count in self.supported_protocols.items() if count == everyone}
        if len(candidates) == 1:
            return next(iter(candidates))
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        most = max(votes.values())
        return min(name for name, count in votes.items() if count == most)

    # -- subscribed topics -------------------------------------------------------------------------

    def set_subscriptions(self, subscriptions: list[bytes]) -> None:
        """Keep the metadata of the members of a generation that begins."""
        assert len(subscriptions) == len(self.members), f"{self} has a subscription a member"
        consumers = self.protocol_type == CONSUMER_PROTOCOL_TYPE
        self.subscriptions = subscriptions if consumers else None
        self._subscribed_topics = None

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics of the last generation [offsets/subscribed-topics]; None if unknown.

        They are computed on demand, because only deletion and expiry of offsets need them.
        """
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or self.subscriptions is None:
            return None
        if self._subscribed_topics is None:
            topics: set[str] = set()
            try:
                for metadata in self.subscriptions:
                    topics.update(decode_subscribed_topics(metadata))
            except MalformedFrame:
                return None
            self._subscribed_topics = frozenset(topics)
        return self._subscribed_topics

    def is_subscribed(self, topic: str) -> bool:
        """Return whether the group subscribes to a topic [offsets/subscribed-topics]."""
        topics = self.subscribed_topics()
        if topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in topics

    # -- what all groups have in common ------------------------------------------------------------

    @property
    def group_type(self) -> str:
        """See `GroupLike`."""
        return CLASSIC

    @property
    def state_name(self) -> str:
        """See `GroupLike`."""
        return self.state.value

    @property
    def exists(self) -> bool:
        """See `GroupLike`."""
        return self.state is not _DEAD

    @property
    def is_empty(self) -> bool:
        """See `GroupLike`."""
        return self.state is _EMPTY

    @property
    def member_count(self) -> int:
        """See `GroupLike`."""
        return len(self.members)

    def seen_members(self) -> Sequence[SeenMember]:
        """See `GroupLike`."""
        return [member.seen() for member in self.members.values()]

    def waits_for(self, now_ms: int) -> str | None:
        """See `GroupLike`."""
        if self.state is GroupState.PREPARING_REBALANCE:
            if self.initial_delay_ms is not None:
                return "more members (group.initial.rebalance.delay.ms)"
            members = self.members.values()
            missing = [each.client_id for each in members if each.delayed_join is None]
            # Members that were given an id and have not joined with it yet.
            missing += ["a new member"] * len(self.pending_joins)
            left_ms = self.rebalance_began_ms + self.rebalance_timeout_ms() - now_ms
            return f"JoinGroup of {', '.join(missing)}, at most {max(0, left_ms) / 1000:.1f} s more"
        if self.state is _COMPLETING_REBALANCE:
            leader = self.members.get(self.leader or "")
            name = "the leader" if leader is None else f"the leader {leader.client_id}"
            return f"the assignment in the SyncGroup of {name}"
        return None

    def identity_error(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return NONE if the ids name one member of the group [sessions/identity-check].

        The instance is compared before the member id, so that a replaced process learns that it was
        fenced although its member id no longer exists.
        """
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def commit_error(
        self,
        now_ms: int,
        request: OffsetCommitRequest,
        version: int,  # noqa: ARG002 - members of the consumer protocol need it
    ) -> ErrorCode:
        """See `GroupLike`; Kafka's order of checks. A member's session starts anew."""
        state, generation_id = self.state, request.generation_id_or_member_epoch
        if state is _DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and state is _EMPTY:
            return ErrorCode.NONE
        member_id, instance_id = request.member_id, request.group_instance_id
        member = self.members.get(member_id)
        if member is None or instance_id is not None:
            error = self.identity_error(member_id, instance_id)
            if error:
                return error
            assert member is not None, f"{member_id} is a member"
        if generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if state is _COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        member.deadline_ms = now_ms + member.session_timeout_ms
        return ErrorCode.NONE

    def transactional_commit_error(self, request: TxnOffsetCommitRequest) -> ErrorCode:
        """See `GroupLike`. Requests before version 3 name no member, so none is required."""
        state, generation_id = self.state, request.generation_id
        if state is _DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and state is _EMPTY:
            return ErrorCode.NONE
        if generation_id < 0 and not request.member_id and request.group_instance_id is None:
            return ErrorCode.NONE
        error = self.identity_error(request.member_id, request.group_instance_id)
        if not error and generation_id != self.generation_id:
            error = ErrorCode.ILLEGAL_GENERATION
        return error

    def fetch_error(
        self,
        member_id: str | None,  # noqa: ARG002 - members of the consumer protocol need it
        member_epoch: int,  # noqa: ARG002 - as above
    ) -> ErrorCode:
        """See `GroupLike`; anybody may read [offsets/fetch]."""
        return ErrorCode.NONE

    def offset_delete_error(self) -> ErrorCode:
        """See `GroupLike`."""
        if self.state is not _EMPTY and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def is_consuming(self, topic: str) -> bool:
        """See `GroupLike`."""
        return self.state is not _EMPTY and self.is_subscribed(topic)

    def expiry_base_ms(self, topic: str, value: OffsetCommitValue) -> int | None:
        """See `GroupLike`."""
        if self.protocol_type is None:
            return value.commit_timestamp
        if self.state is _EMPTY:
            emptied_ms = self.state_timestamp_ms
            return value.commit_timestamp if emptied_ms is None else emptied_ms
        consumers = self.protocol_type == CONSUMER_PROTOCOL_TYPE
        if self.state is _STABLE and consumers and not self.is_subscribed(topic):
            return value.commit_timestamp
        return None

    def delete_error(self) -> tuple[ErrorCode, str | None]:
        """See `GroupLike`."""
        if self.state is _EMPTY:
            return ErrorCode.NONE, None
        text = f"Group {self.group_id} has {len(self.members)} members in state {self.state.value}."
        return ErrorCode.NON_EMPTY_GROUP, text

    def tombstones(self) -> Sequence[Record]:
        """See `GroupLike`."""
        return [(GroupMetadataKey(group=self.group_id), None)]

    def logged_generation(self) -> int:
        """See `GroupLike`."""
        return self.generation_id

    def describe(self, operations: int) -> DescribeGroupsResponseGroup:
        """See `GroupLike`; members' metadata in Stable only, their assignments always."""
        name = self.protocol_name or "" if self.state is _STABLE else ""
        members = [
            DescribeGroupsResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(name) if name else b"",
                member_assignment=member.assignment,
            )
            for member in self.members.values()
        ]
        return DescribeGroupsResponseGroup(
            error_code=ErrorCode.NONE,
            group_id=self.group_id,
            group_state=self.state.value,
            protocol_type=self.protocol_type or "",
            protocol_data=name,
            members=members,
            authorized_operations=operations,
        )


def classic(group: GroupLike | None) -> Group | None:
    """Return a group if it is a classic one."""
    return group if isinstance(group, Group) else None
