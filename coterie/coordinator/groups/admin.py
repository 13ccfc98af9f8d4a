"""ListGroups, DescribeGroups and DeleteGroups: what administrators do with groups."""

from collections.abc import Iterator
from typing import Any

from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.transactional_offsets import pending_keys
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.operation import Operation
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.authorized_operations import (
    AUTHORIZED_OPERATIONS_OMITTED,
    GROUP_OPERATIONS,
)
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsResponseResult
from coterie.protocol.messages.describe_groups import (
    DescribeGroupsResponseGroup,
)
from coterie.protocol.messages.journal_records import GroupDeleted
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponseGroup
from coterie.protocol.messages.log_records import OffsetCommitKey

# The state of a group that does not exist, as DescribeGroups shows it.
_DEAD = "Dead"

# How many groups are listed in one step: half a millisecond.
_LISTED_TOGETHER = 256

# From this version on it is an error to describe an unknown group
# [administration/describe].
_NOT_FOUND_SINCE = 6


def list_groups(
    partition: PartitionState, request: ListGroupsRequest
) -> Iterator[list[ListGroupsResponseGroup]]:
    """Yield the groups of a partition that match both filters [administration/list].

    They come in parts, between which other requests may be handled: each group is listed as it is
    then, and one that is deleted in between may be listed.
    """
    states = {name.strip().lower() for name in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    groups = list(partition.groups.values())
    for part in partition.listing_order.parts(groups, _LISTED_TOGETHER):
        yield [
            ListGroupsResponseGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state_name,
                group_type=group.group_type,
            )
            for group in part
            if (not states or group.state_filter in states)
            and (not types or group.group_type in types)
        ]


def describe_group(
    partition: PartitionState, group_id: str, version: int, *, with_operations: bool
) -> DescribeGroupsResponseGroup:
    """Return one group; members' metadata in Stable only, their assignments always.

    [administration/describe-by-state]
    """
    group = partition.groups.get(group_id)
    operations = GROUP_OPERATIONS if with_operations else AUTHORIZED_OPERATIONS_OMITTED
    known = group is not None and group.exists
    described = group.describe(operations) if group is not None and known else None
    if described is None:
        missing = version >= _NOT_FOUND_SINCE
        message = "is not a classic group" if known else "not found"
        return DescribeGroupsResponseGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NONE,
            error_message=f"Group {group_id} {message}." if missing else None,
            group_id=group_id,
            group_state=_DEAD,
            protocol_type="",
            protocol_data="",
            members=[],
            authorized_operations=AUTHORIZED_OPERATIONS_OMITTED if missing else operations,
        )
    return described


def delete_group(
    partition: PartitionState,
    group_id: str,
    now_ms: int,
    context: RequestContext,
    to: Any = None,
) -> Effects[DeleteGroupsResponseResult]:
    """Append tombstones for every offset of a group without members, then for the group.

    [administration/delete]

    Args:
        partition: the partition of the group.
        group_id: the group.
        now_ms: the time.
        context: the client that asks for it.
        to: the place of the group in the response. It waits if the type of the group has something
            to do first, after which this is called again without a place.
    """
    group = partition.groups.get(group_id)
    effects: Effects[DeleteGroupsResponseResult] = Effects()
    message: str | None
    if group is None or not group.exists:
        error, message = ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found."
    else:
        error, message = group.delete_error()
    if group is not None and not error:
        assert group.is_empty, f"{group} is deleted and has members"
        if to is not None:
            before = partition.before_deletion(group, now_ms, context, to)
            if before is not None:
                return before
        operation = effects.operation = Operation(group_id, [])
        records = operation.records
        for topic, partitions in partition.logged.offsets.get(group_id, {}).items():
            for index in partitions:
                key = OffsetCommitKey(group=group_id, topic=topic, partition=index)
                records.append((key, None))
        records += [(key, None) for key in pending_keys(partition, group_id)]
        deleted = GroupDeleted(
            at_ms=now_ms,
            generation_id=group.logged_generation(),
            offset_count=len(records),
            requester_client_id=context.client.client_id,
            requester_host=context.client.client_host,
            requester_principal=context.client.login,
        )
        records += group.tombstones()
        assert records, f"{group} is deleted without a tombstone"
        operation.removes = group
        operation.note(deleted)
    effects.response = DeleteGroupsResponseResult(
        group_id=group_id, error_code=error, error_message=message
    )
    return effects
