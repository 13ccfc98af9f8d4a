"""DeleteGroups (api key 42): remove groups without members, their offsets included (KIP-229).

v1   clients throttle themselves (KIP-219)
v2   flexible (KIP-482)
v3   error_message
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Int16, Int32, Message, String, Struct, message, since, struct


@message(api_key=ApiKey.DELETE_GROUPS, flexible=2)
class DeleteGroupsRequest(Message):
    """The groups by id."""

    groups_names: list[String]


@struct
class DeleteGroupsResponseResult(Struct):
    """What became of one group."""

    group_id: String
    error_code: Int16
    error_message: String | None = since(3, default=None)


@message(api_key=ApiKey.DELETE_GROUPS, flexible=2)
class DeleteGroupsResponse(Message):
    """One result a group."""

    throttle_time_ms: Int32 = 0
    results: list[DeleteGroupsResponseResult]
