"""ShareGroupDescribe (API key 77): the epochs and the members of share groups (KIP-932).

Version 0 existed in Kafka 4.0 as a preview and is not declared.
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED
from coterie.protocol.wire import (
    Boolean,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    Uuid,
    message,
    struct,
)


@message(api_key=ApiKey.SHARE_GROUP_DESCRIBE, flexible=0)
class ShareGroupDescribeRequest(Message):
    """The ids of the groups to describe."""

    group_ids: list[String]
    include_authorized_operations: Boolean = False


@struct
class ShareDescribeTopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@struct
class ShareDescribeAssignment(Struct):
    """The partitions of a member."""

    topic_partitions: list[ShareDescribeTopicPartitions]


@struct
class ShareGroupDescribeResponseMember(Struct):
    """A member and its current assignment."""

    member_id: String
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    assignment: ShareDescribeAssignment


@struct
class ShareGroupDescribeResponseGroup(Struct):
    """One group."""

    error_code: Int16
    error_message: String | None = None
    group_id: String
    group_state: String
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String
    members: list[ShareGroupDescribeResponseMember]
    authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED


@message(api_key=ApiKey.SHARE_GROUP_DESCRIBE, flexible=0)
class ShareGroupDescribeResponse(Message):
    """One result for each group."""

    throttle_time_ms: Int32 = 0
    groups: list[ShareGroupDescribeResponseGroup]
