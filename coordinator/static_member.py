"""A static member that comes back with a blank member id (KIP-345, KIP-814; spec section 8).

It gets a new id in its old place. In a Stable group whose protocol would not change that costs no
rebalance: the group is logged again with the new id, and only then is the member told that nothing
happened.
"""

from typing import NamedTuple

from coterie.coordinator.answers import join_error, sync_error
from coterie.coordinator.effects import Effects, Reply, RequestContext, TimerKind
from coterie.coordinator.group import Group, GroupState, Protocols
from coterie.coordinator.group_record import group_record
from coterie.coordinator.members import (
    member_fenced,
    protocols_of,
    rebalance_timeout_of,
    start_session,
    told_reason,
)
from coterie.coordinator.partition_state import PartitionState
from coterie.coordinator.rebalance import (
    Cause,
    Instigator,
    join_answer,
    join_roster,
    prepare_or_complete,
)
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages import journal_records
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

# From this version on the leader can be told to keep the assignment it knows (KIP-814).
_SKIP_ASSIGNMENT_SINCE = 9


class ReplacementWrite(NamedTuple):
    """A static member came back in a Stable group: durable, it is answered; failed, its old self is
    restored (spec 8).
    """

    group: Group
    generation_id: int
    group_instance_id: str
    member_id: str
    old_member_id: str
    previous_leader: str
    skips_assignment: bool
    old_protocols: Protocols
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int


def replace_static_member(
    partition: PartitionState,
    group: Group,
    now_ms: int,
    request: JoinGroupRequest,
    context: RequestContext,
    member_id: str,
    effects: Effects,
) -> None:
    """Let a known instance take its place under a new member id.

    Args:
        partition: the partition of the group.
        group: has the instance of the request among its static members.
        now_ms: the time.
        request: the join, with a blank member id.
        context: who asks.
        member_id: the new id.
        effects: gathers what follows.
    """
    instance = request.group_instance_id
    assert instance is not None
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        # An empty group has no static members left, so this is a contradiction, as in Kafka (S72).
        effects.answer = join_error(ErrorCode.UNKNOWN_SERVER_ERROR, "")
        return
    old_id = group.static_members[instance]
    member = group.members[old_id]
    previous_leader = group.leader or ""
    fenced = _fence_parked(group, old_id, effects)
    if member.armed_ms:
        effects.cancel(TimerKind.SESSION, group.group_id, old_id)
        member.armed_ms = 0
    group.replace_static(instance, old_id, member_id)
    if old_id in group.pending_syncs:
        group.pending_syncs.discard(old_id)
        group.pending_syncs.add(member_id)
    completion = ReplacementWrite(
        group=group,
        generation_id=group.generation_id,
        group_instance_id=instance,
        member_id=member_id,
        old_member_id=old_id,
        previous_leader=previous_leader,
        skips_assignment=context.version >= _SKIP_ASSIGNMENT_SINCE,
        old_protocols=member.protocols,
        old_rebalance_timeout_ms=member.rebalance_timeout_ms,
        old_session_timeout_ms=member.session_timeout_ms,
    )
    start_session(group, member, member.session_timeout_ms, now_ms, effects)
    for what in fenced:
        effects.note(group.group_id, member_fenced(group, old_id, instance, what, now_ms))
    group.update(
        member, protocols_of(request), rebalance_timeout_of(request), request.session_timeout_ms
    )
    group.delay_join(member, context.to, now_ms)
    unharmed = group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name
    replaced = _replaced(group, old_id, request, context, now_ms, rebalances=not unharmed)
    effects.note(group.group_id, replaced)
    if unharmed:
        effects.records.append(group_record(group))
        effects.completion = completion
        return
    by = Instigator(member, request.reason)
    prepare_or_complete(partition, group, now_ms, effects, Cause.STATIC_REPLACEMENT, by)


def _replaced(
    group: Group,
    old_id: str,
    request: JoinGroupRequest,
    context: RequestContext,
    now_ms: int,
    *,
    rebalances: bool,
) -> journal_records.StaticMemberReplaced:
    instance = request.group_instance_id
    assert instance is not None
    return journal_records.StaticMemberReplaced(
        at_ms=now_ms,
        group_instance_id=instance,
        member_id=group.static_members[instance],
        old_member_id=old_id,
        client_id=context.client_id,
        client_host=context.client_host,
        generation_id=group.generation_id,
        state=group.state.value,
        rebalances=rebalances,
        reason=told_reason(request.reason),
    )


def _fence_parked(group: Group, member_id: str, effects: Effects) -> list[str]:
    """Of two processes with one instance id the older one loses, also where it waits for an answer
    (S67). Returns what it waited for.
    """
    fenced = []
    member = group.members[member_id]
    to = group.take_join(member)
    if to is not None:
        effects.replies.append(Reply(to, join_error(ErrorCode.FENCED_INSTANCE_ID, member_id)))
        fenced.append("JoinGroup")
    if member.delayed_sync is not None:
        effects.replies.append(Reply(member.delayed_sync, sync_error(ErrorCode.FENCED_INSTANCE_ID)))
        member.delayed_sync = None
        fenced.append("SyncGroup")
    return fenced


def replacement_stored(group: Group, done: ReplacementWrite, now_ms: int, effects: Effects) -> None:
    """The record with the new id is durable: answer the parked join, with the generation as it was.

    Before version 9 the leader is named by its old id, so that a restarted leader takes itself for
    a follower and does not assign anew; from version 9 on it leads again and is told to skip the
    assignment. Where the group has begun to rebalance meanwhile, the join waits on as a part of
    that: its members are no longer those of the generation.
    """
    member = group.members.get(done.member_id)
    if member is None or group.generation_id != done.generation_id:
        return
    if group.state is not GroupState.STABLE:
        return
    is_leader = group.leader == done.member_id
    skip = done.skips_assignment and is_leader
    answer = join_answer(group, member, join_roster(group) if skip else [])
    answer.skip_assignment = skip
    if not done.skips_assignment:
        answer.leader = done.previous_leader
    effects.replies.append(Reply(group.take_join(member), answer))
    start_session(group, member, member.session_timeout_ms, now_ms, effects)


def replacement_failed(
    group: Group, done: ReplacementWrite, error: ErrorCode, now_ms: int, effects: Effects
) -> None:
    """The record failed: restore id, timeouts and protocols, and say so with a blank member id
    (S64).

    Not if the group is in its next generation by now: there the member was answered under its new
    id, and the record of that generation will name it.
    """
    member = group.members.get(done.member_id)
    if member is None or group.generation_id != done.generation_id:
        return
    to = group.take_join(member)
    group.update(
        member, done.old_protocols, done.old_rebalance_timeout_ms, done.old_session_timeout_ms
    )
    effects.cancel(TimerKind.SESSION, group.group_id, done.member_id)
    member.armed_ms = 0
    group.replace_static(done.group_instance_id, done.member_id, done.old_member_id)
    if done.member_id in group.pending_syncs:
        group.pending_syncs.discard(done.member_id)
        group.pending_syncs.add(done.old_member_id)
    start_session(group, member, member.session_timeout_ms, now_ms, effects)
    restored = journal_records.StaticMemberRestored(
        at_ms=now_ms,
        group_instance_id=done.group_instance_id,
        member_id=done.old_member_id,
        old_member_id=done.member_id,
        generation_id=group.generation_id,
    )
    effects.note(group.group_id, restored)
    if to is not None:
        answer = JoinGroupResponse(
            error_code=error,
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=done.previous_leader,
            member_id="",
            members=[],
        )
        effects.replies.append(Reply(to, answer))
