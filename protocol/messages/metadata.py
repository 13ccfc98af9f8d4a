"""Metadata (api key 3): brokers, topics, partitions and their leaders.

v1   null topics for all of them (v0: an empty list), controller_id, rack, is_internal
v2   cluster_id (KIP-78)
v3   throttle time (KIP-124)
v4   allow_auto_topic_creation
v5   offline_replicas (KIP-112)
v6   clients throttle themselves (KIP-219)
v7   leader_epoch (KIP-320)
v8   authorized operations (KIP-430)
v9   flexible (KIP-482)
v10  topic ids in the answer (KIP-516)
v11  no more cluster authorized operations (KIP-700)
v12  topics asked for by id (KIP-516)
v13  top-level error (KIP-1102)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED
from coterie.protocol.wire import (
    ZERO_UUID,
    Boolean,
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
class MetadataRequestTopic(Struct):
    """A topic by name; from v10 on also by id, with a null name."""

    topic_id: Uuid = since(10, default=ZERO_UUID)
    name: String | None = field(nullable_since=10)


@message(api_key=ApiKey.METADATA, flexible=9)
class MetadataRequest(Message):
    """The topics asked for; null (in v0: an empty list) for all."""

    topics: list[MetadataRequestTopic] | None = field(nullable_since=1)
    allow_auto_topic_creation: Boolean = since(4, default=True)
    include_cluster_authorized_operations: Boolean = since(8, last=10, default=False)
    include_topic_authorized_operations: Boolean = since(8, default=False)


@struct
class MetadataResponseBroker(Struct):
    """Where to reach a broker."""

    node_id: Int32
    host: String
    port: Int32
    rack: String | None = since(1, default=None)


@struct
class MetadataResponsePartition(Struct):
    """A partition and its replicas, by node id."""

    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = since(7, default=-1)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = since(5, factory=list)


@struct
class MetadataResponseTopic(Struct):
    """A topic, or why there is none; the name is null where an unknown id was asked for."""

    error_code: Int16
    name: String | None = field(nullable_since=12)
    topic_id: Uuid = since(10, default=ZERO_UUID)
    is_internal: Boolean = since(1, default=False)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: Int32 = since(8, default=AUTHORIZED_OPERATIONS_OMITTED)


@message(api_key=ApiKey.METADATA, flexible=9)
class MetadataResponse(Message):
    """The cluster as this broker knows it."""

    throttle_time_ms: Int32 = since(3, default=0)
    brokers: list[MetadataResponseBroker]
    cluster_id: String | None = since(2, default=None)
    controller_id: Int32 = since(1, default=-1)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = since(8, last=10, default=AUTHORIZED_OPERATIONS_OMITTED)
    error_code: Int16 = since(13, default=0)
