"""ListGroups, DescribeGroups and DeleteGroups: what administrators do with groups."""

from collections.abc import Iterator
from itertools import islice

from coterie.coordinator.effects import Effects
from coterie.coordinator.group import Group, GroupState
from coterie.coordinator.group_record import group_tombstone
from coterie.coordinator.machine import RequestContext
from coterie.coordinator.partition_state import PartitionState
from coterie.protocol.authorized_operations import (
    AUTHORIZED_OPERATIONS_OMITTED,
    GROUP_OPERATIONS,
)
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsResponseResult
from coterie.protocol.messages.describe_groups import (
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)
from coterie.protocol.messages.journal_records import GroupDeleted
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponseGroup
from coterie.protocol.messages.log_records import OTHER_GROUP_TYPES, OffsetCommitKey

# The type of every group here.
_CLASSIC = "classic"

# How many groups are listed in one step: half a millisecond.
_LISTED_TOGETHER = 256

# From this version on it is an error to describe an unknown group
# [administration/describe-unknown-group].
_NOT_FOUND_SINCE = 6


def list_groups(
    partition: PartitionState, request: ListGroupsRequest
) -> Iterator[list[ListGroupsResponseGroup]]:
    """Yield the groups of a partition that match both filters [administration/list-filters].

    They come in parts, between which other requests may be handled: each group is listed as it is
    then, and one that is deleted in between may be listed.
    """
    states = {name.strip().lower() for name in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    if types and _CLASSIC not in types:
        return
    groups = iter(list(partition.groups.values()))
    while part := list(islice(groups, _LISTED_TOGETHER)):
        yield [
            ListGroupsResponseGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=_CLASSIC,
            )
            for group in part
            if not states or group.state.value.lower() in states
        ]


def describe_group(
    partition: PartitionState, group_id: str, version: int, *, with_operations: bool
) -> DescribeGroupsResponseGroup:
    """Return one group; members' metadata in Stable only, their assignments always.

    [administration/describe-by-state]
    """
    group = partition.groups.get(group_id)
    operations = GROUP_OPERATIONS if with_operations else AUTHORIZED_OPERATIONS_OMITTED
    if group is None or group.state is GroupState.DEAD:
        missing = version >= _NOT_FOUND_SINCE
        return DescribeGroupsResponseGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NONE,
            error_message=f"Group {group_id} not found." if missing else None,
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            protocol_type="",
            protocol_data="",
            members=[],
            authorized_operations=AUTHORIZED_OPERATIONS_OMITTED if missing else operations,
        )
    name = ""
    if group.state is GroupState.STABLE:
        name = group.protocol_name or ""
    return DescribeGroupsResponseGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=name,
        members=_members(group, name),
        authorized_operations=operations,
    )


def _members(group: Group, protocol_name: str) -> list[DescribeGroupsResponseMember]:
    return [
        DescribeGroupsResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(protocol_name) if protocol_name else b"",
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]


def delete_group(
    partition: PartitionState, group_id: str, now_ms: int, context: RequestContext
) -> Effects[DeleteGroupsResponseResult]:
    """Append tombstones for every offset of a group without members, then for the group.

    [administration/delete]
    """
    group = partition.groups.get(group_id)
    effects: Effects[DeleteGroupsResponseResult] = Effects()
    record_type = partition.logged.other_groups.get(group_id)
    if record_type is not None:
        error = ErrorCode.NON_EMPTY_GROUP
        message = f"Group {group_id} is a {OTHER_GROUP_TYPES[record_type]} group; it is not served."
    elif group is None or group.state is GroupState.DEAD:
        error, message = ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found."
    elif group.state is not GroupState.EMPTY:
        error = ErrorCode.NON_EMPTY_GROUP
        message = f"Group {group_id} has {len(group.members)} members in state {group.state.value}."
    else:
        error, message = ErrorCode.NONE, None
        for topic, partitions in partition.logged.offsets.get(group_id, {}).items():
            for index in partitions:
                key = OffsetCommitKey(group=group_id, topic=topic, partition=index)
                effects.records.append((key, None))
        deleted = GroupDeleted(
            at_ms=now_ms,
            generation_id=group.generation_id,
            offset_count=len(effects.records),
            requester_client_id=context.client_id,
            requester_host=context.client_host,
        )
        effects.records.append(group_tombstone(group_id))
        effects.note_when_durable(group_id, deleted)
    effects.response = DeleteGroupsResponseResult(
        group_id=group_id, error_code=error, error_message=message
    )
    return effects
