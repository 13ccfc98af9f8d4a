"""A static member returns: another process takes the place of the one that had its instance id.

[consumer-groups/static-members]
"""

from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.records import current_value, target_value
from coterie.coordinator.groups.consumer.step import Step
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
)
from coterie.protocol.messages.journal_records import StaticMemberReplaced


def replace_member(step: Step, before: ConsumerMember, member_id: str) -> ConsumerMember:
    """Give the place of a member to another id: subscription, target and partitions.

    The new member begins at epoch 0, and its heartbeat takes it to the present target. The epoch of
    the group does not rise.

    Returns:
        The new member.
    """
    group = step.group
    group_id = group.group_id
    instance_id = before.instance_id
    assert instance_id is not None, f"{before} is no static member"
    subscription, target = before.subscription, group.target(before.member_id)
    state, assigned, pending = before.state, before.assigned, before.pending
    step.remove(group.member_tombstones(before.member_id))
    step.set(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), subscription)
    step.set(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        target_value(target),
    )
    step.set(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        current_value(0, 0, state, assigned, pending),
    )
    client = step.context.client
    step.facts.append(
        StaticMemberReplaced(
            at_ms=step.now_ms,
            group_instance_id=instance_id,
            member_id=member_id,
            old_member_id=before.member_id,
            client_id=client.client_id,
            client_host=client.client_host,
            generation_id=group.epoch,
            state=group.state_name,
            rebalances=False,
            reason=None,
            client_software_name=client.software_name or None,
            client_software_version=client.software_version or None,
            principal=client.login,
        )
    )
    if member_id != before.member_id:
        step.took_over = member_id
    after = group.members[member_id]
    assert group.static_members[instance_id] == member_id, f"{after} has not taken the place"
    assert after.assigned.keys() == assigned.keys(), f"{after} has other partitions"
    assert before.member_id == member_id or before.member_id not in group.members, f"{group}"
    return after
