"""JoinGroup (API key 11): join a group, or its next generation.

The response is delayed until the join phase of that generation is complete.

v1   rebalance_timeout_ms (KIP-62); before, the session timeout is used
v2   throttle_time_ms (KIP-124)
v3   the client itself waits for the throttle time (KIP-219)
v4   the first join is answered with MEMBER_ID_REQUIRED and a member id (KIP-394)
v5   group_instance_id (KIP-345)
v6   flexible encoding (KIP-482)
v7   protocol_type in the response, protocol_name may be null (KIP-559)
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
    """A protocol that the member supports; the metadata of a consumer is its subscription."""

    name: String
    metadata: Bytes


@message(api_key=ApiKey.JOIN_GROUP, flexible=6)
class JoinGroupRequest(Message):
    """The member and its protocols, in order of preference.

    member_id: empty in a client's first join.
    """

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = since(1, default=-1)
    member_id: String
    group_instance_id: String | None = since(5, default=None)
    protocol_type: String
    protocols: list[JoinGroupRequestProtocol]
    reason: String | None = since(8, default=None)


@struct
class JoinGroupResponseMember(Struct):
    """A member of the generation; `metadata` is that of the chosen protocol."""

    member_id: String
    group_instance_id: String | None = since(5, default=None)
    metadata: Bytes


@message(api_key=ApiKey.JOIN_GROUP, flexible=6)
class JoinGroupResponse(Message):
    """The generation and its protocol; only the leader receives the members.

    protocol_name: None is written as "" before v7 [framing/null-before-version].
    """

    throttle_time_ms: Int32 = since(2, default=0)
    error_code: Int16
    generation_id: Int32 = -1
    protocol_type: String | None = since(7, default=None)
    protocol_name: String | None = field(nullable_since=7)
    leader: String
    skip_assignment: Boolean = since(9, default=False)
    member_id: String
    members: list[JoinGroupResponseMember]
