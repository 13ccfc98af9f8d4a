"""Fetch (API key 1): read record batches; wait up to `max_wait_ms` until there are `min_bytes`.

v0   message sets of magic 0
v1   throttle_time_ms (KIP-13)
v2   message sets of magic 1 (KIP-32)
v3   max_bytes (KIP-74)
v4   the first one of Kafka 4: record batches, isolation_level (KIP-98)
v5   log_start_offset (KIP-107)
v6   the error may be KAFKA_STORAGE_ERROR (KIP-112)
v7   fetch sessions (KIP-227)
v8   the client itself waits for the throttle time (KIP-219)
v9   current_leader_epoch (KIP-320)
v10  zstd compression (KIP-110)
v11  rack_id and preferred_read_replica (KIP-392)
v12  flexible encoding (KIP-482), last_fetched_epoch, diverging_epoch, snapshot_id (KIP-595)
v13  topic_id in place of topic (KIP-516)
v14  the error may be OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)
v15  replica_state in place of replica_id (KIP-903)
v16  node_endpoints (KIP-951)
v17  replica_directory_id (KIP-853)
v18  high_watermark of a follower (KIP-1166)

v0 to v3 are served as [framing/older-releases] says.
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    ABSENT_ONLY,
    ZERO_UUID,
    Int8,
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

# From a follower that does not send its high watermark.
HIGH_WATERMARK_UNSUPPORTED = 2**63 - 1


@struct
class FetchRequestReplicaState(Struct):
    """The follower that fetches; a consumer omits it."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@struct
class FetchRequestPartition(Struct):
    """The first offset to read of one partition, and the largest size.

    log_start_offset, replica_directory_id, high_watermark: sent by followers only.
    """

    partition: Int32
    current_leader_epoch: Int32 = since(9, default=-1)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = since(12, default=-1)
    log_start_offset: Int64 = since(5, default=-1)
    partition_max_bytes: Int32
    replica_directory_id: Uuid = since(17, tag=0, default=ZERO_UUID)
    high_watermark: Int64 = since(18, tag=1, default=HIGH_WATERMARK_UNSUPPORTED)


@struct
class FetchRequestTopic(Struct):
    """A topic: by name to v12, by id from v13 on."""

    topic: String = until(12, default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partitions: list[FetchRequestPartition]


@struct
class FetchRequestForgottenTopic(Struct):
    """Partitions to remove from the fetch session."""

    topic: String = until(12, default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partitions: list[Int32]


@message(api_key=ApiKey.FETCH, flexible=12)
class FetchRequest(Message):
    """The partitions to read; in a fetch session only those that changed."""

    cluster_id: String | None = since(12, tag=0, default=None)
    replica_id: Int32 = until(14, default=-1)
    replica_state: FetchRequestReplicaState | None = since(
        15, tag=1, default=None, nullable_since=ABSENT_ONLY
    )
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = since(3, default=0x7FFFFFFF)
    isolation_level: Int8 = since(4, default=0)
    session_id: Int32 = since(7, default=0)
    session_epoch: Int32 = since(7, default=-1)
    topics: list[FetchRequestTopic]
    forgotten_topics_data: list[FetchRequestForgottenTopic] = since(7, factory=list)
    rack_id: String = since(11, default="")


@struct
class FetchResponseDivergingEpoch(Struct):
    """The end of the part in which the follower's log agrees with the leader's."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class FetchResponseCurrentLeader(Struct):
    """The present leader of the partition."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class FetchResponseSnapshotId(Struct):
    """The snapshot to read instead of the log; only the metadata log has snapshots."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class FetchResponseAbortedTransaction(Struct):
    """An aborted transaction, whose records a reader with read_committed skips."""

    producer_id: Int64
    first_offset: Int64


@struct
class FetchResponsePartition(Struct):
    """The record batches of one partition, not decoded."""

    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Int64 = since(4, default=-1)
    log_start_offset: Int64 = since(5, default=-1)
    diverging_epoch: FetchResponseDivergingEpoch | None = since(
        12, tag=0, default=None, nullable_since=ABSENT_ONLY
    )
    current_leader: FetchResponseCurrentLeader | None = since(
        12, tag=1, default=None, nullable_since=ABSENT_ONLY
    )
    snapshot_id: FetchResponseSnapshotId | None = since(
        12, tag=2, default=None, nullable_since=ABSENT_ONLY
    )
    aborted_transactions: list[FetchResponseAbortedTransaction] | None = since(4, factory=list)
    preferred_read_replica: Int32 = since(11, default=-1)
    records: Records | None


@struct
class FetchResponseTopic(Struct):
    """The partitions of one topic, which is named as in the request."""

    topic: String = until(12, default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partitions: list[FetchResponsePartition]


@struct
class FetchResponseNodeEndpoint(Struct):
    """The address of a leader that is named in `current_leader`."""

    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(api_key=ApiKey.FETCH, flexible=12)
class FetchResponse(Message):
    """One result for each partition; in a fetch session only those that changed."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = since(7, default=0)
    session_id: Int32 = since(7, default=0)
    responses: list[FetchResponseTopic]
    node_endpoints: list[FetchResponseNodeEndpoint] = since(16, tag=0, factory=list)
