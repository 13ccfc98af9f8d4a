"""SyncGroup (API key 14): the leader sends the assignments, every member receives its own.

v1   throttle_time_ms (KIP-124)
v2   the client itself waits for the throttle time (KIP-219)
v3   group_instance_id (KIP-345)
v4   flexible encoding (KIP-482)
v5   protocol_type and protocol_name, which must be those of the group (KIP-559)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Bytes,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
)


@struct
class SyncGroupRequestAssignment(Struct):
    """The assignment of one member; its content depends on the protocol type."""

    member_id: String
    assignment: Bytes


@message(api_key=ApiKey.SYNC_GROUP, flexible=4)
class SyncGroupRequest(Message):
    """Sent by every member of the generation; only the leader's has assignments."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = since(3, default=None)
    protocol_type: String | None = since(5, default=None)
    protocol_name: String | None = since(5, default=None)
    assignments: list[SyncGroupRequestAssignment]


@message(api_key=ApiKey.SYNC_GROUP, flexible=4)
class SyncGroupResponse(Message):
    """The member's own assignment; it is empty if there is an error."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16
    protocol_type: String | None = since(5, default=None)
    protocol_name: String | None = since(5, default=None)
    assignment: Bytes
