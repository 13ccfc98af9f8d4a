"""AlterPartitionReassignments (API key 45): put partitions on other brokers (KIP-455).

v0   flexible encoding
v1   allow_replication_factor_change (KIP-860)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Boolean,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
)


@struct
class AlterPartitionReassignmentsRequestPartition(Struct):
    """The brokers that are to have a partition; null cancels a reassignment."""

    partition_index: Int32
    replicas: list[Int32] | None = None


@struct
class AlterPartitionReassignmentsRequestTopic(Struct):
    """Partitions of a topic."""

    name: String
    partitions: list[AlterPartitionReassignmentsRequestPartition]


@message(api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, flexible=0)
class AlterPartitionReassignmentsRequest(Message):
    """The reassignments to begin or to cancel."""

    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: Boolean = since(1, default=True)
    topics: list[AlterPartitionReassignmentsRequestTopic]


@struct
class AlterPartitionReassignmentsResponsePartition(Struct):
    """The result for a partition."""

    partition_index: Int32
    error_code: Int16
    error_message: String | None


@struct
class AlterPartitionReassignmentsResponseTopic(Struct):
    """The results for a topic."""

    name: String
    partitions: list[AlterPartitionReassignmentsResponsePartition]


@message(api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, flexible=0)
class AlterPartitionReassignmentsResponse(Message):
    """The result for each partition."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Boolean = since(1, default=True)
    error_code: Int16
    error_message: String | None
    responses: list[AlterPartitionReassignmentsResponseTopic]
