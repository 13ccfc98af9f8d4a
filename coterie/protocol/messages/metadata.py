"""Metadata (API key 3): the brokers, the topics, their partitions and leaders.

v1   null topics select all of them (v0: an empty array); controller_id, rack, is_internal
v2   cluster_id (KIP-78)
v3   throttle_time_ms (KIP-124)
v4   allow_auto_topic_creation
v5   offline_replicas (KIP-112)
v6   the client itself waits for the throttle time (KIP-219)
v7   leader_epoch (KIP-320)
v8   authorized operations (KIP-430)
v9   flexible encoding (KIP-482)
v10  topic ids in the response (KIP-516)
v11  no authorized operations of the cluster any more (KIP-700)
v12  topics may be requested by id (KIP-516)
v13  error_code of the whole response (KIP-1102)
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
    """A topic by name, or by id if the name is null (v10 and later)."""

    topic_id: Uuid = since(10, default=ZERO_UUID)
    name: String | None = field(nullable_since=10)


@message(api_key=ApiKey.METADATA, flexible=9)
class MetadataRequest(Message):
    """The topics to describe; null (in v0: an empty array) selects all of them."""

    topics: list[MetadataRequestTopic] | None = field(nullable_since=1)
    allow_auto_topic_creation: Boolean = since(4, default=True)
    include_cluster_authorized_operations: Boolean = since(8, last=10, default=False)
    include_topic_authorized_operations: Boolean = since(8, default=False)


@struct
class MetadataResponseBroker(Struct):
    """A broker and its address."""

    node_id: Int32
    host: String
    port: Int32
    rack: String | None = since(1, default=None)


@struct
class MetadataResponsePartition(Struct):
    """A partition; replicas are node ids."""

    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = since(7, default=-1)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = since(5, factory=list)


@struct
class MetadataResponseTopic(Struct):
    """A topic, or the error for it; the name is null for an unknown id."""

    error_code: Int16
    name: String | None = field(nullable_since=12)
    topic_id: Uuid = since(10, default=ZERO_UUID)
    is_internal: Boolean = since(1, default=False)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: Int32 = since(8, default=AUTHORIZED_OPERATIONS_OMITTED)


@message(api_key=ApiKey.METADATA, flexible=9)
class MetadataResponse(Message):
    """The cluster from the broker's point of view."""

    throttle_time_ms: Int32 = since(3, default=0)
    brokers: list[MetadataResponseBroker]
    cluster_id: String | None = since(2, default=None)
    controller_id: Int32 = since(1, default=-1)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = since(8, last=10, default=AUTHORIZED_OPERATIONS_OMITTED)
    error_code: Int16 = since(13, default=0)
