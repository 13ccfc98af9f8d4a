"""Removes what a run has created: groups, their settings, topics, all of the run's prefix."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from coterie.conformance.over_tcp.connection import RefusedError
from coterie.conformance.over_tcp.target import Target
from coterie.conformance.over_tcp.users import remove_users_and_rules
from coterie.conversation.learnt_names import LearntNames
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
)
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.messages.metadata import MetadataRequest, MetadataResponse
from coterie.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from coterie.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from coterie.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

# Names in one request.
_AT_ONCE = 50
# How often, and how long after one another, groups are tried that still have members.
_ROUNDS = 20
_PAUSE_S = 0.5
# The epoch with which a member of a share group or a streams group leaves.
_LEAVES = -1
_WITHOUT_MEMBERS = ("Empty", "Dead")
_GONE = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def remove_everything(target: Target, prefix: str, runs: Sequence[LearntNames]) -> list[str]:
    """Remove the groups and topics of a run; return those that the broker has kept, with errors.

    Nothing whose name does not begin with the prefix is touched.

    Args:
        target: the broker.
        prefix: of the run.
        runs: the names of each check, with the member ids that it has learnt: an id that was
            never used keeps a group in a rebalance, and a broker does not list it.
    """
    kept: list[str] = []
    for removal in (
        _remove_groups(target, prefix, runs),
        _remove_topics(target, prefix),
        target.group_settings.reset(),
        remove_users_and_rules(target, prefix),
    ):
        try:
            kept += await removal
        except (RefusedError, OSError, ValueError) as error:
            kept.append(f"{prefix}*: {str(error) or type(error).__name__}")
    return kept


async def _remove_groups(target: Target, prefix: str, runs: Sequence[LearntNames]) -> list[str]:
    listed = await target.call(ListGroupsRequest(), ListGroupsResponse)
    left = [each.group_id for each in listed.groups if each.group_id.startswith(prefix)]
    errors: dict[str, int] = {}
    # A group in which a rebalance has just begun is emptied when its initial delay ends.
    for _ in range(_ROUNDS):
        for start in range(0, len(left), _AT_ONCE):
            some = left[start : start + _AT_ONCE]
            await _empty_groups(target, some, runs)
            await _empty_consumer_groups(target, some)
            await _empty_share_groups(target, some)
            await _empty_streams_groups(target, some)
            request = DeleteGroupsRequest(groups_names=some)
            answer = await target.call(request, DeleteGroupsResponse)
            errors |= {each.group_id: each.error_code for each in answer.results}
        left = [group for group in left if errors.get(group) == ErrorCode.NON_EMPTY_GROUP]
        if not left:
            break
        await asyncio.sleep(_PAUSE_S)
    return [
        f"group {group}: {ErrorCode(code).name}"
        for group, code in errors.items()
        if code not in _GONE
    ]


async def _empty_groups(target: Target, groups: list[str], runs: Sequence[LearntNames]) -> None:
    """Let every member of some groups leave."""
    described = await target.call(DescribeGroupsRequest(groups=groups), DescribeGroupsResponse, 5)
    for group in described.groups:
        members = [
            LeaveGroupRequestMember(
                member_id=each.member_id, group_instance_id=each.group_instance_id
            )
            for each in group.members
        ]
        listed = {each.member_id for each in members}
        ids = {each for names in runs if names.is_ours(group.group_id) for each in names.member_ids}
        if group.group_state not in _WITHOUT_MEMBERS:
            members += [LeaveGroupRequestMember(member_id=each) for each in sorted(ids - listed)]
        if members:
            request = LeaveGroupRequest(group_id=group.group_id, members=members)
            await target.call(request, LeaveGroupResponse)


async def _empty_consumer_groups(target: Target, groups: list[str]) -> None:
    """Let every member of those groups leave that are consumer groups."""
    if not target.serves(ApiKey.CONSUMER_GROUP_DESCRIBE, 0):
        return
    request = ConsumerGroupDescribeRequest(group_ids=groups)
    described = await target.call(request, ConsumerGroupDescribeResponse)
    for group in described.groups:
        members = [LeaveGroupRequestMember(member_id=each.member_id) for each in group.members]
        if members:
            leave = LeaveGroupRequest(group_id=group.group_id, members=members)
            await target.call(leave, LeaveGroupResponse)


async def _empty_share_groups(target: Target, groups: list[str]) -> None:
    """Let every member of those groups leave that are share groups."""
    if not target.serves(ApiKey.SHARE_GROUP_DESCRIBE, 1):
        return
    request = ShareGroupDescribeRequest(group_ids=groups)
    described = await target.call(request, ShareGroupDescribeResponse)
    for group_id, member_id in _members(described.groups):
        leave = ShareGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=_LEAVES
        )
        await target.call(leave, ShareGroupHeartbeatResponse)


async def _empty_streams_groups(target: Target, groups: list[str]) -> None:
    """Let every member of those groups leave that are streams groups."""
    if not target.serves(ApiKey.STREAMS_GROUP_DESCRIBE, 0):
        return
    request = StreamsGroupDescribeRequest(group_ids=groups)
    described = await target.call(request, StreamsGroupDescribeResponse)
    for group_id, member_id in _members(described.groups):
        leave = StreamsGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=_LEAVES,
            endpoint_information_epoch=0,
        )
        await target.call(leave, StreamsGroupHeartbeatResponse)


def _members(groups: Iterable[Any]) -> list[tuple[str, str]]:
    """Return the members of described groups, each with its group."""
    return [(group.group_id, each.member_id) for group in groups for each in group.members]


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
