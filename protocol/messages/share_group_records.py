"""Records of share groups (KIP-932) in `__consumer_offsets`: types 10 to 15 (spec 14.1).

They are kept and shown; nothing here serves share groups. Keys have one version and are never
flexible; values have version 0 and are flexible. Timestamps are milliseconds, field names Kafka's.
The delivery state of share groups stands in another topic, `__share_group_state`.
"""

from coterie.protocol.wire import (
    RESPONSE_ELEMENT_BUDGET,
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
class ShareGroupMemberMetadataKey(Message):
    """Record type 10: whose subscription."""

    group_id: String
    member_id: String


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ShareGroupMemberMetadataValue(Message):
    """Who a member is and what it wants to read."""

    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]


@message(versions=(0, 0), flexible=None)
class ShareGroupMetadataKey(Message):
    """Record type 11: whose epoch."""

    group_id: String


@message(versions=(0, 0), flexible=0)
class ShareGroupMetadataValue(Message):
    """The group's epoch, and the hash over the topics it reads."""

    epoch: Int32
    metadata_hash: Int64


@message(versions=(0, 0), flexible=None)
class ShareGroupTargetAssignmentMetadataKey(Message):
    """Record type 12: whose target assignment."""

    group_id: String


@message(versions=(0, 0), flexible=0)
class ShareGroupTargetAssignmentMetadataValue(Message):
    """The group epoch for which the target assignment was computed, and when (absent: 0)."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = since(0, tag=0, default=0)


@struct
class ShareTopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[Int32]


@message(versions=(0, 0), flexible=None)
class ShareGroupTargetAssignmentMemberKey(Message):
    """Record type 13: whose part of the target assignment."""

    group_id: String
    member_id: String


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ShareGroupTargetAssignmentMemberValue(Message):
    """What a member shall read."""

    topic_partitions: list[ShareTopicPartitions]


@message(versions=(0, 0), flexible=None)
class ShareGroupCurrentMemberAssignmentKey(Message):
    """Record type 14: whose present assignment."""

    group_id: String
    member_id: String


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ShareGroupCurrentMemberAssignmentValue(Message):
    """What a member reads; in a share group several may read a partition."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[ShareTopicPartitions]


@message(versions=(0, 0), flexible=None)
class ShareGroupStatePartitionMetadataKey(Message):
    """Record type 15: whose share state is initialized."""

    group_id: String


@struct
class ShareStateTopicPartitions(Struct):
    """Partitions of one topic, by id and name."""

    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@struct
class ShareStateTopic(Struct):
    """A topic by id and name."""

    topic_id: Uuid
    topic_name: String


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ShareGroupStatePartitionMetadataValue(Message):
    """For which partitions the share coordinator has state, gets it, or loses it."""

    initializing_topics: list[ShareStateTopicPartitions]
    initialized_topics: list[ShareStateTopicPartitions]
    deleting_topics: list[ShareStateTopic]
