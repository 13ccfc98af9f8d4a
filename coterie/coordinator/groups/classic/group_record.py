"""The log record of a classic group, in both directions [group-log/group-value].

The record holds a generation: protocol, leader, members and their assignments. It is written when
the group is created, when the leader's assignment arrives, when a static member is replaced and
when the group becomes Empty [group-log/logged-changes].
"""

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.member import Member
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.kernel.append import Record
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
)

# The timestamp in a record of a group whose age is not known.
_UNKNOWN_MS = -1


def new_group_record(group: Group) -> Record:
    """Return the record of a group's creation [joining/unknown-group].

    It has no type, leader and members, whatever the first joiner has changed since.
    """
    assert not group.generation_id, f"{group} is not new"
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=_timestamp(group),
        members=[],
    )
    return GroupMetadataKey(group=group.group_id), value


def group_tombstone(group_id: str) -> Record:
    """Return the record that removes a group."""
    return GroupMetadataKey(group=group_id), None


def group_record(group: Group, assignments: dict[str, bytes] | None = None) -> Record:
    """Return the record of a group's present generation.

    Args:
        group: Empty, then the record has no protocol and no members; or in a generation.
        assignments: the new assignments by member id; by default those that the members have.
    """
    name = group.protocol_name
    assert group.exists, f"{group} was given up"
    assert name is not None or not group.members, f"{group} has members and no protocol"
    assert assignments is None or assignments.keys() == group.members.keys(), f"{group}"
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
                else assignments[member.member_id],
            )
            for member in group.members.values()
        ]
    assert len(members) == len(group.members), f"the record has each member of {group}"
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=name,
        leader=group.leader,
        current_state_timestamp=_timestamp(group),
        members=members,
    )
    return GroupMetadataKey(group=group.group_id), value


def _timestamp(group: Group) -> int:
    timestamp_ms = group.state_timestamp_ms
    return _UNKNOWN_MS if timestamp_ms is None else timestamp_ms


def restore(group_id: str, value: GroupMetadataValue | None) -> Group:
    """Return the group that a logged generation describes [coordinator/restored-groups].

    Args:
        group_id: the group's id.
        value: its last record; None for a simple group, which has only committed offsets.
    """
    if value is None:
        return Group(group_id, None)
    timestamp_ms = value.current_state_timestamp
    group = Group(group_id, None if timestamp_ms == _UNKNOWN_MS else timestamp_ms)
    group.generation_id = value.generation
    # As in Kafka, the last one counts if other software has written a member twice.
    members = {logged.member_id: logged for logged in value.members}
    for logged in members.values():
        timeout_ms = logged.rebalance_timeout
        member = Member(
            logged.member_id,
            logged.group_instance_id,
            logged.client_id,
            logged.client_host,
            # Record version 0 has no rebalance timeout.
            logged.session_timeout if timeout_ms == -1 else timeout_ms,
            logged.session_timeout,
            # Only the metadata for the chosen protocol is logged [group-log/restored-member].
            ((value.protocol or "", logged.subscription),),
        )
        member.assignment = logged.assignment
        group.add(member, value.protocol_type)
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.set_subscriptions([logged.subscription for logged in members.values()])
    if group.members:
        group.state = GroupState.STABLE
        if value.leader in group.members:
            group.leader = value.leader
    else:
        group.leader = None
    assert not group.awaiting_joins, f"{group} was loaded with delayed joins"
    assert (group.leader is None) == (not group.members), f"{group} has no leader"
    assert group.leader is None or group.leader in group.members, f"{group} has no leader"
    assert len(group.members) == len(members), f"{group} has each member of its record"
    return group
