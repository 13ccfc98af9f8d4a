"""Fetch (api key 1): read record batches, waiting for `min_bytes` up to `max_wait_ms`.

v4   the first one served: message format v2, isolation_level (KIP-98)
v5   log_start_offset (KIP-107)
v6   may answer KAFKA_STORAGE_ERROR (KIP-112)
v7   fetch sessions (KIP-227)
v8   clients throttle themselves (KIP-219)
v9   current_leader_epoch (KIP-320)
v10  zstd (KIP-110)
v11  rack_id and preferred_read_replica (KIP-392)
v12  flexible (KIP-482), last_fetched_epoch and what answers it (KIP-595)
v13  topic ids in place of names (KIP-516)
v14  may answer OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)
v15  replica_state in place of replica_id (KIP-903)
v16  node_endpoints (KIP-951)
v17  replica_directory_id (KIP-853)
v18  high_watermark (KIP-1166)
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

HIGH_WATERMARK_UNSUPPORTED = 2**63 - 1  # v18: the follower does not tell


@struct
class FetchRequestReplicaState(Struct):
    """Which follower asks; a consumer leaves it out."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@struct
class FetchRequestPartition(Struct):
    """From where to read one partition, and how much at most."""

    partition: Int32
    current_leader_epoch: Int32 = since(9, default=-1)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = since(12, default=-1)
    log_start_offset: Int64 = since(5, default=-1)  # followers only
    partition_max_bytes: Int32
    replica_directory_id: Uuid = since(17, tag=0, default=ZERO_UUID)
    high_watermark: Int64 = since(18, tag=1, default=HIGH_WATERMARK_UNSUPPORTED)


@struct
class FetchRequestTopic(Struct):
    """A topic by name (to v12) or by id."""

    topic: String = until(12, default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partitions: list[FetchRequestPartition]


@struct
class FetchRequestForgottenTopic(Struct):
    """Partitions that leave the fetch session."""

    topic: String = until(12, default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partitions: list[Int32]


@message(api_key=ApiKey.FETCH, flexible=12)
class FetchRequest(Message):
    """What to read; in a session only what changed since the last time."""

    cluster_id: String | None = since(12, tag=0, default=None)
    replica_id: Int32 = until(14, default=-1)
    replica_state: FetchRequestReplicaState | None = since(
        15, tag=1, default=None, nullable_since=ABSENT_ONLY
    )
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 0x7FFFFFFF
    isolation_level: Int8 = 0
    session_id: Int32 = since(7, default=0)
    session_epoch: Int32 = since(7, default=-1)
    topics: list[FetchRequestTopic]
    forgotten_topics_data: list[FetchRequestForgottenTopic] = since(7, factory=list)
    rack_id: String = since(11, default="")


@struct
class FetchResponseDivergingEpoch(Struct):
    """Up to where the reader's log agrees with the leader's."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class FetchResponseCurrentLeader(Struct):
    """Who leads the partition instead."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class FetchResponseSnapshotId(Struct):
    """The snapshot to read instead of the log; of the metadata log only."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class FetchResponseAbortedTransaction(Struct):
    """A transaction whose records a reader of committed ones leaves out."""

    producer_id: Int64
    first_offset: Int64


@struct
class FetchResponsePartition(Struct):
    """The batches of one partition, not looked into here."""

    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Int64 = -1
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
    aborted_transactions: list[FetchResponseAbortedTransaction] | None
    preferred_read_replica: Int32 = since(11, default=-1)
    records: Records | None


@struct
class FetchResponseTopic(Struct):
    """The partitions of one topic, named as in the request."""

    topic: String = until(12, default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partitions: list[FetchResponsePartition]


@struct
class FetchResponseNodeEndpoint(Struct):
    """Where to reach a leader the partitions name."""

    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(api_key=ApiKey.FETCH, flexible=12)
class FetchResponse(Message):
    """The partitions with something to tell."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(7, default=0)
    session_id: Int32 = since(7, default=0)
    responses: list[FetchResponseTopic]
    node_endpoints: list[FetchResponseNodeEndpoint] = since(16, tag=0, factory=list)
