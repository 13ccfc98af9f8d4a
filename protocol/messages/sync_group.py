"""SyncGroup (api key 14): the leader hands in the assignments, every member fetches its own.

v1   throttle time (KIP-124)
v2   clients throttle themselves (KIP-219)
v3   group_instance_id (KIP-345)
v4   flexible (KIP-482)
v5   protocol_type and protocol_name, checked against the group's (KIP-559)
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
    """What one member gets; the bytes are the protocol type's own."""

    member_id: String
    assignment: Bytes


@message(api_key=ApiKey.SYNC_GROUP, flexible=4)
class SyncGroupRequest(Message):
    """A member of the generation; only the leader sends assignments."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = since(3, default=None)
    protocol_type: String | None = since(5, default=None)
    protocol_name: String | None = since(5, default=None)
    assignments: list[SyncGroupRequestAssignment]


@message(api_key=ApiKey.SYNC_GROUP, flexible=4)
class SyncGroupResponse(Message):
    """The member's own assignment, empty with an error."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16
    protocol_type: String | None = since(5, default=None)
    protocol_name: String | None = since(5, default=None)
    assignment: Bytes
