"""DescribeConfigs (api key 32): the settings of topics and brokers (KIP-133).

v1   the first one served: synonyms, config_source (KIP-226)
v2   clients throttle themselves (KIP-219)
v3   config_type and documentation (KIP-569)
v4   flexible (KIP-482)
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
)


@struct
class DescribeConfigsRequestResource(Struct):
    """A topic (type 2) or broker (type 4); null keys for all its settings."""

    resource_type: Int8
    resource_name: String
    configuration_keys: list[String] | None


@message(api_key=ApiKey.DESCRIBE_CONFIGS, flexible=4)
class DescribeConfigsRequest(Message):
    """What is asked, and in how much detail."""

    resources: list[DescribeConfigsRequestResource]
    include_synonyms: Boolean = False
    include_documentation: Boolean = since(3, default=False)


@struct
class DescribeConfigsResponseSynonym(Struct):
    """A place the value may come from."""

    name: String
    value: String | None
    source: Int8


@struct
class DescribeConfigsResponseConfig(Struct):
    """One setting and where its value comes from."""

    name: String
    value: String | None
    read_only: Boolean
    config_source: Int8 = -1
    is_sensitive: Boolean
    synonyms: list[DescribeConfigsResponseSynonym]
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
    """One result a resource."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResponseResult]
