"""Records of streams groups (KIP-1071) in `__consumer_offsets`: types 17 and 19 to 23.

The coordinator keeps of these groups that they exist; tools decode all records. Keys have one
version and are never flexible; values have version 0 and are flexible. Timestamps and timeouts are
milliseconds, field names Kafka's.
"""

from coterie.protocol.wire import (
    RESPONSE_ELEMENT_BUDGET,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uint16,
    message,
    since,
    struct,
)


@struct
class StreamsKeyValue(Struct):
    """A setting or a tag."""

    key: String
    value: String


@message(versions=(0, 0), flexible=None)
class StreamsGroupMetadataKey(Message):
    """Record type 17: a group, for its epoch."""

    group_id: String


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class StreamsGroupMetadataValue(Message):
    """The epoch of the group, and the hash of its topics' metadata.

    If absent, `validated_topology_epoch` is -1 and `last_assignment_configs` is null.
    """

    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Int32 = since(0, tag=0, default=-1)
    last_assignment_configs: list[StreamsKeyValue] | None = since(0, tag=1, default=None)


@message(versions=(0, 0), flexible=None)
class StreamsGroupMemberMetadataKey(Message):
    """Record type 19: a member, for its description."""

    group_id: String
    member_id: String


@struct
class StreamsEndpoint(Struct):
    """The address at which a member answers interactive queries."""

    host: String
    port: Uint16


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class StreamsGroupMemberMetadataValue(Message):
    """The description of a member."""

    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32
    process_id: String
    user_endpoint: StreamsEndpoint | None = None
    client_tags: list[StreamsKeyValue]


@message(versions=(0, 0), flexible=None)
class StreamsGroupTargetAssignmentMetadataKey(Message):
    """Record type 20: a group, for the epoch of its target assignment."""

    group_id: String


@message(versions=(0, 0), flexible=0)
class StreamsGroupTargetAssignmentMetadataValue(Message):
    """The epoch of the target assignment, and the time when it was computed (0 if absent)."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = since(0, tag=0, default=0)


@message(versions=(0, 0), flexible=None)
class StreamsGroupTargetAssignmentMemberKey(Message):
    """Record type 21: a member, for its part of the target assignment."""

    group_id: String
    member_id: String


@struct
class TargetTasks(Struct):
    """Tasks of one subtopology in a target assignment, one for each partition."""

    subtopology_id: String
    partitions: list[Int32]


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class StreamsGroupTargetAssignmentMemberValue(Message):
    """The target assignment of a member."""

    active_tasks: list[TargetTasks]
    standby_tasks: list[TargetTasks]
    warmup_tasks: list[TargetTasks]


@message(versions=(0, 0), flexible=None)
class StreamsGroupCurrentMemberAssignmentKey(Message):
    """Record type 22: a member, for its current assignment."""

    group_id: String
    member_id: String


@struct
class CurrentTasks(Struct):
    """Tasks of one subtopology that a member runs, and the epochs at which it received them."""

    subtopology_id: String
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = since(0, tag=0, default=None)


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class StreamsGroupCurrentMemberAssignmentValue(Message):
    """The current assignment of a member on the way to its target."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: list[CurrentTasks]
    standby_tasks: list[CurrentTasks]
    warmup_tasks: list[CurrentTasks]
    active_tasks_pending_revocation: list[CurrentTasks]
    standby_tasks_pending_revocation: list[CurrentTasks]
    warmup_tasks_pending_revocation: list[CurrentTasks]


@message(versions=(0, 0), flexible=None)
class StreamsGroupTopologyKey(Message):
    """Record type 23: a group, for its topology."""

    group_id: String


@struct
class StreamsTopic(Struct):
    """An internal topic; 0 partitions or replicas mean that the topology does not specify them."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[StreamsKeyValue]


@struct
class CopartitionGroup(Struct):
    """Topics that must have the same partitions, as indexes into the lists of the subtopology."""

    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


@struct
class Subtopology(Struct):
    """A part of the topology whose tasks are assigned together."""

    subtopology_id: String
    source_topics: list[String]
    source_topic_regex: list[String]
    state_changelog_topics: list[StreamsTopic]
    repartition_sink_topics: list[String]
    repartition_source_topics: list[StreamsTopic]
    copartition_groups: list[CopartitionGroup]


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class StreamsGroupTopologyValue(Message):
    """The part of the application's topology that the assignment of tasks depends on."""

    epoch: Int32
    subtopologies: list[Subtopology]
