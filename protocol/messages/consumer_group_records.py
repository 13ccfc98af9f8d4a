"""Records of KIP-848 consumer groups in `__consumer_offsets`: types 3 to 8 and 16 (spec 14.1).

Keys have one version and are never flexible; values have version 0 and are flexible. The classic
coordinator skips these records; tools show them, and whatever serves such groups writes them.
Timestamps and timeouts are milliseconds. Field names are Kafka's.

Partitions stand under topic ids, not names: the log of such a group alone does not tell a name.
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
    """Record type 3: whose epoch."""

    group_id: String


@message(versions=(0, 0), flexible=0)
class ConsumerGroupMetadataValue(Message):
    """The group's epoch, and the hash over the topics it reads (absent: 0)."""

    epoch: Int32
    metadata_hash: Int64 = since(0, tag=0, default=0)


@message(versions=(0, 0), flexible=None)
class ConsumerGroupPartitionMetadataKey(Message):
    """Record type 4: whose topics. Kafka 4.1 and later write it as a tombstone only."""

    group_id: String


@struct
class PartitionRacks(Struct):
    """Where the replicas of a partition are."""

    partition: Int32
    racks: list[String]


@struct
class SubscribedTopicMetadata(Struct):
    """A topic as it was when the group's assignment was computed."""

    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: list[PartitionRacks]


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ConsumerGroupPartitionMetadataValue(Message):
    """The topics that the group's members read."""

    topics: list[SubscribedTopicMetadata]


@message(versions=(0, 0), flexible=None)
class ConsumerGroupMemberMetadataKey(Message):
    """Record type 5: whose subscription."""

    group_id: String
    member_id: String


@struct
class ClassicProtocol(Struct):
    """One of the protocols with which a classic member joined."""

    name: String
    metadata: Bytes


@struct
class ClassicMemberMetadata(Struct):
    """What a member that speaks the classic protocol brought along."""

    session_timeout_ms: Int32
    supported_protocols: list[ClassicProtocol]


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ConsumerGroupMemberMetadataValue(Message):
    """Who a member is and what it wants to read."""

    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None
    classic_member_metadata: ClassicMemberMetadata | None = since(0, tag=0, default=None)


@message(versions=(0, 0), flexible=None)
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """Record type 6: whose target assignment."""

    group_id: String


@message(versions=(0, 0), flexible=0)
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The group epoch for which the target assignment was computed, and when (absent: 0)."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = since(0, tag=0, default=0)


@message(versions=(0, 0), flexible=None)
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """Record type 7: whose part of the target assignment."""

    group_id: String
    member_id: String


@struct
class TargetTopicPartitions(Struct):
    """Partitions of one topic that a member shall read."""

    topic_id: Uuid
    partitions: list[Int32]


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """What a member shall read in the end."""

    topic_partitions: list[TargetTopicPartitions]


@message(versions=(0, 0), flexible=None)
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Record type 8: whose present assignment."""

    group_id: String
    member_id: String


@struct
class CurrentTopicPartitions(Struct):
    """Partitions of one topic that a member holds, with the epochs at which it got them.

    The epochs (KIP-1251) are absent where Kafka before 4.3 wrote the record.
    """

    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = since(0, tag=0, default=None)


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """Where a member is on the way to its target.

    `state` is 0 STABLE, 1 UNREVOKED_PARTITIONS, 2 UNRELEASED_PARTITIONS (spec 15.2).
    """

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[CurrentTopicPartitions]
    partitions_pending_revocation: list[CurrentTopicPartitions]


@message(versions=(0, 0), flexible=None)
class ConsumerGroupRegularExpressionKey(Message):
    """Record type 16: which regular expression of which group."""

    group_id: String
    regular_expression: String


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ConsumerGroupRegularExpressionValue(Message):
    """The topics that a regular expression matched, in which version of the metadata, and when."""

    topics: list[String]
    version: Int64
    timestamp: Int64
