"""DescribeConfigs (API key 32): the settings of topics and brokers (KIP-133).

v0   is_default; served as [framing/older-releases] says
v1   the first one of Kafka 4: synonyms, config_source (KIP-226)
v2   the client itself waits for the throttle time (KIP-219)
v3   config_type and documentation (KIP-569)
v4   flexible encoding (KIP-482)
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
    since,
    struct,
    until,
)


@struct
class DescribeConfigsRequestResource(Struct):
    """A resource, such as a topic or broker; null keys select all its settings."""

    resource_type: Int8
    resource_name: String
    configuration_keys: list[String] | None


@message(api_key=ApiKey.DESCRIBE_CONFIGS, flexible=4)
class DescribeConfigsRequest(Message):
    """The resources to describe, and the detail of the response."""

    resources: list[DescribeConfigsRequestResource]
    include_synonyms: Boolean = since(1, default=False)
    include_documentation: Boolean = since(3, default=False)


@struct
class DescribeConfigsResponseSynonym(Struct):
    """A setting, at some level, that the value may come from."""

    name: String
    value: String | None
    source: Int8


@struct
class DescribeConfigsResponseConfig(Struct):
    """One setting and the source of its value."""

    name: String
    value: String | None
    read_only: Boolean
    is_default: Boolean = until(0, default=False)
    config_source: Int8 = since(1, default=-1)
    is_sensitive: Boolean
    synonyms: list[DescribeConfigsResponseSynonym] = since(1, factory=list)
    config_type: Int8 = since(3, default=0)
    documentation: String | None = since(3, default=None)


@struct
class DescribeConfigsResponseResult(Struct):
    """The settings of one resource."""

    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String
    configs: list[DescribeConfigsResponseConfig]


@message(api_key=ApiKey.DESCRIBE_CONFIGS, flexible=4)
class DescribeConfigsResponse(Message):
    """One result for each resource."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResponseResult]
