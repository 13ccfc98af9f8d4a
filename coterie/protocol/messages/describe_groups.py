"""DescribeGroups (API key 15): the state, the protocol and the members of groups.

v1   throttle_time_ms (KIP-124)
v2   the client itself waits for the throttle time (KIP-219)
v3   authorized operations (KIP-430)
v4   group_instance_id (KIP-345)
v5   flexible encoding (KIP-482)
v6   error_message; an unknown group is GROUP_ID_NOT_FOUND and not Dead any more (KIP-1043)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED
from coterie.protocol.wire import (
    Boolean,
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


@message(api_key=ApiKey.DESCRIBE_GROUPS, flexible=5)
class DescribeGroupsRequest(Message):
    """The ids of the groups to describe."""

    groups: list[String]
    include_authorized_operations: Boolean = since(3, default=False)


@struct
class DescribeGroupsResponseMember(Struct):
    """A member; `member_metadata` is that of the chosen protocol."""

    member_id: String
    group_instance_id: String | None = since(4, default=None)
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


@struct
class DescribeGroupsResponseGroup(Struct):
    """One group; `protocol_data` is the name of the chosen protocol."""

    error_code: Int16
    error_message: String | None = since(6, default=None)
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: list[DescribeGroupsResponseMember]
    authorized_operations: Int32 = since(3, default=AUTHORIZED_OPERATIONS_OMITTED)


@message(api_key=ApiKey.DESCRIBE_GROUPS, flexible=5)
class DescribeGroupsResponse(Message):
    """One result for each group, in the order of the request."""

    throttle_time_ms: Int32 = since(1, default=0)
    groups: list[DescribeGroupsResponseGroup]
