"""LeaveGroup (API key 13): remove members at once, before their sessions time out.

v1   throttle_time_ms (KIP-124)
v2   the client itself waits for the throttle time (KIP-219)
v3   several members, by member id or instance id, each with its own error (KIP-345)
v4   flexible encoding (KIP-482)
v5   reason (KIP-800)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Int16,
    Int32,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
    until,
)


@struct
class LeaveGroupRequestMember(Struct):
    """A member to remove.

    member_id: empty if an administrator removes a static member by its instance id.
    """

    member_id: String
    group_instance_id: String | None = None
    reason: String | None = since(5, default=None)


@message(api_key=ApiKey.LEAVE_GROUP, flexible=4)
class LeaveGroupRequest(Message):
    """The members to remove: `member_id` to v2, `members` from v3 on."""

    group_id: String
    member_id: String = until(2, default="")
    members: list[LeaveGroupRequestMember] = since(3, factory=list)


@struct
class LeaveGroupResponseMember(Struct):
    """The result for one member, with the ids of the request."""

    member_id: String
    group_instance_id: String | None = None
    error_code: Int16


@message(api_key=ApiKey.LEAVE_GROUP, flexible=4)
class LeaveGroupResponse(Message):
    """One result for each member; to v2 `error_code` also holds the error of the one member."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16
    members: list[LeaveGroupResponseMember] = since(3, factory=list)
