"""The join phase: how a rebalance starts, waits and completes.

Out of Empty the phase lasts the initial delay, extended when members are added, up to the largest
rebalance timeout [joining/initial-delay]. Out of any other state it lasts until every member has
rejoined and no member id is pending, at most the largest rebalance timeout
[joining/rebalance-start] [joining/join-completion].
"""

from enum import StrEnum

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.group_record import group_record
from coterie.coordinator.groups.classic.member import Member
from coterie.coordinator.groups.classic.members import (
    Removal,
    recorded_reason,
    remove_member,
    start_session,
)
from coterie.coordinator.groups.classic.responses import join_response, join_roster, sync_error
from coterie.coordinator.groups.classic.states import TRANSITIONS, GroupState
from coterie.coordinator.groups.classic.step import Step
from coterie.coordinator.groups.classic.subscription_change import SubscriptionChange
from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.journal_records import (
    GroupEmptied,
    JoinCompleted,
    JoinPhaseExtended,
    RebalanceBegan,
)

# The shortest extension of a join phase that no member has rejoined. A client may ask for a
# rebalance timeout of 0; without this floor such a phase would end and be extended again without a
# pause until the sessions of its members end [joining/join-timeout].
MIN_EXTENSION_MS = 1_000


class Cause(StrEnum):
    """Why a rebalance began [journal/rebalance-began]."""

    JOIN = "join"
    SUBSCRIPTION = "rejoin with changed subscription"
    LEADER_REJOIN = "leader rejoin"
    STATIC_REPLACEMENT = "static replacement"
    LEAVE = "leave"
    ADMIN_REMOVAL = "admin removal"
    SESSION_EXPIRY = "session expiry"
    SYNC_TIMEOUT = "sync timeout"
    LARGE_ASSIGNMENT = "large assignment"
    LATE_ASSIGNMENT = "late assignment"
    LOAD = "load"
    REQUEST = "request"
    DOWNGRADE = "downgrade"


class JoinEnd(StrEnum):
    """What ended a join phase [journal/phases]."""

    ALL_JOINED = "all joined"
    INITIAL_DELAY = "initial delay"
    REBALANCE_TIMEOUT = "rebalance timeout"


class Instigator:
    """The member that caused a rebalance.

    Attributes:
        member: the member that joined, rejoined, left or was removed.
        reason: the reason that its client, or the administrator, gave (KIP-800).
        change: what it changed, if it rejoined with other metadata.
        requester: the client that asked for its removal, if it is not the member itself.
    """

    __slots__ = ("change", "member", "reason", "requester")

    def __init__(
        self,
        member: Member,
        reason: str | None = None,
        change: SubscriptionChange | None = None,
        requester: RequestContext | None = None,
    ) -> None:
        self.member = member
        self.reason = reason
        self.change = change
        self.requester = requester


# -- the start -------------------------------------------------------------------------------------


def prepare_rebalance(
    step: Step, cause: Cause, instigator: Instigator | None = None, reason: str | None = None
) -> None:
    """Start a rebalance of a group that is not in one [joining/rebalance-start].

    Args:
        step: receives replies, timers, events and, if no member is left, the record.
        cause: why it starts.
        instigator: the member that caused it, if any.
        reason: for the journal, if no member caused it.
    """
    group, now_ms = step.group, step.now_ms
    assert group.initial_delay_ms is None, f"{group} is in its initial delay"
    if group.state is GroupState.COMPLETING_REBALANCE:
        fail_syncs(step, ErrorCode.REBALANCE_IN_PROGRESS)
    if group.state is not GroupState.EMPTY:
        group.pending_syncs.clear()
        step.cancel(TimerKind.SYNC)
    group.rebalance_began_ms = now_ms
    previous_state = group.state
    group.transition(GroupState.PREPARING_REBALANCE, now_ms)
    delay_ms = step.partition.config.group_initial_rebalance_delay_ms
    timeout_ms = group.rebalance_timeout_ms()
    began = RebalanceBegan(
        at_ms=now_ms,
        cause=str(cause),
        previous_state=str(previous_state),
        generation_id=group.generation_id,
        member_count=len(group.members),
        timeout_ms=timeout_ms,
        initial_delay_ms=delay_ms if previous_state is GroupState.EMPTY else -1,
        reason=recorded_reason(reason),
    )
    if instigator is not None:
        _add_instigator(began, instigator)
    step.note(began)
    if previous_state is GroupState.EMPTY:
        assert group.members, f"{group} begins a rebalance without members"
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = max(timeout_ms - delay_ms, 0)
        step.arm(TimerKind.JOIN, "", now_ms + delay_ms)
    elif group.all_joined():
        complete_join(step)
    else:
        step.arm(TimerKind.JOIN, "", now_ms + timeout_ms)


def rebalance_on_request(
    partition: PartitionState, group_id: str, reason: str, now_ms: int
) -> Effects[None]:
    """Start a rebalance for which no member is the cause, if the group is in no join phase.

    No request of Kafka's protocol does this; `coterie.testing` does [journal/rebalance-began].
    """
    effects: Effects[None] = Effects()
    group = partition.groups.get(group_id)
    if isinstance(group, Group) and group.state in (
        GroupState.STABLE,
        GroupState.COMPLETING_REBALANCE,
    ):
        prepare_rebalance(Step(partition, group, now_ms, effects), Cause.REQUEST, reason=reason)
    return effects


def _add_instigator(began: RebalanceBegan, instigator: Instigator) -> None:
    member, requester = instigator.member, instigator.requester
    began.member_id = member.member_id
    began.group_instance_id = member.group_instance_id
    began.client_id = member.client_id
    began.client_host = member.client_host
    began.reason = recorded_reason(instigator.reason)
    if instigator.change is not None:
        began.subscription_change = instigator.change.value
    if requester is not None:
        began.requester_client_id = requester.client.client_id
        began.requester_host = requester.client.client_host
        began.requester_principal = requester.client.login


def fail_syncs(step: Step, error: ErrorCode) -> None:
    """Empty every assignment and answer the delayed syncs with an error.

    The sessions of the answered members start anew [sessions/session-start].
    """
    assert error, "a sync that fails has an error"
    state = step.group.state
    assert state is GroupState.COMPLETING_REBALANCE, f"{step.group} has no delayed syncs"
    for member in step.group.members.values():
        member.assignment = b""
        to = member.take_delayed_sync()
        if to is not None:
            step.reply(to, sync_error(error))
            start_session(step, member, member.session_timeout_ms)


# -- after a member joined, rejoined or left -------------------------------------------------------


def prepare_or_complete(step: Step, cause: Cause, instigator: Instigator) -> None:
    """Start a rebalance if the state allows it, else check whether the join phase is complete."""
    if GroupState.PREPARING_REBALANCE in TRANSITIONS[step.group.state]:
        prepare_rebalance(step, cause, instigator)
    else:
        maybe_complete_join(step)


def maybe_complete_join(step: Step) -> None:
    """Complete the join phase if every member has rejoined.

    The initial delay runs to its end all the same [joining/initial-delay].
    """
    group = step.group
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.previous_state is not GroupState.EMPTY
        and group.all_joined()
    ):
        step.cancel(TimerKind.JOIN)
        complete_join(step)


# -- the end ---------------------------------------------------------------------------------------


def join_timer_fired(step: Step) -> None:
    """Extend the initial delay if a member was added during it, else complete the join phase.

    Each extension lasts the smaller of the delay and what is left of the rebalance timeout. If
    nothing is left the mark of an added member stays set, as in Kafka [joining/initial-delay].
    """
    group = step.group
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    delay_ms = group.initial_delay_ms
    is_initial = group.previous_state is GroupState.EMPTY
    assert delay_ms is None or is_initial, f"the delay of {group} begins out of Empty"
    if delay_ms is None or not (group.new_member_added and group.initial_remaining_ms):
        end = JoinEnd.REBALANCE_TIMEOUT if delay_ms is None else JoinEnd.INITIAL_DELAY
        complete_join(step, end)
        return
    group.new_member_added = False
    remaining_ms = group.initial_remaining_ms
    assert remaining_ms > 0, f"{group} has no time left for another delay"
    longest_ms = step.partition.config.group_initial_rebalance_delay_ms
    group.initial_delay_ms = min(longest_ms, remaining_ms)
    group.initial_remaining_ms = max(remaining_ms - delay_ms, 0)
    step.arm(TimerKind.JOIN, "", step.now_ms + group.initial_delay_ms)


def complete_join(step: Step, end: JoinEnd = JoinEnd.ALL_JOINED) -> None:
    """End the join phase: with a new generation, as an Empty group, or by extending it.

    Dynamic members that have not rejoined are removed, static ones stay [joining/join-timeout]. The
    timer of the phase has fired, was cancelled by the caller, or was never armed.
    """
    group, now_ms = step.group, step.now_ms
    assert group.state is GroupState.PREPARING_REBALANCE, f"{group} is not in a join phase"
    assert not group.pending_syncs, f"{group} waits for syncs in its join phase"
    group.initial_delay_ms = None
    for member in list(group.members.values()):
        if member.delayed_join is None and member.group_instance_id is None:
            remove_member(step, member, Removal.REBALANCE_TIMEOUT)
    if group.members and not group.elect_joined_leader():
        _extend_join(step)
        return
    group.generation_id += 1
    if not group.members:
        _become_empty(step)
        return
    group.protocol_name = name = group.select_protocol()
    supporting = group.supported_protocols.get(name)
    assert supporting == len(group.members), f"each member of {group} supports {name}"
    group.pending_syncs.clear()
    group.transition(GroupState.COMPLETING_REBALANCE, now_ms)
    step.arm(TimerKind.SYNC, "", now_ms + group.rebalance_timeout_ms())
    roster = join_roster(group)
    group.set_subscriptions([each.metadata for each in roster])
    for member in group.members.values():
        group.pending_syncs.add(member.member_id)
        to = group.take_delayed_join(member)
        if to is not None:
            members = roster if member.member_id == group.leader else []
            step.reply(to, join_response(group, member, members))
        member.is_new = False
        start_session(step, member, member.session_timeout_ms)
    assert not group.awaiting_joins, f"{group} has delayed joins after its join phase"
    assert len(group.pending_syncs) == len(group.members), f"each member of {group} has to sync"
    completed = JoinCompleted(
        at_ms=now_ms,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type or "",
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        member_count=len(group.members),
        began_ms=group.rebalance_began_ms,
        join_ms=now_ms - group.rebalance_began_ms,
        ended_by=str(end),
    )
    step.note(completed)


def _extend_join(step: Step) -> None:
    """Extend the join phase: only static members are left, and none has rejoined.

    The rule is [joining/join-timeout].
    """
    group, now_ms = step.group, step.now_ms
    assert group.members, f"{group} waits for nobody"
    assert not group.awaiting_joins, f"a member of {group} has rejoined"
    wait_ms = max(group.rebalance_timeout_ms(), MIN_EXTENSION_MS)
    extended = JoinPhaseExtended(
        at_ms=now_ms,
        generation_id=group.generation_id,
        member_count=len(group.members),
        wait_ms=wait_ms,
    )
    step.note(extended)
    step.arm(TimerKind.JOIN, "", now_ms + wait_ms)


def _become_empty(step: Step) -> None:
    """End the join phase without members [joining/empty-generation]."""
    group, now_ms = step.group, step.now_ms
    assert not group.members, f"{group} has members"
    assert not group.awaiting_joins, f"{group} has delayed joins and no members"
    group.protocol_name = None
    group.set_subscriptions([])
    group.transition(GroupState.EMPTY, now_ms)
    step.write(group_record(group))
    emptied = GroupEmptied(
        at_ms=now_ms,
        generation_id=group.generation_id,
        began_ms=group.rebalance_began_ms,
        join_ms=now_ms - group.rebalance_began_ms,
    )
    step.note(emptied)
