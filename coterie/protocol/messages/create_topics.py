"""CreateTopics (API key 19): create topics with a number of partitions and settings.

v0   served as [framing/older-releases] says, like v1
v1   validate_only, error_message
v2   the first one of Kafka 4: throttle_time_ms
v3   the client itself waits for the throttle time (KIP-219)
v4   -1 selects the default number of partitions or replication factor (KIP-464)
v5   flexible encoding (KIP-482), the settings of the topic in the response (KIP-525)
v6   the error may be THROTTLING_QUOTA_EXCEEDED (KIP-599)
v7   topic_id in the response (KIP-516)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    ZERO_UUID,
    Boolean,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    Uuid,
    field,
    message,
    since,
    struct,
)


@struct
class CreateTopicsRequestAssignment(Struct):
    """The brokers of one partition, as the client chooses them."""

    partition_index: Int32
    broker_ids: list[Int32]


@struct
class CreateTopicsRequestConfig(Struct):
    """A setting of the topic."""

    name: String
    value: String | None


@struct
class CreateTopicsRequestTopic(Struct):
    """A topic.

    num_partitions, replication_factor: -1 with assignments or, from v4 on, for the defaults.
    """

    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreateTopicsRequestAssignment] = field(factory=list)
    configs: list[CreateTopicsRequestConfig] = field(factory=list)


@message(api_key=ApiKey.CREATE_TOPICS, flexible=5)
class CreateTopicsRequest(Message):
    """The topics to create; with `validate_only` they are only checked."""

    topics: list[CreateTopicsRequestTopic]
    timeout_ms: Int32 = 60000
    validate_only: Boolean = since(1, default=False)


@struct
class CreateTopicsResponseConfig(Struct):
    """A setting of the topic; `config_source` has the values of DescribeConfigs."""

    name: String
    value: String | None
    read_only: Boolean
    config_source: Int8 = -1
    is_sensitive: Boolean


@struct
class CreateTopicsResponseTopic(Struct):
    """The result for one topic."""

    name: String
    topic_id: Uuid = since(7, default=ZERO_UUID)
    error_code: Int16
    error_message: String | None = since(1, default=None)
    topic_config_error_code: Int16 = since(5, tag=0, default=0)
    num_partitions: Int32 = since(5, default=-1)
    replication_factor: Int16 = since(5, default=-1)
    configs: list[CreateTopicsResponseConfig] | None = since(5, factory=list)


@message(api_key=ApiKey.CREATE_TOPICS, flexible=5)
class CreateTopicsResponse(Message):
    """One result for each topic."""

    throttle_time_ms: Int32 = since(2, default=0)
    topics: list[CreateTopicsResponseTopic]
