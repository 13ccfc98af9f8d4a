"""Records of share groups (KIP-932) in `__consumer_offsets`: types 10 to 15.

The coordinator keeps of these groups that they exist; tools decode all records. Keys have one
version and are never flexible; values have version 0 and are flexible. Timestamps are milliseconds,
field names Kafka's. The delivery state of share groups is in another topic, `__share_group_state`.
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
    """Record type 10: a member, for its subscription."""

    group_id: String
    member_id: String


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ShareGroupMemberMetadataValue(Message):
    """A member and its subscription."""

    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]


@message(versions=(0, 0), flexible=None)
class ShareGroupMetadataKey(Message):
    """Record type 11: a group, for its epoch."""

    group_id: String


@message(versions=(0, 0), flexible=0)
class ShareGroupMetadataValue(Message):
    """The epoch of the group, and the hash of its topics' metadata."""

    epoch: Int32
    metadata_hash: Int64


@message(versions=(0, 0), flexible=None)
class ShareGroupTargetAssignmentMetadataKey(Message):
    """Record type 12: a group, for the epoch of its target assignment."""

    group_id: String


@message(versions=(0, 0), flexible=0)
class ShareGroupTargetAssignmentMetadataValue(Message):
    """The epoch of the target assignment, and the time when it was computed (0 if absent)."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = since(0, tag=0, default=0)


@struct
class ShareTopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[Int32]


@message(versions=(0, 0), flexible=None)
class ShareGroupTargetAssignmentMemberKey(Message):
    """Record type 13: a member, for its part of the target assignment."""

    group_id: String
    member_id: String


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ShareGroupTargetAssignmentMemberValue(Message):
    """The target assignment of a member."""

    topic_partitions: list[ShareTopicPartitions]


@message(versions=(0, 0), flexible=None)
class ShareGroupCurrentMemberAssignmentKey(Message):
    """Record type 14: a member, for its current assignment."""

    group_id: String
    member_id: String


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ShareGroupCurrentMemberAssignmentValue(Message):
    """The current assignment of a member; several members may share a partition."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[ShareTopicPartitions]


@message(versions=(0, 0), flexible=None)
class ShareGroupStatePartitionMetadataKey(Message):
    """Record type 15: a group, for its initialized partitions."""

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
    """The partitions whose share state is being initialized, exists, or is being deleted."""

    initializing_topics: list[ShareStateTopicPartitions]
    initialized_topics: list[ShareStateTopicPartitions]
    deleting_topics: list[ShareStateTopic]
