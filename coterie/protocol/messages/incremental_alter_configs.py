"""IncrementalAlterConfigs (API key 44): change single settings of topics or brokers (KIP-339).

v1   flexible encoding (KIP-482)
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

# Operations.
SET = 0
DELETE = 1
APPEND = 2
SUBTRACT = 3


@struct
class IncrementalAlterConfigsRequestConfig(Struct):
    """One change; `config_operation` is one of the constants above."""

    name: String
    config_operation: Int8
    value: String | None


@struct
class IncrementalAlterConfigsRequestResource(Struct):
    """The changes to one resource."""

    resource_type: Int8
    resource_name: String
    configs: list[IncrementalAlterConfigsRequestConfig]


@message(api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, flexible=1)
class IncrementalAlterConfigsRequest(Message):
    """The resources to change; with `validate_only` the change is only checked."""

    resources: list[IncrementalAlterConfigsRequestResource]
    validate_only: Boolean


@struct
class IncrementalAlterConfigsResponseResource(Struct):
    """The result for one resource."""

    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String


@message(api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, flexible=1)
class IncrementalAlterConfigsResponse(Message):
    """One result for each resource."""

    throttle_time_ms: Int32 = 0
    responses: list[IncrementalAlterConfigsResponseResource]
