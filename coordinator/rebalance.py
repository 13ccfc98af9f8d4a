"""The join phase: how a rebalance starts, waits and completes (spec sections 4.5 and 4.6).

From Empty the phase lasts the initial delay, stretched by one slice for arrivals, up to the largest
rebalance timeout. From any other state it lasts until every member has rejoined and nobody holds an
unused id, or the largest rebalance timeout.
"""

from enum import Enum
from typing import NamedTuple

from coterie.coordinator.answers import sync_error
from coterie.coordinator.effects import Effects, Reply, RequestContext, TimerKind
from coterie.coordinator.group import TRANSITIONS, Group, GroupState, Member
from coterie.coordinator.group_record import group_record
from coterie.coordinator.members import Removal, remove_member, start_session, told_reason
from coterie.coordinator.partition_state import PartitionState
from coterie.coordinator.subscription_change import SubscriptionChange
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from coterie.protocol.messages.journal_records import (
    GroupEmptied,
    JoinCompleted,
    JoinPhaseExtended,
    RebalanceBegan,
)

# The least that a join phase nobody rejoined is extended by. A client may ask for a rebalance
# timeout of 0; without a floor the phase would end and be extended again without a pause until
# sessions run out.
MIN_EXTENSION_MS = 1_000


class Cause(Enum):
    """Why a rebalance began: what Kafka's log does not tell, and ours does."""

    JOIN = "join"
    SUBSCRIPTION = "rejoin with changed subscription"
    LEADER_REJOIN = "leader rejoin"
    STATIC_REPLACEMENT = "static replacement"
    LEAVE = "leave"
    ADMIN_REMOVAL = "admin removal"
    SESSION_EXPIRY = "session expiry"
    SYNC_TIMEOUT = "sync timeout"
    APPEND_FAILURE = "append failure"
    LOAD = "load"


class JoinEnd(Enum):
    """What ended a join phase."""

    ALL_JOINED = "all joined"
    INITIAL_DELAY = "initial delay"
    REBALANCE_TIMEOUT = "rebalance timeout"


class Instigator(NamedTuple):
    """Whose doing a rebalance is.

    Attributes:
        member: who joined, came back, left or was removed.
        reason: what its client, or the administrator, gave as reason (KIP-800).
        change: what it changed, where it came back changed.
        requester: who asked for its removal, if it was not the member itself.
    """

    member: Member
    reason: str | None = None
    change: SubscriptionChange | None = None
    requester: RequestContext | None = None


def prepare_rebalance(
    partition: PartitionState,
    group: Group,
    now_ms: int,
    effects: Effects,
    cause: Cause,
    instigator: Instigator | None = None,
) -> None:
    """Start a rebalance (spec section 4.5).

    Args:
        partition: whose settings hold.
        group: Empty, CompletingRebalance or Stable.
        now_ms: the time.
        effects: gathers replies, timers and, where nobody is left, the record.
        cause: why.
        instigator: whose doing it is, if anybody's.
    """
    if group.state is GroupState.COMPLETING_REBALANCE:
        fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms, effects)
    if group.state is not GroupState.EMPTY:
        group.pending_syncs.clear()
        effects.cancel(TimerKind.SYNC, group.group_id)
    group.rebalance_began_ms = now_ms
    began_from = group.state
    group.transition(GroupState.PREPARING_REBALANCE, now_ms)
    delay_ms = partition.config.group_initial_rebalance_delay_ms
    began = RebalanceBegan(
        at_ms=now_ms,
        cause=cause.value,
        previous_state=began_from.value,
        generation_id=group.generation_id,
        member_count=len(group.members),
        timeout_ms=group.rebalance_timeout_ms(),
        initial_delay_ms=delay_ms if began_from is GroupState.EMPTY else -1,
    )
    if instigator is not None:
        _name_instigator(began, instigator)
    effects.note(group.group_id, began)
    if began_from is GroupState.EMPTY:
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
        effects.arm(TimerKind.JOIN, group.group_id, "", now_ms + delay_ms)
    elif group.all_joined():
        complete_join(group, now_ms, effects)
    else:
        effects.arm(TimerKind.JOIN, group.group_id, "", now_ms + group.rebalance_timeout_ms())


def _name_instigator(began: RebalanceBegan, instigator: Instigator) -> None:
    member, requester = instigator.member, instigator.requester
    began.member_id = member.member_id
    began.group_instance_id = member.group_instance_id
    began.client_id = member.client_id
    began.client_host = member.client_host
    began.reason = told_reason(instigator.reason)
    if instigator.change is not None:
        began.subscription_change = instigator.change.value
    if requester is not None:
        began.requester_client_id = requester.client_id
        began.requester_host = requester.client_host


def prepare_or_complete(
    partition: PartitionState,
    group: Group,
    now_ms: int,
    effects: Effects,
    cause: Cause,
    instigator: Instigator,
) -> None:
    """After a member parked or left: start a rebalance where the state allows it, else see whether
    it is complete.
    """
    if GroupState.PREPARING_REBALANCE in TRANSITIONS[group.state]:
        prepare_rebalance(partition, group, now_ms, effects, cause, instigator)
    else:
        maybe_complete_join(group, now_ms, effects)


def maybe_complete_join(group: Group, now_ms: int, effects: Effects) -> None:
    """Complete the join phase if everybody is back; the initial delay always runs to its end."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.previous_state is not GroupState.EMPTY
        and group.all_joined()
    ):
        complete_join(group, now_ms, effects)


def join_timer_fired(
    partition: PartitionState, group: Group, now_ms: int, effects: Effects
) -> None:
    """The join timer: one more slice of initial delay where somebody arrived in the last one, else
    completion.
    """
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    delay_ms = group.initial_delay_ms
    if delay_ms is None or not (group.new_member_added and group.initial_remaining_ms):
        end = JoinEnd.REBALANCE_TIMEOUT if delay_ms is None else JoinEnd.INITIAL_DELAY
        complete_join(group, now_ms, effects, end)
        return
    group.new_member_added = False
    remaining_ms = group.initial_remaining_ms
    group.initial_delay_ms = min(partition.config.group_initial_rebalance_delay_ms, remaining_ms)
    group.initial_remaining_ms = max(remaining_ms - delay_ms, 0)
    effects.arm(TimerKind.JOIN, group.group_id, "", now_ms + group.initial_delay_ms)


def complete_join(
    group: Group, now_ms: int, effects: Effects, end: JoinEnd = JoinEnd.ALL_JOINED
) -> None:
    """End the join phase: the next generation, or an Empty group (spec section 4.6)."""
    group_id = group.group_id
    effects.cancel(TimerKind.JOIN, group_id)
    group.initial_delay_ms = None
    for member in list(group.members.values()):
        if member.delayed_join is None and member.group_instance_id is None:
            remove_member(group, member, now_ms, effects, Removal.REBALANCE_TIMEOUT)
    if group.members and not group.elect_joined_leader():
        # Only static members are left and none of them came back: wait on, their sessions will
        # drain the group.
        wait_ms = max(group.rebalance_timeout_ms(), MIN_EXTENSION_MS)
        extended = JoinPhaseExtended(
            at_ms=now_ms,
            generation_id=group.generation_id,
            member_count=len(group.members),
            wait_ms=wait_ms,
        )
        effects.note(group_id, extended)
        effects.arm(TimerKind.JOIN, group_id, "", now_ms + wait_ms)
        return
    group.generation_id += 1
    if not group.members:
        _become_empty(group, now_ms, effects)
        return
    group.protocol_name = group.select_protocol()
    group.pending_syncs.clear()
    group.transition(GroupState.COMPLETING_REBALANCE, now_ms)
    effects.arm(TimerKind.SYNC, group_id, "", now_ms + group.rebalance_timeout_ms())
    roster = join_roster(group)
    group.note_subscriptions([each.metadata for each in roster])
    for member in group.members.values():
        group.pending_syncs.add(member.member_id)
        to = group.take_join(member)
        if to is not None:
            members = roster if member.member_id == group.leader else []
            effects.replies.append(Reply(to, join_answer(group, member, members)))
        member.is_new = False
        start_session(group, member, member.session_timeout_ms, now_ms, effects)
    completed = JoinCompleted(
        at_ms=now_ms,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type or "",
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        member_count=len(group.members),
        began_ms=group.rebalance_began_ms,
        join_ms=now_ms - group.rebalance_began_ms,
        ended_by=end.value,
    )
    effects.note(group_id, completed)


def _become_empty(group: Group, now_ms: int, effects: Effects) -> None:
    group.protocol_name = None
    group.note_subscriptions([])
    group.transition(GroupState.EMPTY, now_ms)
    effects.records.append(group_record(group))
    emptied = GroupEmptied(
        at_ms=now_ms,
        generation_id=group.generation_id,
        began_ms=group.rebalance_began_ms,
        join_ms=now_ms - group.rebalance_began_ms,
    )
    effects.note(group.group_id, emptied)


def join_roster(group: Group) -> list[JoinGroupResponseMember]:
    """What the leader is told of the members: ids and their metadata for the chosen protocol."""
    name = group.protocol_name
    assert name is not None, "a generation has a protocol"
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(name),
        )
        for member in group.members.values()
    ]


def join_answer(
    group: Group, member: Member, members: list[JoinGroupResponseMember]
) -> JoinGroupResponse:
    """A successful JoinGroup of the present generation."""
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        member_id=member.member_id,
        members=members,
    )


def fail_syncs(group: Group, error: ErrorCode, now_ms: int, effects: Effects) -> None:
    """Take every assignment back and answer the parked syncs with an error; their sessions start
    again.
    """
    for member in group.members.values():
        member.assignment = b""
        if member.delayed_sync is not None:
            effects.replies.append(Reply(member.delayed_sync, sync_error(error)))
            member.delayed_sync = None
            start_session(group, member, member.session_timeout_ms, now_ms, effects)
