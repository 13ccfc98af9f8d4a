"""StreamsGroupHeartbeat (API key 88): join a streams group, reconcile, leave it (KIP-1071).

A null keeps what the member had.
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uint16,
    message,
    struct,
)


@struct
class StreamsHeartbeatKeyValue(Struct):
    """A setting or a tag."""

    key: String
    value: String


@struct
class StreamsHeartbeatTopicInfo(Struct):
    """An internal topic; 0 partitions or replicas leave the choice to the broker."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[StreamsHeartbeatKeyValue]


@struct
class StreamsHeartbeatCopartitionGroup(Struct):
    """Topics that must have the same partitions, as indexes into the lists of the subtopology."""

    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


@struct
class StreamsHeartbeatSubtopology(Struct):
    """A part of the topology whose tasks are assigned together."""

    subtopology_id: String
    source_topics: list[String]
    source_topic_regex: list[String]
    state_changelog_topics: list[StreamsHeartbeatTopicInfo]
    repartition_sink_topics: list[String]
    repartition_source_topics: list[StreamsHeartbeatTopicInfo]
    copartition_groups: list[StreamsHeartbeatCopartitionGroup]


@struct
class StreamsHeartbeatTopology(Struct):
    """The part of the application's topology that the assignment of tasks depends on."""

    epoch: Int32
    subtopologies: list[StreamsHeartbeatSubtopology]


@struct
class StreamsHeartbeatTaskIds(Struct):
    """Tasks of one subtopology, one for each partition."""

    subtopology_id: String
    partitions: list[Int32]


@struct
class StreamsHeartbeatEndpoint(Struct):
    """The address at which a member answers interactive queries."""

    host: String
    port: Uint16


@struct
class StreamsHeartbeatTaskOffset(Struct):
    """The position of a task."""

    subtopology_id: String
    partition: Int32
    offset: Int64


@message(api_key=ApiKey.STREAMS_GROUP_HEARTBEAT, flexible=0)
class StreamsGroupHeartbeatRequest(Message):
    """The member, its epoch, its topology when it joins, and what has changed."""

    group_id: String
    member_id: String
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: StreamsHeartbeatTopology | None = None
    active_tasks: list[StreamsHeartbeatTaskIds] | None = None
    standby_tasks: list[StreamsHeartbeatTaskIds] | None = None
    warmup_tasks: list[StreamsHeartbeatTaskIds] | None = None
    process_id: String | None = None
    user_endpoint: StreamsHeartbeatEndpoint | None = None
    client_tags: list[StreamsHeartbeatKeyValue] | None = None
    task_offsets: list[StreamsHeartbeatTaskOffset] | None = None
    task_end_offsets: list[StreamsHeartbeatTaskOffset] | None = None
    shutdown_application: Boolean = False


@struct
class StreamsHeartbeatStatus(Struct):
    """Why the member has fewer tasks than it could have, or is to stop."""

    status_code: Int8
    status_detail: String


@struct
class StreamsHeartbeatTopicPartitions(Struct):
    """Partitions of one topic."""

    topic: String
    partitions: list[Int32]


@struct
class StreamsHeartbeatEndpointPartitions(Struct):
    """The partitions that can be queried at an endpoint."""

    user_endpoint: StreamsHeartbeatEndpoint
    active_partitions: list[StreamsHeartbeatTopicPartitions]
    standby_partitions: list[StreamsHeartbeatTopicPartitions]


@message(api_key=ApiKey.STREAMS_GROUP_HEARTBEAT, flexible=0)
class StreamsGroupHeartbeatResponse(Message):
    """The epoch of the member, and its tasks; null if those have not changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: list[StreamsHeartbeatStatus] | None
    active_tasks: list[StreamsHeartbeatTaskIds] | None = None
    standby_tasks: list[StreamsHeartbeatTaskIds] | None = None
    warmup_tasks: list[StreamsHeartbeatTaskIds] | None = None
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: list[StreamsHeartbeatEndpointPartitions] | None = None
