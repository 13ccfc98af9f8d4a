"""The tables that the pipeline writes, and their columns.

Bronze has the records as they were read, silver is decoded and typed, gold answers questions. Times
are microseconds UTC; `_ms` are durations. Unknown values are null [pipeline/unknown-is-null].
documentation/reference/pipeline_columns.tsv says what a row of each is, and what columns mean.
"""

from typing import NamedTuple

import pyarrow as pa

from coterie.pipeline import schemas
from coterie.pipeline.schemas import TIMESTAMP, list_of

BRONZE, SILVER, GOLD = "bronze", "silver", "gold"


class Table(NamedTuple):
    """One table.

    Attributes:
        name: its name, which is that of its directory.
        level: bronze, silver or gold.
        schema: its columns.
        grows: whether a run adds a part to it; otherwise a run replaces it.
    """

    name: str
    level: str
    schema: pa.Schema
    grows: bool = False


def _with_input(schema: pa.Schema) -> pa.Schema:
    """Return a view's columns after a column with the input of each row."""
    return pa.schema([pa.field("input", pa.string()), *schema])


_LOG_ENDS = pa.schema(
    [
        # The cluster of the topic; null if it is not known, as in a table for --log-ends.
        ("input", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("at_ts", TIMESTAMP),
        ("log_end_offset", pa.int64()),
    ]
)

_GROUP_EVENTS = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("at_ts", TIMESTAMP),
        ("group_id", pa.string()),
        ("fact", pa.string()),
        ("generation", pa.int32()),
        ("member_key", pa.string()),
        ("member_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("cause", pa.string()),
        ("reason", pa.string()),
        # The other fields of the fact as JSON.
        ("detail", pa.string()),
    ]
)

_REBALANCES = pa.schema(
    [
        ("group_id", pa.string()),
        ("protocol", pa.string()),
        ("from_generation", pa.int32()),
        ("to_generation", pa.int32()),
        ("generations", pa.int32()),
        ("skipped_generations", pa.int32()),
        ("started_ts", TIMESTAMP),
        ("completed_ts", TIMESTAMP),
        ("duration_ms", pa.int64()),
        ("join_ms", pa.int64()),
        ("sync_ms", pa.int64()),
        ("initial_delay_ms", pa.int64()),
        ("unowned_partition_ms", pa.int64()),
        ("trigger", pa.string()),
        ("trigger_member_key", pa.string()),
        ("trigger_member_id", pa.string()),
        ("trigger_client_id", pa.string()),
        ("trigger_client_host", pa.string()),
        # The same for all sessions of a client [pipeline/member-identity].
        ("trigger_identity", pa.string()),
        ("trigger_reason", pa.string()),
        ("subscription_change", pa.string()),
        ("joined", list_of(pa.string())),
        ("left", list_of(pa.string())),
        ("replaced", list_of(pa.string())),
        ("members", pa.int32()),
        ("partitions", pa.int32()),
        ("moved", pa.int32()),
        ("moved_min", pa.int32()),
        ("excess_moved", pa.int32()),
        # journal, log or inferred (`timeline.model.Evidence`).
        ("evidence", pa.string()),
        # classic, consumer or streams. The generations of the latter two are epochs, and the
        # partitions of a streams group are its tasks.
        ("group_type", pa.string()),
        # upgrade or downgrade: the group became one of the other type first.
        ("cut_off_by", pa.string()),
    ]
)

_PARTITION_MOVES = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("from_generation", pa.int32()),
        ("to_generation", pa.int32()),
        ("from_member_key", pa.string()),
        ("to_member_key", pa.string()),
        ("at_ts", TIMESTAMP),
        ("gap_ms", pa.int64()),
        ("committed_at_handover", pa.int64()),
    ]
)

_OWNERSHIP = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("member_key", pa.string()),
        ("generation", pa.int32()),
        ("from_ts", TIMESTAMP),
        ("to_ts", TIMESTAMP),
        # Of tasks of streams groups, whose `topic` is the subtopology: active, standby or warm-up.
        ("role", pa.string()),
        # The topics whose partition of this number an active task reads.
        ("reads", list_of(pa.string())),
    ]
)

_MEMBER_SESSIONS = pa.schema(
    [
        ("group_id", pa.string()),
        ("member_key", pa.string()),
        ("member_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        # The same for all sessions of a client [pipeline/member-identity].
        ("identity", pa.string()),
        ("first_seen_ts", TIMESTAMP),
        ("last_seen_ts", TIMESTAMP),
        ("entry_kind", pa.string()),
        ("exit_kind", pa.string()),
        ("exit_evidence", pa.string()),
        ("silent_ms", pa.int64()),
        ("session_timeout_ms", pa.int32()),
        ("rebalance_timeout_ms", pa.int32()),
        ("rebalances_caused", pa.int32()),
    ]
)

_EPOCH_BUMPS = pa.schema(
    [
        ("group_id", pa.string()),
        ("epoch", pa.int32()),
        ("at_ts", TIMESTAMP),
        ("cause", pa.string()),
        ("member_key", pa.string()),
        ("member_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("identity", pa.string()),
        ("members", pa.int32()),
        ("target_ts", TIMESTAMP),
        ("assignor", pa.string()),
        ("changed_members", pa.int32()),
        ("moved_partitions", pa.int32()),
        ("stable_ts", TIMESTAMP),
        ("stable_ms", pa.int64()),
        ("evidence", pa.string()),
    ]
)

_EPOCH_HANDOVERS = pa.schema(
    [
        ("group_id", pa.string()),
        ("epoch", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("from_member_key", pa.string()),
        ("to_member_key", pa.string()),
        ("asked_ts", TIMESTAMP),
        ("noticed_ts", TIMESTAMP),
        ("given_up_ts", TIMESTAMP),
        ("taken_ts", TIMESTAMP),
        ("give_up_ms", pa.int64()),
        ("take_over_ms", pa.int64()),
        ("ended_by", pa.string()),
    ]
)

_EPOCH_MEMBERS = pa.schema(
    [
        ("group_id", pa.string()),
        ("member_key", pa.string()),
        ("member_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("identity", pa.string()),
        ("is_classic", pa.bool_()),
        ("topics", list_of(pa.string())),
        ("regex", pa.string()),
        ("server_assignor", pa.string()),
        ("group_epoch", pa.int32()),
        ("target_epoch", pa.int32()),
        ("member_epoch", pa.int32()),
        ("previous_epoch", pa.int32()),
        ("state", pa.string()),
        ("since_ts", TIMESTAMP),
        ("target", list_of(schemas.HELD)),
        ("assigned", list_of(schemas.HELD)),
        ("pending_revocation", list_of(schemas.HELD)),
        # consumer or streams.
        ("group_type", pa.string()),
        # Of a member of a streams group.
        ("process_id", pa.string()),
    ]
)

_COMMIT_VELOCITY = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("window_start_ts", TIMESTAMP),
        ("commits", pa.int64()),
        ("advance", pa.int64()),
        ("rewinds", pa.int64()),
        ("last_offset", pa.int64()),
    ]
)

_LAG = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("window_start_ts", TIMESTAMP),
        ("committed_offset", pa.int64()),
        ("log_end_offset", pa.int64()),
        ("lag", pa.int64()),
        ("time_lag_ms", pa.int64()),
        ("stalled", pa.bool_()),
    ]
)

_LOG_HEALTH = pa.schema(
    [
        ("input", pa.string()),
        ("log_partition", pa.int32()),
        ("segment_base", pa.int64()),
        ("records", pa.int64()),
        ("keys", pa.int64()),
        ("duplicate_ratio", pa.float64()),
        ("tombstones", pa.int64()),
        ("batches", pa.int64()),
        ("horizon_batches", pa.int64()),
        ("quarantined", pa.int64()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("bytes", pa.int64()),
    ]
)

_ANOMALIES = pa.schema(
    [
        ("rule", pa.string()),
        ("severity", pa.string()),
        ("group_id", pa.string()),
        ("window_start_ts", TIMESTAMP),
        ("window_end_ts", TIMESTAMP),
        # The moment to show first: the costliest rebalance, or when it began.
        ("at_ts", TIMESTAMP),
        ("subject", pa.string()),
        ("value", pa.float64()),
        ("evidence", pa.string()),
        # Partition-seconds times lag [pipeline/cost].
        ("cost", pa.float64()),
        # The groups of a finding across groups, whose group_id is null.
        ("groups", list_of(pa.string())),
        # 1 is the first in the order of [pipeline/ranking].
        ("rank", pa.int32()),
        # Of an outage the times in which nothing was recorded of any group.
        ("silent_from_ts", list_of(TIMESTAMP)),
        ("silent_to_ts", list_of(TIMESTAMP)),
        # For each of `groups` when its members were replaced, or when it rebalanced.
        ("groups_at_ts", list_of(TIMESTAMP)),
    ]
)

_SHARE_DELIVERIES = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("at_ts", TIMESTAMP),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("records", pa.int64()),
        # AVAILABLE, ACKNOWLEDGED or ARCHIVED.
        ("became", pa.string()),
        ("delivery_count", pa.int16()),
        # accepted, released, lock timeout, rejected or delivery limit [pipeline/deliveries].
        ("ended_by", pa.string()),
        ("member_id", pa.string()),
    ]
)

_SHARE_PARTITIONS = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("start_offset", pa.int64()),
        # Since when it is there, and the last time at which a delivery ended.
        ("start_ts", TIMESTAMP),
        ("last_ts", TIMESTAMP),
        # The records behind it that are done with, and those that wait for another delivery.
        ("complete", pa.int64()),
        ("waiting", pa.int64()),
        ("most_deliveries", pa.int16()),
        # Deliveries since the records begin, counted by record.
        ("accepted", pa.int64()),
        ("released", pa.int64()),
        ("timed_out", pa.int64()),
        ("given_up", pa.int64()),
        ("delivered_again", pa.int64()),
    ]
)

_POISON_RECORDS = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("record_offset", pa.int64()),
        ("delivery_count", pa.int16()),
        ("became", pa.string()),
        ("ended_by", pa.string()),
        ("first_ts", TIMESTAMP),
        ("last_ts", TIMESTAMP),
    ]
)

_GENERATIONS = pa.schema(
    # A rewrite has the number of the generation before it [pipeline/static-restart].
    [*schemas.GROUPS, pa.field("is_rewrite", pa.bool_())]
)

_ALL = (
    Table(
        "log_records",
        BRONZE,
        _with_input(schemas.RAW),
        grows=True,
    ),
    Table(
        "journal_records",
        BRONZE,
        _with_input(schemas.RAW),
        grows=True,
    ),
    Table(
        "share_state_records",
        BRONZE,
        _with_input(schemas.RAW),
        grows=True,
    ),
    Table(
        "quarantine",
        BRONZE,
        _with_input(schemas.QUARANTINE),
        grows=True,
    ),
    Table("log_ends", BRONZE, _LOG_ENDS, grows=True),
    Table(
        "offset_commits",
        SILVER,
        schemas.COMMITS,
        grows=True,
    ),
    Table("group_generations", SILVER, _GENERATIONS),
    Table(
        "group_events",
        SILVER,
        _GROUP_EVENTS,
        grows=True,
    ),
    Table(
        "consumer_epochs",
        SILVER,
        schemas.CONSUMER_EPOCHS,
        grows=True,
    ),
    Table(
        "share_states",
        SILVER,
        schemas.SHARE_STATES,
        grows=True,
    ),
    Table("ownership", SILVER, _OWNERSHIP),
    Table("rebalances", GOLD, _REBALANCES),
    Table("partition_moves", GOLD, _PARTITION_MOVES),
    Table("member_sessions", GOLD, _MEMBER_SESSIONS),
    Table(
        "epoch_bumps",
        GOLD,
        _EPOCH_BUMPS,
    ),
    Table(
        "epoch_handovers",
        GOLD,
        _EPOCH_HANDOVERS,
    ),
    Table(
        "epoch_members",
        GOLD,
        _EPOCH_MEMBERS,
    ),
    Table(
        "share_deliveries",
        GOLD,
        _SHARE_DELIVERIES,
    ),
    Table(
        "share_partitions",
        GOLD,
        _SHARE_PARTITIONS,
    ),
    Table(
        "poison_records",
        GOLD,
        _POISON_RECORDS,
    ),
    Table("commit_velocity_1m", GOLD, _COMMIT_VELOCITY),
    Table("lag_1m", GOLD, _LAG),
    Table("log_health", GOLD, _LOG_HEALTH),
    Table("anomalies", GOLD, _ANOMALIES),
)

TABLES: dict[str, Table] = {table.name: table for table in _ALL}


def with_input(source: str, table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of a view as rows of a bronze table, with the input as first column.

    Args:
        source: the name of the input.
        table: log_records, journal_records, share_state_records or quarantine.
        rows: rows of the view of that table.
    """
    columns = [pa.repeat(source, rows.num_rows), *rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=TABLES[table].schema)
