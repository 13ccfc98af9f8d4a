"""DeleteGroups (API key 42): delete groups without members, and their offsets (KIP-229).

v1   the client itself waits for the throttle time (KIP-219)
v2   flexible encoding (KIP-482)
v3   error_message
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Int16, Int32, Message, String, Struct, message, since, struct


@message(api_key=ApiKey.DELETE_GROUPS, flexible=2)
class DeleteGroupsRequest(Message):
    """The ids of the groups to delete."""

    groups_names: list[String]


@struct
class DeleteGroupsResponseResult(Struct):
    """The result for one group."""

    group_id: String
    error_code: Int16
    error_message: String | None = since(3, default=None)


@message(api_key=ApiKey.DELETE_GROUPS, flexible=2)
class DeleteGroupsResponse(Message):
    """One result for each group."""

    throttle_time_ms: Int32 = 0
    results: list[DeleteGroupsResponseResult]
