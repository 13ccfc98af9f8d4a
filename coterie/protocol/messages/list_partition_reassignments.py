"""ListPartitionReassignments (API key 46): the reassignments in progress (KIP-455).

v0   flexible encoding
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Int16, Int32, Message, String, Struct, message, struct


@struct
class ListPartitionReassignmentsRequestTopic(Struct):
    """Partitions of a topic."""

    name: String
    partition_indexes: list[Int32]


@message(api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS, flexible=0)
class ListPartitionReassignmentsRequest(Message):
    """The partitions to list; null for all of them."""

    timeout_ms: Int32 = 60_000
    topics: list[ListPartitionReassignmentsRequestTopic] | None = None


@struct
class ListPartitionReassignmentsResponsePartition(Struct):
    """A partition that is being moved."""

    partition_index: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32]
    removing_replicas: list[Int32]


@struct
class ListPartitionReassignmentsResponseTopic(Struct):
    """The partitions of a topic that are being moved."""

    name: String
    partitions: list[ListPartitionReassignmentsResponsePartition]


@message(api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS, flexible=0)
class ListPartitionReassignmentsResponse(Message):
    """The partitions that are being moved."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
    topics: list[ListPartitionReassignmentsResponseTopic]
