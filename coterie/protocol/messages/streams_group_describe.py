"""StreamsGroupDescribe (API key 89): topology, epochs and members of streams groups (KIP-1071)."""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED
from coterie.protocol.wire import (
    Boolean,
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


@message(api_key=ApiKey.STREAMS_GROUP_DESCRIBE, flexible=0)
class StreamsGroupDescribeRequest(Message):
    """The ids of the groups to describe."""

    group_ids: list[String]
    include_authorized_operations: Boolean = False


@struct
class StreamsDescribeKeyValue(Struct):
    """A setting or a tag."""

    key: String
    value: String


@struct
class StreamsDescribeTopicInfo(Struct):
    """An internal topic; 0 partitions or replicas leave the choice to the broker."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[StreamsDescribeKeyValue]


@struct
class StreamsDescribeSubtopology(Struct):
    """A part of the topology whose tasks are assigned together."""

    subtopology_id: String
    source_topics: list[String]
    repartition_sink_topics: list[String]
    state_changelog_topics: list[StreamsDescribeTopicInfo]
    repartition_source_topics: list[StreamsDescribeTopicInfo]


@struct
class StreamsDescribeTopology(Struct):
    """The part of the application's topology that the assignment of tasks depends on."""

    epoch: Int32
    subtopologies: list[StreamsDescribeSubtopology] | None = None


@struct
class StreamsDescribeEndpoint(Struct):
    """The address at which a member answers interactive queries."""

    host: String
    port: Uint16


@struct
class StreamsDescribeTaskOffset(Struct):
    """The position of a task."""

    subtopology_id: String
    partition: Int32
    offset: Int64


@struct
class StreamsDescribeTaskIds(Struct):
    """Tasks of one subtopology, one for each partition."""

    subtopology_id: String
    partitions: list[Int32]


@struct
class StreamsDescribeAssignment(Struct):
    """The tasks of a member by their roles."""

    active_tasks: list[StreamsDescribeTaskIds]
    standby_tasks: list[StreamsDescribeTaskIds]
    warmup_tasks: list[StreamsDescribeTaskIds]


@struct
class StreamsGroupDescribeResponseMember(Struct):
    """A member, its assignment and its target."""

    member_id: String
    member_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String
    client_host: String
    topology_epoch: Int32
    process_id: String
    user_endpoint: StreamsDescribeEndpoint | None = None
    client_tags: list[StreamsDescribeKeyValue]
    task_offsets: list[StreamsDescribeTaskOffset]
    task_end_offsets: list[StreamsDescribeTaskOffset]
    assignment: StreamsDescribeAssignment
    target_assignment: StreamsDescribeAssignment
    is_classic: Boolean


@struct
class StreamsGroupDescribeResponseGroup(Struct):
    """One group."""

    error_code: Int16
    error_message: String | None = None
    group_id: String
    group_state: String
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: StreamsDescribeTopology | None = None
    members: list[StreamsGroupDescribeResponseMember]
    authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED


@message(api_key=ApiKey.STREAMS_GROUP_DESCRIBE, flexible=0)
class StreamsGroupDescribeResponse(Message):
    """One result for each group."""

    throttle_time_ms: Int32 = 0
    groups: list[StreamsGroupDescribeResponseGroup]
