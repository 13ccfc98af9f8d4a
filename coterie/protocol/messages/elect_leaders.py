"""ElectLeaders (API key 43): elect the preferred, or any live, leader of partitions (KIP-460).

v1   election_type; error_code of the whole response
v2   flexible encoding
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
)

# Election types.
PREFERRED = 0
UNCLEAN = 1


@struct
class ElectLeadersRequestTopic(Struct):
    """Partitions of a topic."""

    topic: String
    partitions: list[Int32]


@message(api_key=ApiKey.ELECT_LEADERS, flexible=2)
class ElectLeadersRequest(Message):
    """The partitions to elect leaders of; null for all of them."""

    election_type: Int8 = since(1, default=PREFERRED)
    topic_partitions: list[ElectLeadersRequestTopic] | None
    timeout_ms: Int32 = 60_000


@struct
class ElectLeadersResponsePartition(Struct):
    """The result for a partition."""

    partition_id: Int32
    error_code: Int16
    error_message: String | None


@struct
class ElectLeadersResponseTopic(Struct):
    """The results for a topic."""

    topic: String
    partition_result: list[ElectLeadersResponsePartition]


@message(api_key=ApiKey.ELECT_LEADERS, flexible=2)
class ElectLeadersResponse(Message):
    """The result for each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(1, default=0)
    replica_election_results: list[ElectLeadersResponseTopic]
