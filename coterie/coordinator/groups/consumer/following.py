"""A heartbeat that takes its member to a newer target, which leaves the member what it has.

After a change of a group nearly all heartbeats are of this kind. `follow` does with one what
`heartbeat` does with any other [consumer-groups/heartbeat-order], in one piece: the same record,
the same facts and the same answer. What such a heartbeat cannot need is not looked at: there is no
subscription to write, no target to compute, no timer to arm and nothing that may be taken back.
"""

from coterie.coordinator.groups.batch_size import encoded_alone
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.member import ConsumerMember, Owned
from coterie.coordinator.groups.consumer.members import reconciled_fact
from coterie.coordinator.groups.consumer.reconciliation import Reconciled, is_at_target
from coterie.coordinator.groups.consumer.records import current_value
from coterie.coordinator.groups.consumer.states import MemberState
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.target import converged_fact
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.operation import Operation
from coterie.coordinator.kernel.request import ClientContext
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
)

_STABLE = MemberState.STABLE
_NOTHING: Owned = {}


def follow(
    partition: PartitionState,
    now_ms: int,
    request: ConsumerGroupHeartbeatRequest,
    client: ClientContext,
) -> Effects[ConsumerGroupHeartbeatResponse] | None:
    """Take a member to the target of its group; None if the heartbeat may need anything else."""
    group = partition.groups.get(request.group_id)
    if type(group) is not ConsumerGroup or group.epoch != group.target_epoch:
        return None
    member = group.members.get(request.member_id)
    if (
        member is None
        or request.member_epoch != member.epoch
        or not _is_as_before(partition, group, member, client)
        or not member.learns_nothing(request)
        or not is_at_target(group, member)
    ):
        return None
    epoch = group.target_epoch
    now = Reconciled(epoch, member.epoch, _STABLE, member.assigned, _NOTHING)
    key = ConsumerGroupCurrentMemberAssignmentKey.of(group.group_id, member.member_id)
    value = current_value(epoch, member.epoch, _STABLE, member.assigned, _NOTHING, member)
    pair = encoded_alone(key, value)
    if pair is None:
        return None
    fact = reconciled_fact(now_ms, member, now)
    group.set_current(member.member_id, value)
    group.unlogged += 1
    assert member.epoch == epoch, f"{member} is at another epoch than its record"
    member.changed_ms = now_ms
    member.deadline_ms = now_ms + member.session_ms
    answer: ConsumerGroupHeartbeatResponse = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=member.settings.heartbeat_interval_ms,
    )
    member.answer = answer
    effects = Effects(answer)
    effects.note(group.group_id, fact)
    if group.settled == len(group.members):
        effects.note(group.group_id, converged_fact(group, now_ms))
    operation = effects.operation = Operation(group.group_id, [(key, value)])
    operation.pairs = [pair]
    return effects


def _is_as_before(
    partition: PartitionState, group: ConsumerGroup, member: ConsumerMember, client: ClientContext
) -> bool:
    """Return whether nothing but the target is another than at the member's latest heartbeat.

    Its session goes on with the entry that the timing wheel has.
    """
    settings = member.settings
    return (
        0 < member.epoch < group.target_epoch
        and member.state is _STABLE
        and member.client is client
        and member.classic is None
        and member.revocation is None
        and member.armed_ms > 0
        and group.checked_version == group.topics.version
        and not group.by_regex
        and partition.consumer_settings(group.group_id) is settings
        and member.session_ms == settings.session_timeout_ms
    )
