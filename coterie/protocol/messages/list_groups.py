"""ListGroups (API key 16): the groups that the broker coordinates.

v1   throttle_time_ms (KIP-124)
v2   the client itself waits for the throttle time (KIP-219)
v3   flexible encoding (KIP-482)
v4   group_state and states_filter (KIP-518)
v5   group_type and types_filter (KIP-848)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Int16, Int32, Message, String, Struct, message, since, struct


@message(api_key=ApiKey.LIST_GROUPS, flexible=3)
class ListGroupsRequest(Message):
    """The filters; an empty one matches every group, and case is ignored."""

    states_filter: list[String] = since(4, factory=list)
    types_filter: list[String] = since(5, factory=list)


@struct
class ListGroupsResponseGroup(Struct):
    """One group."""

    group_id: String
    protocol_type: String
    group_state: String = since(4, default="")
    group_type: String = since(5, default="")


@message(api_key=ApiKey.LIST_GROUPS, flexible=3)
class ListGroupsResponse(Message):
    """The groups of the loaded partitions; the error is that of a partition that is missing."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16
    groups: list[ListGroupsResponseGroup]
