"""ConsumerGroupDescribe (API key 69): the epochs and the members of consumer groups (KIP-848).

v1   member_type (KIP-1099)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED
from coterie.protocol.wire import (
    Boolean,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    Uuid,
    message,
    since,
    struct,
)


@message(api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, flexible=0)
class ConsumerGroupDescribeRequest(Message):
    """The ids of the groups to describe."""

    group_ids: list[String]
    include_authorized_operations: Boolean = False


@struct
class DescribedTopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@struct
class DescribedAssignment(Struct):
    """The partitions of a member."""

    topic_partitions: list[DescribedTopicPartitions]


@struct
class ConsumerGroupDescribeResponseMember(Struct):
    """A member; `member_type` is 0 for the classic protocol and 1 for the consumer protocol."""

    member_id: String
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None = None
    assignment: DescribedAssignment
    target_assignment: DescribedAssignment
    member_type: Int8 = since(1, default=-1)


@struct
class ConsumerGroupDescribeResponseGroup(Struct):
    """One group."""

    error_code: Int16
    error_message: String | None = None
    group_id: String
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[ConsumerGroupDescribeResponseMember]
    authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED


@message(api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, flexible=0)
class ConsumerGroupDescribeResponse(Message):
    """One result for each group."""

    throttle_time_ms: Int32 = 0
    groups: list[ConsumerGroupDescribeResponseGroup]
