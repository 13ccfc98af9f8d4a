"""Steps of several verbs with one member: reconcile it, start its session, remove it."""

from collections.abc import Sequence
from typing import NamedTuple

from coterie.coordinator.groups import sessions
from coterie.coordinator.groups.consumer.downgrade import (
    begin_classic,
    begin_downgrade,
    cancel_timers,
    downgrade,
    is_downgraded_without,
    takes_long,
)
from coterie.coordinator.groups.consumer.epochs import bump_epoch
from coterie.coordinator.groups.consumer.group_state import CONSUMER
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.reconciliation import (
    OwnedNow,
    Reconciled,
    UnknownState,
    reconcile,
)
from coterie.coordinator.groups.consumer.records import current_value
from coterie.coordinator.groups.consumer.states import STATE_NAMES, GroupState, MemberState
from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.groups.consumer.subscription import drop_regexes
from coterie.coordinator.groups.consumer.timers import TimerKind
from coterie.coordinator.groups.epochs import Bump, Instigator, instigator_of
from coterie.coordinator.groups.member_facts import joined_fact, removed_fact
from coterie.coordinator.groups.recorded import revocation
from coterie.coordinator.groups.recorded.target import note_convergence
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_facts import MemberReconciled
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
)

# What a member of the consumer protocol has in place of the names of assignors.
_CONSUMER_PROTOCOL = "consumer"

# -- reconciliation --------------------------------------------------------------------------------


def reconcile_member(
    step: Step, member: ConsumerMember, owned: OwnedNow | None, *, changed: bool
) -> None:
    """Take a member one step towards its target, and write where it is then.

    Raises:
        Refusal: it is in a state of other software and has to begin without partitions.
    """
    group = step.group
    try:
        reconciled = reconcile(group, member, owned, changed=changed)
    except UnknownState:
        raise Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its "
            "partitions and rejoin.",
        ) from None
    if reconciled is not None:
        key = ConsumerGroupCurrentMemberAssignmentKey.of(group.group_id, member.member_id)
        step.facts.append(reconciled_fact(step.now_ms, member, reconciled))
        settled = group.settled
        step.set(key, current_value(*reconciled, member))
        assert group.members.get(member.member_id) is member, f"{member} is not in {group}"
        assert member.epoch == reconciled.epoch, f"{member} is at another epoch than its record"
        assert member.state is reconciled.state, f"{member} is in another state than its record"
        assert reconciled.epoch <= group.target_epoch, f"{member} is ahead of the target"
        member.changed_ms = step.now_ms
        is_last = settled < group.settled == len(group.members)
        if is_last and group.derived_state() is GroupState.STABLE:
            note_convergence(step)


def reconciled_fact(now_ms: int, member: ConsumerMember, now: Reconciled) -> MemberReconciled:
    """Return the fact that a member is about to come closer to its target."""
    added = revoked = 0
    if now.assigned is not member.assigned:
        before = {(topic, index) for topic, each in member.assigned.items() for index in each}
        after = {(topic, index) for topic, each in now.assigned.items() for index in each}
        added, revoked = len(after - before), len(before - after)
    state_ms = now_ms - member.changed_ms if member.changed_ms else -1
    return MemberReconciled.of(
        now_ms,
        member.member_id,
        member.instance_id,
        member.client_id,
        now.epoch,
        now.previous_epoch,
        STATE_NAMES[now.state],
        STATE_NAMES[member.state],
        added,
        revoked,
        state_ms,
        # The journal knows the broker.
        -1,
        CONSUMER,
    )


def time_revocation(step: Step, member: ConsumerMember) -> None:
    """Arm or cancel the timer in which a member has to give partitions up."""
    is_asked = member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None
    if is_asked or member.revocation is not None:
        revocation.time_revocation(step, member, TimerKind.REVOCATION, is_asked=is_asked)


# -- session and removal ---------------------------------------------------------------------------


def start_session(step: Step, member: ConsumerMember, timeout_ms: int) -> None:
    """Let a member's session end `timeout_ms` from now [sessions/session-timeout]."""
    sessions.start_session(step, member, TimerKind.SESSION, timeout_ms)


class Removed(NamedTuple):
    """A member that is gone, and what it was."""

    member: ConsumerMember
    identity: Instigator


def remove_members(step: Step, members: Sequence[ConsumerMember], cause: Bump) -> list[Removed]:
    """Write that members are gone; what is left may be a classic group [consumer-groups/leave].

    The epoch rises once. No target is computed: the next heartbeat does it. A classic group whose
    record is larger than a batch does not come into being [consumer-groups/downgrade]. A large one
    comes into being later [consumer-groups/large-downgrade].
    """
    group = step.group
    assert members, f"nobody leaves {group}"
    ids = [member.member_id for member in members]
    assert len(set(ids)) == len(ids), f"a member leaves {group} twice"
    removed = [Removed(each, instigator_of(each)) for each in members]
    if is_downgraded_without(step, ids):
        step.downgrades_later = takes_long(group)
        if not step.downgrades_later:
            downgrade(step, ids)
            if step.has_small_records():
                return removed
            step.undo()
    regexes = [member.regex for member in members if member.regex]
    for member_id in ids:
        step.remove(group.member_tombstones(member_id))
    drop_regexes(step, regexes)
    assert not group.members.keys() & set(ids), f"a member that is gone is in {group}"
    bump_epoch(step, cause, removed[0].identity)
    return removed


def finish_removal(step: Step) -> bool:
    """Let a group that has become a classic one rebalance; return whether the records fit."""
    if not step.fits():
        return False
    assert step.effects.operation is not None, f"a member has left {step.group} without a record"
    if step.becomes is not None:
        begin_classic(step, rebalances=True)
    elif step.downgrades_later:
        begin_downgrade(step)
    return True


def note_joined(step: Step, member: ConsumerMember) -> None:
    """Note that a member has joined."""
    assert step.group.members.get(member.member_id) is member, f"{member} has not joined"
    classic = member.classic
    names = [_CONSUMER_PROTOCOL]
    if classic is not None:
        names = [each.name for each in classic.supported_protocols]
    step.note(joined_fact(step.group, member, names, step.context.client, step.now_ms))


def note_removed(
    step: Step,
    removed: Removed,
    cause: Bump,
    reason: str | None = None,
    requester: RequestContext | None = None,
) -> None:
    """Cancel the timers of a member that was removed, and note why."""
    member, group = removed.member, step.becomes or step.group
    assert member.member_id not in step.group.members, f"{member} is removed and in {group}"
    cancel_timers(step, member)
    step.note(removed_fact(group, member, removed.identity, cause, step.now_ms, reason, requester))
