"""The log record that says what a group is: its generation, protocol, leader, members and
assignments (spec 14.1).
"""

from coterie.coordinator.effects import LogRecord
from coterie.coordinator.group import Group, GroupState, Member
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
)


def new_group_record(group: Group) -> LogRecord:
    """The record of a group that was just made, whatever has become of its first joiner since: no
    type, no leader, generation 0 (spec S6).
    """
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=-1
        if group.state_timestamp_ms is None
        else group.state_timestamp_ms,
        members=[],
    )
    return GroupMetadataKey(group=group.group_id), value


def group_record(group: Group, assignments: dict[str, bytes] | None = None) -> LogRecord:
    """The record of a group as it is now.

    Args:
        group: Empty (then the record has no members and no protocol), or in a generation.
        assignments: what each member is given, by member id; by default what each holds.
    """
    name = group.protocol_name
    members = []
    if name is not None:
        members = [
            GroupMetadataMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(name),
                assignment=member.assignment
                if assignments is None
                else assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=name,
        leader=group.leader,
        current_state_timestamp=-1
        if group.state_timestamp_ms is None
        else group.state_timestamp_ms,
        members=members,
    )
    return GroupMetadataKey(group=group.group_id), value


def restore(group_id: str, value: GroupMetadataValue | None) -> Group:
    """The group that a logged generation describes (spec section 14.3).

    Args:
        group_id: which group.
        value: its last record; None for one that only committed offsets (a simple group).
    """
    if value is None:
        return Group(group_id, None)
    stamp_ms = value.current_state_timestamp
    group = Group(group_id, None if stamp_ms == -1 else stamp_ms)
    group.generation_id = value.generation
    for logged in value.members:
        timeout_ms = logged.rebalance_timeout
        member = Member(
            logged.member_id,
            logged.group_instance_id,
            logged.client_id,
            logged.client_host,
            logged.session_timeout if timeout_ms == -1 else timeout_ms,
            logged.session_timeout,
            ((value.protocol or "", logged.subscription),),
        )
        member.assignment = logged.assignment
        group.add(member, value.protocol_type)
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.note_subscriptions([logged.subscription for logged in value.members])
    if group.members:
        group.state = GroupState.STABLE
        if value.leader in group.members:
            group.leader = value.leader
    else:
        group.leader = None
    return group
