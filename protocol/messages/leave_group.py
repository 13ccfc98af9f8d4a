"""LeaveGroup (api key 13): members go, at once instead of after their session timeout.

v1   throttle time (KIP-124)
v2   clients throttle themselves (KIP-219)
v3   many members, by id or by instance, each with its own error (KIP-345)
v4   flexible (KIP-482)
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
    """One who leaves; operators remove a static member by its instance id, member id empty."""

    member_id: String
    group_instance_id: String | None = None
    reason: String | None = since(5, default=None)


@message(api_key=ApiKey.LEAVE_GROUP, flexible=4)
class LeaveGroupRequest(Message):
    """The one member of v0-2, or the members of v3 and later."""

    group_id: String
    member_id: String = until(2, default="")
    members: list[LeaveGroupRequestMember] = since(3, factory=list)


@struct
class LeaveGroupResponseMember(Struct):
    """What became of one of them; its ids are echoed."""

    member_id: String
    group_instance_id: String | None = None
    error_code: Int16


@message(api_key=ApiKey.LEAVE_GROUP, flexible=4)
class LeaveGroupResponse(Message):
    """In v0-2 the top-level error carries the one member's as well."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16
    members: list[LeaveGroupResponseMember] = since(3, factory=list)
