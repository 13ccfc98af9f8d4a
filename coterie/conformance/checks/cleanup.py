"""Removes what a run has created: groups and topics whose names begin with its prefix."""

from coterie.conformance.over_tcp.target import RefusedError, Target
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
)
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.messages.metadata import MetadataRequest, MetadataResponse

# Names in one request.
_AT_ONCE = 50
_GONE = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def remove_everything(target: Target, prefix: str) -> list[str]:
    """Remove the groups and topics of a run; return those that the broker has kept, with errors.

    Nothing whose name does not begin with the prefix is touched.
    """
    kept: list[str] = []
    for remove in (_remove_groups, _remove_topics):
        try:
            kept += await remove(target, prefix)
        except (RefusedError, OSError, TimeoutError, ValueError) as error:
            kept.append(f"{prefix}*: {error or type(error).__name__}")
    return kept


async def _remove_groups(target: Target, prefix: str) -> list[str]:
    listed = await target.call(ListGroupsRequest(), ListGroupsResponse)
    groups = [each.group_id for each in listed.groups if each.group_id.startswith(prefix)]
    kept = []
    for start in range(0, len(groups), _AT_ONCE):
        some = groups[start : start + _AT_ONCE]
        described = await target.call(DescribeGroupsRequest(groups=some), DescribeGroupsResponse, 5)
        for group in described.groups:
            if group.members:
                members = [
                    LeaveGroupRequestMember(
                        member_id=each.member_id, group_instance_id=each.group_instance_id
                    )
                    for each in group.members
                ]
                request = LeaveGroupRequest(group_id=group.group_id, members=members)
                await target.call(request, LeaveGroupResponse)
        deleted = await target.call(DeleteGroupsRequest(groups_names=some), DeleteGroupsResponse)
        kept += [
            f"group {each.group_id}: {ErrorCode(each.error_code).name}"
            for each in deleted.results
            if each.error_code not in _GONE
        ]
    return kept


async def _remove_topics(target: Target, prefix: str) -> list[str]:
    described = await target.call(MetadataRequest(topics=None), MetadataResponse)
    names = [each.name for each in described.topics if (each.name or "").startswith(prefix)]
    kept = []
    for start in range(0, len(names), _AT_ONCE):
        some = [name for name in names[start : start + _AT_ONCE] if name]
        errors = await target.delete_topics(some)
        kept += [
            f"topic {name}: {ErrorCode(code).name}"
            for name, code in errors.items()
            if code not in _GONE
        ]
    return kept
