"""ConsumerGroupHeartbeat (API key 68): join a consumer group, keep in it, reconcile, leave it.

One request does everything that a member of the consumer protocol needs (KIP-848). A null, or a
timeout of -1, keeps what the member had.

v1   subscribed_topic_regex, and the client makes the member id (KIP-1082)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
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


@struct
class HeartbeatTopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[Int32]


@message(api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, flexible=0)
class ConsumerGroupHeartbeatRequest(Message):
    """The member, its epoch, and what has changed; `topic_partitions` is what it owns now.

    The epoch is 0 to join, -1 to leave, and -2 for a static member that leaves for a while.
    """

    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    subscribed_topic_regex: String | None = since(1, default=None)
    server_assignor: String | None = None
    topic_partitions: list[HeartbeatTopicPartitions] | None = None


@struct
class HeartbeatAssignment(Struct):
    """The partitions that the member may own."""

    topic_partitions: list[HeartbeatTopicPartitions]


@message(api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, flexible=0)
class ConsumerGroupHeartbeatResponse(Message):
    """The epoch of the member, and its assignment; null if that has not changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: HeartbeatAssignment | None = None
