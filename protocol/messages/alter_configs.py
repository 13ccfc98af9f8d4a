"""AlterConfigs (api key 33): replace all settings of topics or brokers (KIP-133).

v1   clients throttle themselves (KIP-219)
v2   flexible (KIP-482)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Boolean,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    message,
    struct,
)


@struct
class AlterConfigsRequestConfig(Struct):
    """A setting; null for its default."""

    name: String
    value: String | None


@struct
class AlterConfigsRequestResource(Struct):
    """All the settings a resource shall have."""

    resource_type: Int8
    resource_name: String
    configs: list[AlterConfigsRequestConfig]


@message(api_key=ApiKey.ALTER_CONFIGS, flexible=2)
class AlterConfigsRequest(Message):
    """The resources, to be changed or (validate_only) only checked."""

    resources: list[AlterConfigsRequestResource]
    validate_only: Boolean


@struct
class AlterConfigsResponseResource(Struct):
    """What became of one resource."""

    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String


@message(api_key=ApiKey.ALTER_CONFIGS, flexible=2)
class AlterConfigsResponse(Message):
    """One result a resource."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResponseResource]
