"""ShareGroupHeartbeat (API key 76): join a share group, keep in it, leave it (KIP-932).

A null keeps what the member had. Version 0 existed in Kafka 4.0 as a preview and is not declared.
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
    struct,
)


@message(api_key=ApiKey.SHARE_GROUP_HEARTBEAT, flexible=0)
class ShareGroupHeartbeatRequest(Message):
    """The member, its epoch, and what has changed. The epoch is 0 to join and -1 to leave."""

    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: String | None = None
    subscribed_topic_names: list[String] | None = None


@struct
class ShareHeartbeatTopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[Int32]


@struct
class ShareHeartbeatAssignment(Struct):
    """The partitions that the member reads, maybe with others."""

    topic_partitions: list[ShareHeartbeatTopicPartitions]


@message(api_key=ApiKey.SHARE_GROUP_HEARTBEAT, flexible=0)
class ShareGroupHeartbeatResponse(Message):
    """The epoch of the member, and its assignment; null if that has not changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ShareHeartbeatAssignment | None = None
