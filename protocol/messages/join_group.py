"""JoinGroup (api key 11): enter a group, or its next generation; answered when that has begun.

v1   rebalance_timeout_ms (KIP-62; before, the session timeout counts)
v2   throttle time (KIP-124)
v3   clients throttle themselves (KIP-219)
v4   the first join gets MEMBER_ID_REQUIRED and an id (KIP-394)
v5   group_instance_id (KIP-345)
v6   flexible (KIP-482)
v7   protocol_type in the answer, protocol_name nullable (KIP-559)
v8   reason (KIP-800)
v9   skip_assignment (KIP-814)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Boolean,
    Bytes,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    field,
    message,
    since,
    struct,
)


@struct
class JoinGroupRequestProtocol(Struct):
    """A protocol the member supports; a consumer's metadata is its subscription."""

    name: String
    metadata: Bytes


@message(api_key=ApiKey.JOIN_GROUP, flexible=6)
class JoinGroupRequest(Message):
    """Who joins, with which protocols in order of preference."""

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = since(1, default=-1)
    member_id: String  # empty at the first join
    group_instance_id: String | None = since(5, default=None)
    protocol_type: String
    protocols: list[JoinGroupRequestProtocol]
    reason: String | None = since(8, default=None)


@struct
class JoinGroupResponseMember(Struct):
    """A member of the generation, with its metadata for the chosen protocol."""

    member_id: String
    group_instance_id: String | None = since(5, default=None)
    metadata: Bytes


@message(api_key=ApiKey.JOIN_GROUP, flexible=6)
class JoinGroupResponse(Message):
    """The generation and its protocol; the leader also gets the members."""

    throttle_time_ms: Int32 = since(2, default=0)
    error_code: Int16
    generation_id: Int32 = -1
    protocol_type: String | None = since(7, default=None)
    protocol_name: String | None = field(nullable_since=7)  # a None is written as "" before v7
    leader: String
    skip_assignment: Boolean = since(9, default=False)
    member_id: String
    members: list[JoinGroupResponseMember]
