"""CreateTopics (api key 19): make topics, with so many partitions and these settings.

v2   the first one served: validate_only, error_message, throttle time
v3   clients throttle themselves (KIP-219)
v4   -1 for the default partitions and replication factor (KIP-464)
v5   flexible (KIP-482), the topic's settings in the answer (KIP-525)
v6   may answer THROTTLING_QUOTA_EXCEEDED (KIP-599)
v7   topic_id in the answer (KIP-516)
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
    """The brokers of one partition, where the caller chooses."""

    partition_index: Int32
    broker_ids: list[Int32]


@struct
class CreateTopicsRequestConfig(Struct):
    """A setting of the topic."""

    name: String
    value: String | None


@struct
class CreateTopicsRequestTopic(Struct):
    """A topic; -1 for partitions or replicas that are assigned, or (v4) left to the broker."""

    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreateTopicsRequestAssignment] = field(factory=list)
    configs: list[CreateTopicsRequestConfig] = field(factory=list)


@message(api_key=ApiKey.CREATE_TOPICS, flexible=5)
class CreateTopicsRequest(Message):
    """The topics, to be created or (validate_only) only checked."""

    topics: list[CreateTopicsRequestTopic]
    timeout_ms: Int32 = 60000
    validate_only: Boolean = False


@struct
class CreateTopicsResponseConfig(Struct):
    """A setting the topic has; the source is a number of DescribeConfigs."""

    name: String
    value: String | None
    read_only: Boolean
    config_source: Int8 = -1
    is_sensitive: Boolean


@struct
class CreateTopicsResponseTopic(Struct):
    """What became of one topic."""

    name: String
    topic_id: Uuid = since(7, default=ZERO_UUID)
    error_code: Int16
    error_message: String | None
    topic_config_error_code: Int16 = since(5, tag=0, default=0)
    num_partitions: Int32 = since(5, default=-1)
    replication_factor: Int16 = since(5, default=-1)
    configs: list[CreateTopicsResponseConfig] | None = since(5, factory=list)


@message(api_key=ApiKey.CREATE_TOPICS, flexible=5)
class CreateTopicsResponse(Message):
    """One result a topic."""

    throttle_time_ms: Int32 = 0
    topics: list[CreateTopicsResponseTopic]
