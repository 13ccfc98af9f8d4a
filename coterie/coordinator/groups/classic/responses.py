"""Responses of joins and syncs, and the responses of classic requests that are only an error."""

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.member import Member
from coterie.coordinator.groups.responses import ErrorResponse
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from coterie.protocol.messages.sync_group import SyncGroupResponse

# -- successful responses --------------------------------------------------------------------------


def join_roster(group: Group) -> list[JoinGroupResponseMember]:
    """Return the list of members for the leader, with their metadata for the chosen protocol."""
    name = group.protocol_name
    assert name is not None, "a generation has a protocol"
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(name),
        )
        for member in group.members.values()
    ]


def join_response(
    group: Group, member: Member, members: list[JoinGroupResponseMember]
) -> JoinGroupResponse:
    """Return a successful JoinGroup of the present generation [joining/join-responses]."""
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        member_id=member.member_id,
        members=members,
    )


def assignment_response(group: Group, member: Member) -> SyncGroupResponse:
    """Return a successful SyncGroup with the member's part of the assignment."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


# -- error responses -------------------------------------------------------------------------------


def join_error(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """Return a refused JoinGroup [joining/error-responses]."""
    return JoinGroupResponse(
        error_code=error,
        generation_id=-1,
        protocol_name=None,
        leader="",
        member_id=member_id,
        members=[],
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """Return a refused SyncGroup, without protocol and assignment."""
    return SyncGroupResponse(error_code=error, assignment=b"")


def _join_error_response(
    request: JoinGroupRequest, error: ErrorCode, _version: int
) -> JoinGroupResponse:
    # Kafka echoes the member id if the request is at fault, and not if it has no coordinator for
    # the group.
    echoed = error in (ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_SESSION_TIMEOUT)
    return join_error(error, request.member_id if echoed else "")


ERROR_RESPONSES: dict[type, ErrorResponse] = {JoinGroupRequest: _join_error_response}
