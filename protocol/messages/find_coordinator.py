"""FindCoordinator (api key 10): which broker a group (or transaction) belongs to.

v1   key_type, throttle time and error_message (KIP-98)
v2   clients throttle themselves (KIP-219)
v3   flexible (KIP-482)
v4   many keys (KIP-699)
v5   TRANSACTION_ABORTABLE may be answered (KIP-890)
v6   share groups (KIP-932)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Int8,
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


@message(api_key=ApiKey.FIND_COORDINATOR, flexible=3)
class FindCoordinatorRequest(Message):
    """The one key of v0-3, or the keys of v4 and later. Types: 0 group, 1 transaction, 2 share."""

    key: String = until(3, default="")
    key_type: Int8 = since(1, default=0)
    coordinator_keys: list[String] = since(4, factory=list)


@struct
class FindCoordinatorResponseCoordinator(Struct):
    """The coordinator of one key (v4 and later)."""

    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16
    error_message: String | None = None


@message(api_key=ApiKey.FIND_COORDINATOR, flexible=3)
class FindCoordinatorResponse(Message):
    """The one coordinator of v0-3, or one a key."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = until(3, default=0)
    error_message: String | None = since(1, last=3, default=None)
    node_id: Int32 = until(3, default=0)
    host: String = until(3, default="")
    port: Int32 = until(3, default=0)
    coordinators: list[FindCoordinatorResponseCoordinator] = since(4, factory=list)
