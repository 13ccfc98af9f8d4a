"""Produce (API key 0): append record batches to partitions.

v0   message sets of magic 0
v1   throttle_time_ms (KIP-13)
v2   message sets of magic 1, log_append_time_ms (KIP-32)
v3   the first one of Kafka 4: record batches, transactional_id (KIP-98)
v4   the error may be KAFKA_STORAGE_ERROR (KIP-112)
v5   log_start_offset (KIP-107)
v6   the client itself waits for the throttle time (KIP-219)
v7   zstd compression (KIP-110)
v8   record_errors and error_message (KIP-467)
v9   flexible encoding (KIP-482)
v10  current_leader and node_endpoints (KIP-951)
v11  the error may be TRANSACTION_ABORTABLE (KIP-890)
v12  the broker adds the partitions to the transaction (KIP-890)
v13  topic_id in place of name (KIP-516)

A request with acks=0 has no response. ApiVersions announces v0 to v2 too
[framing/served-versions]; they are served as [framing/older-releases] says.
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
    """The record batches for one partition, not decoded."""

    index: Int32
    records: Records | None


@struct
class ProduceRequestTopic(Struct):
    """A topic: by name to v12, by id from v13 on."""

    name: String = until(12, default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partition_data: list[ProduceRequestPartition]


@message(api_key=ApiKey.PRODUCE, flexible=9)
class ProduceRequest(Message):
    """The batches to append.

    acks: 0 for no response, 1 to wait for the leader, -1 to wait for all replicas in sync.
    """

    transactional_id: String | None = since(3, default=None)
    acks: Int16
    timeout_ms: Int32
    topic_data: list[ProduceRequestTopic]


@struct
class ProduceResponseRecordError(Struct):
    """A record that caused its batch to be refused."""

    batch_index: Int32
    batch_index_error_message: String | None = None


@struct
class ProduceResponseCurrentLeader(Struct):
    """The present leader of the partition."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class ProduceResponsePartition(Struct):
    """The result for one partition.

    log_append_time_ms: -1 with CreateTime.
    """

    index: Int32
    error_code: Int16
    base_offset: Int64
    log_append_time_ms: Int64 = since(2, default=-1)
    log_start_offset: Int64 = since(5, default=-1)
    record_errors: list[ProduceResponseRecordError] = since(8, factory=list)
    error_message: String | None = since(8, default=None)
    current_leader: ProduceResponseCurrentLeader | None = since(
        10, tag=0, default=None, nullable_since=ABSENT_ONLY
    )


@struct
class ProduceResponseTopic(Struct):
    """The partitions of one topic, which is named as in the request."""

    name: String = until(12, default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partition_responses: list[ProduceResponsePartition]


@struct
class ProduceResponseNodeEndpoint(Struct):
    """The address of a leader that is named in `current_leader`."""

    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(api_key=ApiKey.PRODUCE, flexible=9)
class ProduceResponse(Message):
    """One result for each partition."""

    responses: list[ProduceResponseTopic]
    throttle_time_ms: Int32 = since(1, default=0)
    node_endpoints: list[ProduceResponseNodeEndpoint] = since(10, tag=0, factory=list)
