"""ListGroups (api key 16): the groups this broker coordinates.

v1   throttle time (KIP-124)
v2   clients throttle themselves (KIP-219)
v3   flexible (KIP-482)
v4   states, and a filter on them (KIP-518)
v5   types, and a filter on them (KIP-848)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Int16, Int32, Message, String, Struct, message, since, struct


@message(api_key=ApiKey.LIST_GROUPS, flexible=3)
class ListGroupsRequest(Message):
    """Empty filters match every group; names match regardless of case."""

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
    """What is known; an error (a partition still loading) hides only that partition's groups."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16
    groups: list[ListGroupsResponseGroup]
