"""ListConfigResources (API key 74): what has settings (KIP-714; all kinds of resources KIP-1142).

v0   flexible encoding; the subscriptions of client metrics only
v1   resource types
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
)

CLIENT_METRICS = 16


@message(api_key=ApiKey.LIST_CONFIG_RESOURCES, flexible=0)
class ListConfigResourcesRequest(Message):
    """The types to list; none for all of them."""

    resource_types: list[Int8] = since(1, factory=list)


@struct
class ListConfigResourcesResponseResource(Struct):
    """A resource."""

    resource_name: String
    resource_type: Int8 = since(1, default=CLIENT_METRICS)


@message(api_key=ApiKey.LIST_CONFIG_RESOURCES, flexible=0)
class ListConfigResourcesResponse(Message):
    """The resources."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    config_resources: list[ListConfigResourcesResponseResource]
