"""Records of consumer groups (KIP-848) in `__consumer_offsets`: types 3 to 8 and 16.

The coordinator serves classic groups only and keeps of these groups that they exist; tools decode
all records. Keys have one version and are never flexible; values have version 0 and are flexible.
Timestamps and timeouts are milliseconds. Field names are Kafka's.

Partitions are listed by topic id. The log of such a group does not contain the names of its topics.
"""

from coterie.protocol.wire import (
    RESPONSE_ELEMENT_BUDGET,
    Bytes,
    Int8,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uuid,
    message,
    since,
    struct,
)


@message(versions=(0, 0), flexible=None)
class ConsumerGroupMetadataKey(Message):
    """Record type 3: a group, for its epoch."""

    group_id: String


@message(versions=(0, 0), flexible=0)
class ConsumerGroupMetadataValue(Message):
    """The epoch of the group, and the hash of its topics' metadata (0 if absent)."""

    epoch: Int32
    metadata_hash: Int64 = since(0, tag=0, default=0)


@message(versions=(0, 0), flexible=None)
class ConsumerGroupPartitionMetadataKey(Message):
    """Record type 4: a group, for its topics; Kafka 4.1 and later write only tombstones."""

    group_id: String


@struct
class PartitionRacks(Struct):
    """The racks of a partition's replicas."""

    partition: Int32
    racks: list[String]


@struct
class SubscribedTopicMetadata(Struct):
    """A topic at the time when the assignment of the group was computed."""

    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: list[PartitionRacks]


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ConsumerGroupPartitionMetadataValue(Message):
    """The topics to which members of the group subscribe."""

    topics: list[SubscribedTopicMetadata]


@message(versions=(0, 0), flexible=None)
class ConsumerGroupMemberMetadataKey(Message):
    """Record type 5: a member, for its subscription."""

    group_id: String
    member_id: String


@struct
class ClassicProtocol(Struct):
    """A protocol with which a classic member joined."""

    name: String
    metadata: Bytes


@struct
class ClassicMemberMetadata(Struct):
    """The protocols of a member that uses the classic protocol."""

    session_timeout_ms: Int32
    supported_protocols: list[ClassicProtocol]


def _absent_classic_member() -> ClassicMemberMetadata:
    """Return what Kafka reads where the field is absent: a classic member without protocols."""
    return ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=[])


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ConsumerGroupMemberMetadataValue(Message):
    """A member and its subscription; a member of the consumer protocol has no classic metadata."""

    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None
    classic_member_metadata: ClassicMemberMetadata | None = since(
        0, tag=0, factory=_absent_classic_member
    )


@message(versions=(0, 0), flexible=None)
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """Record type 6: a group, for the epoch of its target assignment."""

    group_id: String


@message(versions=(0, 0), flexible=0)
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The epoch of the target assignment, and the time when it was computed (0 if absent)."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = since(0, tag=0, default=0)


@message(versions=(0, 0), flexible=None)
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """Record type 7: a member, for its part of the target assignment."""

    group_id: String
    member_id: String


@struct
class TargetTopicPartitions(Struct):
    """Partitions of one topic in a target assignment."""

    topic_id: Uuid
    partitions: list[Int32]


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """The target assignment of a member."""

    topic_partitions: list[TargetTopicPartitions]


@message(versions=(0, 0), flexible=None)
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Record type 8: a member, for its current assignment."""

    group_id: String
    member_id: String


@struct
class CurrentTopicPartitions(Struct):
    """Partitions of one topic that a member owns, and the epochs at which it received them.

    Kafka before 4.3 wrote records without the epochs (KIP-1251).
    """

    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = since(0, tag=0, default=None)


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """The current assignment of a member on the way to its target.

    `state` is 0 for STABLE, 1 for UNREVOKED_PARTITIONS, 2 for UNRELEASED_PARTITIONS.
    """

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[CurrentTopicPartitions]
    partitions_pending_revocation: list[CurrentTopicPartitions]


@message(versions=(0, 0), flexible=None)
class ConsumerGroupRegularExpressionKey(Message):
    """Record type 16: a regular expression in a subscription of a group."""

    group_id: String
    regular_expression: String


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ConsumerGroupRegularExpressionValue(Message):
    """The topics that matched, the version of the metadata, and the time."""

    topics: list[String]
    version: Int64
    timestamp: Int64
