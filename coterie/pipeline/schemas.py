"""The columns of every view of a log, declared once as Arrow schemas.

The Spark schemas are derived from them, because Spark accepts Arrow batches only with exactly its
own types (4.2 and 4.3: timestamps in microseconds UTC, 64-bit integers, plain strings and binaries,
list items named `element`); it does not check UTF-8. Spark is imported only when a Spark schema is
needed. Fields that a record does not carry are null [pipeline/unknown-is-null].
"""

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

TIMESTAMP = pa.timestamp("us", tz="UTC")


def list_of(item: pa.DataType) -> pa.DataType:
    """Return a list type with the item name that Spark uses."""
    return pa.list_(pa.field("element", item))


# A partition by topic name (classic groups) and by topic id (KIP-848 groups).
TOPIC_PARTITION = pa.struct([("topic", pa.string()), ("partition", pa.int32())])
TOPIC_ID_PARTITION = pa.struct([("topic_id", pa.string()), ("partition", pa.int32())])
# Share groups record both.
NAMED_PARTITION = pa.struct([("topic", pa.string()), *TOPIC_ID_PARTITION])

# A task of a streams group; its role is active, standby or warm-up.
TASK = pa.struct([("subtopology", pa.string()), ("partition", pa.int32()), ("role", pa.string())])
# What a member has: a partition, or a task with its subtopology as the topic; the role is null for
# partitions.
HELD = pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("role", pa.string())])
SUBTOPOLOGY = pa.struct([("subtopology", pa.string()), ("topics", list_of(pa.string()))])

# The position and time of a record. Every view of records begins with these columns.
_PLACE = [
    ("log_partition", pa.int32()),
    ("log_offset", pa.int64()),
    ("record_ts", TIMESTAMP),
]

RAW = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("batch_base_offset", pa.int64()),
        ("record_ts", TIMESTAMP),
        ("leader_epoch", pa.int32()),
        # Of a transaction, which counts only if its marker says commit (view `markers`).
        ("producer_id", pa.int64()),
        # The attribute bits of the batch: compression, append time, transaction, control, horizon.
        ("attributes", pa.int16()),
        # Null for transaction markers, and for keys too short to have a type.
        ("key_type", pa.int16()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("segment_base", pa.int64()),
    ]
)

COMMITS = pa.schema(
    [
        *_PLACE,
        ("producer_id", pa.int64()),
        ("is_transactional", pa.bool_()),
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("committed_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_ts", TIMESTAMP),
        ("expire_ts", TIMESTAMP),
        ("key_type", pa.int16()),
        ("value_version", pa.int16()),
        ("is_tombstone", pa.bool_()),
    ]
)

MEMBER = pa.struct(
    [
        ("member_id", pa.string()),
        ("instance_id", pa.string()),
        # The identity across restarts [pipeline/member-identity].
        ("member_key", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("session_timeout_ms", pa.int32()),
        ("rebalance_timeout_ms", pa.int32()),
        # From the metadata of protocol type "consumer"; null for other types. `assigned` also has
        # the tasks of Connect workers, with the connector as the topic [pipeline/connect-tasks].
        ("topics", list_of(pa.string())),
        ("owned", list_of(TOPIC_PARTITION)),
        ("owned_generation", pa.int32()),
        ("rack_id", pa.string()),
        ("assigned", list_of(TOPIC_PARTITION)),
    ]
)

GROUPS = pa.schema(
    [
        *_PLACE,
        ("group_id", pa.string()),
        ("generation", pa.int32()),
        ("protocol_type", pa.string()),
        ("protocol", pa.string()),
        ("leader", pa.string()),
        # Stable, Empty, or Dead for a tombstone. Other states are never logged.
        ("state", pa.string()),
        ("state_ts", TIMESTAMP),
        ("members", list_of(MEMBER)),
        ("value_version", pa.int16()),
        ("is_tombstone", pa.bool_()),
    ]
)

CONSUMER_EPOCHS = pa.schema(
    [
        *_PLACE,
        ("group_id", pa.string()),
        ("record_type", pa.int16()),
        # group, topics, member, target, target_member, current_member, regex or topology;
        # share_states of a share group.
        ("kind", pa.string()),
        ("is_tombstone", pa.bool_()),
        ("group_epoch", pa.int32()),
        ("metadata_hash", pa.int64()),
        ("target_epoch", pa.int32()),
        ("target_ts", TIMESTAMP),
        ("member_id", pa.string()),
        ("instance_id", pa.string()),
        ("rack_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("rebalance_timeout_ms", pa.int32()),
        ("server_assignor", pa.string()),
        ("is_classic_member", pa.bool_()),
        ("topics", list_of(pa.string())),
        ("regex", pa.string()),
        ("member_epoch", pa.int32()),
        ("previous_epoch", pa.int32()),
        ("state", pa.string()),
        ("assigned", list_of(TOPIC_ID_PARTITION)),
        ("pending_revocation", list_of(TOPIC_ID_PARTITION)),
        # Of streams groups (KIP-1071); of a group the validated epoch of its topology.
        ("topology_epoch", pa.int32()),
        ("standby_replicas", pa.int32()),
        ("process_id", pa.string()),
        ("endpoint", pa.string()),
        ("client_tags", list_of(pa.string())),
        ("assigned_tasks", list_of(TASK)),
        ("pending_tasks", list_of(TASK)),
        # The topics whose partitions the tasks read.
        ("subtopologies", list_of(SUBTOPOLOGY)),
        # The partitions whose share state is being made, or exists; the topics whose is deleted.
        ("initializing", list_of(NAMED_PARTITION)),
        ("initialized", list_of(NAMED_PARTITION)),
        ("deleting", list_of(pa.string())),
    ]
)

# Records of a share partition that share a state [share-partitions/record-states].
STATE_BATCH = pa.struct(
    [
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        # AVAILABLE, ACKNOWLEDGED or ARCHIVED.
        ("state", pa.string()),
        ("delivery_count", pa.int16()),
    ]
)

SHARE_STATES = pa.schema(
    [
        *_PLACE,
        ("group_id", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        # snapshot or update.
        ("kind", pa.string()),
        ("is_tombstone", pa.bool_()),
        ("snapshot_epoch", pa.int32()),
        ("state_epoch", pa.int32()),
        ("leader_epoch", pa.int32()),
        # Null in an update that keeps it, and before a leader has chosen it.
        ("start_offset", pa.int64()),
        # The records behind it that are done with.
        ("complete_count", pa.int32()),
        ("created_ts", TIMESTAMP),
        ("written_ts", TIMESTAMP),
        ("batches", list_of(STATE_BATCH)),
    ]
)

# The members of a generation in the journal.
JOURNAL_MEMBER = pa.struct(
    [
        *[MEMBER.field(index) for index in range(MEMBER.num_fields)],
        # From the beginning of the rebalance to its JoinGroup; null if it did not rejoin.
        ("joined_after_ms", pa.int64()),
    ]
)
EXPIRED_OFFSET = pa.struct(
    [("topic", pa.string()), ("partition", pa.int32()), ("committed_offset", pa.int64())]
)

# Records that a member of a share group had and has not processed.
FAILED_DELIVERY = pa.struct(
    [
        ("member_id", pa.string()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("delivery_count", pa.int16()),
        ("given_up", pa.bool_()),
    ]
)

# One row per fact. Columns have the names of the fields in protocol/messages/journal_records.py,
# consumer_group_facts.py, offset_facts.py and share_facts.py; a column is null for facts without
# that field.
JOURNAL = pa.schema(
    [
        *_PLACE,
        ("record_type", pa.int16()),
        ("event", pa.string()),
        # Null for facts about a partition.
        ("group_id", pa.string()),
        ("at_ts", TIMESTAMP),
        # Which of several brokers coordinated the group; null for the only one.
        ("node_id", pa.int32()),
        ("cause", pa.string()),
        ("generation_id", pa.int32()),
        ("previous_state", pa.string()),
        ("state", pa.string()),
        ("member_id", pa.string()),
        ("group_instance_id", pa.string()),
        ("old_member_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("client_software_name", pa.string()),
        ("client_software_version", pa.string()),
        ("principal", pa.string()),
        ("reason", pa.string()),
        ("subscription_change", pa.string()),
        ("requester_client_id", pa.string()),
        ("requester_host", pa.string()),
        ("requester_principal", pa.string()),
        ("member_count", pa.int32()),
        ("session_timeout_ms", pa.int32()),
        ("rebalance_timeout_ms", pa.int32()),
        ("timeout_ms", pa.int32()),
        ("initial_delay_ms", pa.int32()),
        ("wait_ms", pa.int32()),
        ("protocols", list_of(pa.string())),
        ("protocol_type", pa.string()),
        ("protocol_name", pa.string()),
        ("leader", pa.string()),
        ("was_leader", pa.bool_()),
        ("rebalances", pa.bool_()),
        ("holder", pa.string()),
        ("request", pa.string()),
        ("last_heard_ts", TIMESTAMP),
        ("began_ts", TIMESTAMP),
        ("join_ms", pa.int64()),
        ("sync_ms", pa.int64()),
        ("ended_by", pa.string()),
        ("members", list_of(JOURNAL_MEMBER)),
        ("expired", list_of(EXPIRED_OFFSET)),
        ("offset_count", pa.int32()),
        ("offsets_partition", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("group_count", pa.int32()),
        # Of consumer groups (KIP-848).
        ("epoch", pa.int32()),
        ("previous_epoch", pa.int32()),
        ("assignor", pa.string()),
        ("changed_members", pa.int32()),
        ("moved_partitions", pa.int32()),
        ("added", pa.int32()),
        ("revoked", pa.int32()),
        ("state_ms", pa.int64()),
        ("converged_ms", pa.int64()),
        ("group_type", pa.string()),
        ("previous_type", pa.string()),
        ("regex", pa.string()),
        ("topic_count", pa.int32()),
        ("gained", pa.int32()),
        ("lost", pa.int32()),
        ("error_code", pa.int16()),
        ("said_epoch", pa.int32()),
        ("known_epoch", pa.int32()),
        ("kept_ms", pa.int64()),
        # Of share groups: where deliveries failed.
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("deliveries", list_of(FAILED_DELIVERY)),
    ]
)

BATCHES = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("segment_base", pa.int64()),
        ("position", pa.int64()),
        ("length_bytes", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("magic", pa.int8()),
        ("compression", pa.int8()),
        ("attributes", pa.int16()),
        ("is_transactional", pa.bool_()),
        ("is_control", pa.bool_()),
        ("has_delete_horizon", pa.bool_()),
        # With a delete horizon the base timestamp is that horizon (KAFKA-8522).
        ("base_ts", TIMESTAMP),
        ("max_ts", TIMESTAMP),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("base_sequence", pa.int32()),
        ("record_count", pa.int32()),
    ]
)

MARKERS = pa.schema(
    [
        *_PLACE,
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("is_commit", pa.bool_()),
        ("coordinator_epoch", pa.int32()),
    ]
)

QUARANTINE = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("file", pa.string()),
        # The first damaged byte, or the batch that contains the damaged record.
        ("position", pa.int64()),
        ("length_bytes", pa.int64()),
        ("log_offset", pa.int64()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        # At most the first MiB; `length_bytes` has the whole length.
        ("bytes", pa.binary()),
    ]
)

VIEWS: dict[str, pa.Schema] = {
    "raw": RAW,
    "commits": COMMITS,
    "groups": GROUPS,
    "consumer_epochs": CONSUMER_EPOCHS,
    "share_states": SHARE_STATES,
    "journal": JOURNAL,
    "batches": BATCHES,
    "markers": MARKERS,
    "quarantine": QUARANTINE,
}


def spark_schema(schema: pa.Schema) -> "StructType":
    """Return the Spark schema whose Arrow form is exactly this one.

    Raises:
        TypeError: the schema has a type that no view uses.
    """
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, _spark_type(field.type)) for field in schema])


def _spark_type(arrow: pa.DataType) -> "DataType":
    from pyspark.sql import types

    if pa.types.is_list(arrow):
        return types.ArrayType(_spark_type(arrow.value_type))
    if pa.types.is_struct(arrow):
        return types.StructType(
            [types.StructField(field.name, _spark_type(field.type)) for field in arrow]
        )
    simple: dict[pa.DataType, DataType] = {
        pa.bool_(): types.BooleanType(),
        pa.int8(): types.ByteType(),
        pa.int16(): types.ShortType(),
        pa.int32(): types.IntegerType(),
        pa.int64(): types.LongType(),
        pa.float64(): types.DoubleType(),
        pa.string(): types.StringType(),
        pa.binary(): types.BinaryType(),
        TIMESTAMP: types.TimestampType(),
    }
    if arrow not in simple:
        raise TypeError(f"the Arrow type {arrow} has no Spark type here")
    return simple[arrow]
