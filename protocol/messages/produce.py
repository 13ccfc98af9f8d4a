"""Produce (api key 0): append record batches to partitions. With acks=0 there is no response.

v3   the first one served: message format v2, transactional_id (KIP-98)
v4   may answer KAFKA_STORAGE_ERROR (KIP-112)
v5   log_start_offset (KIP-107)
v6   clients throttle themselves (KIP-219)
v7   zstd (KIP-110)
v8   record_errors and error_message (KIP-467)
v9   flexible (KIP-482)
v10  current_leader and node_endpoints (KIP-951)
v11  may answer TRANSACTION_ABORTABLE (KIP-890)
v12  adds the partitions to the transaction (KIP-890)
v13  topic ids in place of names (KIP-516)

ApiVersions announces it from v0 (spec section 1.1).
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    ABSENT_ONLY,
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    String,
    Struct,
    Uuid,
    message,
    since,
    struct,
    until,
)


@struct
class ProduceRequestPartition(Struct):
    """The batches for one partition, not looked into here."""

    index: Int32
    records: Records | None


@struct
class ProduceRequestTopic(Struct):
    """A topic by name (to v12) or by id."""

    name: String = until(12, default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partition_data: list[ProduceRequestPartition]


@message(api_key=ApiKey.PRODUCE, flexible=9)
class ProduceRequest(Message):
    """What to append; acks are 0 (none), 1 (the leader's) or -1 (of all in sync)."""

    transactional_id: String | None = None
    acks: Int16
    timeout_ms: Int32
    topic_data: list[ProduceRequestTopic]


@struct
class ProduceResponseRecordError(Struct):
    """A record because of which its batch was refused."""

    batch_index: Int32
    batch_index_error_message: String | None = None


@struct
class ProduceResponseCurrentLeader(Struct):
    """Who leads the partition instead."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class ProduceResponsePartition(Struct):
    """Where the batches went, or why they did not."""

    index: Int32
    error_code: Int16
    base_offset: Int64
    log_append_time_ms: Int64 = -1  # -1 with CreateTime
    log_start_offset: Int64 = since(5, default=-1)
    record_errors: list[ProduceResponseRecordError] = since(8, factory=list)
    error_message: String | None = since(8, default=None)
    current_leader: ProduceResponseCurrentLeader | None = since(
        10, tag=0, default=None, nullable_since=ABSENT_ONLY
    )


@struct
class ProduceResponseTopic(Struct):
    """The partitions of one topic, named as in the request."""

    name: String = until(12, default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partition_responses: list[ProduceResponsePartition]


@struct
class ProduceResponseNodeEndpoint(Struct):
    """Where to reach a leader the partitions name."""

    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(api_key=ApiKey.PRODUCE, flexible=9)
class ProduceResponse(Message):
    """One answer a partition."""

    responses: list[ProduceResponseTopic]
    throttle_time_ms: Int32 = 0
    node_endpoints: list[ProduceResponseNodeEndpoint] = since(10, tag=0, factory=list)
