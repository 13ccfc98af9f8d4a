"""The records of share groups: those of members and epochs, and those of share partitions.

The former are in `__consumer_offsets`, and have the kinds of KIP-848 groups, with one more: which
partitions have a share state. The latter are in `__share_group_state`.
"""

from collections.abc import Callable, Iterable
from typing import Any

from coterie.pipeline.records import partition_rows, target_columns, timestamp_us, topic_id_text
from coterie.protocol.messages import share_group_records as records
from coterie.protocol.messages.record_types import UnknownKey
from coterie.protocol.messages.share_state_batch import ShareStateBatch
from coterie.protocol.messages.share_state_records import (
    SHARE_STATE_RECORDS,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateValue,
)

STABLE = "Stable"
# The names of the numbers that are persisted [share-partitions/record-states].
_STATES = {0: "AVAILABLE", 2: "ACKNOWLEDGED", 4: "ARCHIVED"}

_Fields = Callable[[Any], dict[str, Any]]


def _member(value: records.ShareGroupMemberMetadataValue) -> dict[str, Any]:
    return {
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "topics": value.subscribed_topic_names,
    }


def _group(value: records.ShareGroupMetadataValue) -> dict[str, Any]:
    return {"group_epoch": value.epoch, "metadata_hash": value.metadata_hash or None}


def _target_member(value: records.ShareGroupTargetAssignmentMemberValue) -> dict[str, Any]:
    return {"assigned": partition_rows(value.topic_partitions)}


def _current_member(value: records.ShareGroupCurrentMemberAssignmentValue) -> dict[str, Any]:
    return {
        "member_epoch": value.member_epoch,
        "previous_epoch": value.previous_member_epoch,
        # A member takes its target at once, so there is no other state.
        "state": str(value.state) if value.state else STABLE,
        "assigned": partition_rows(value.assigned_partitions),
        "pending_revocation": [],
    }


def _with_state(value: records.ShareGroupStatePartitionMetadataValue) -> dict[str, Any]:
    return {
        "initializing": _named(value.initializing_topics),
        "initialized": _named(value.initialized_topics),
        "deleting": [topic_id_text(topic.topic_id) for topic in value.deleting_topics],
    }


# By record type the kind, and the function for the columns of the value [group-log/record-types].
KINDS: dict[int, tuple[str, _Fields]] = {
    10: ("member", _member),
    11: ("group", _group),
    12: ("target", target_columns),
    13: ("target_member", _target_member),
    14: ("current_member", _current_member),
    15: ("share_states", _with_state),
}


def share_state_fields(key: bytes, value: bytes | None) -> dict[str, Any]:
    """Return the columns of one record of `__share_group_state`.

    Raises:
        MalformedFrame: the key or the value does not match its type and version.
    """
    decoded = SHARE_STATE_RECORDS.decode_key(key)
    assert not isinstance(decoded, UnknownKey), "selected by its record type"
    fields: Any = decoded
    row: dict[str, Any] = {
        "group_id": fields.group_id,
        "topic_id": topic_id_text(fields.topic_id),
        "partition": fields.partition,
        "kind": "snapshot" if isinstance(decoded, ShareSnapshotKey) else "update",
        "is_tombstone": value is None,
    }
    found = SHARE_STATE_RECORDS.decode_value(decoded, value)
    if not isinstance(found, ShareSnapshotValue | ShareUpdateValue):
        return row
    row |= {
        "snapshot_epoch": found.snapshot_epoch,
        "leader_epoch": _known(found.leader_epoch),
        "start_offset": _known(found.start_offset),
        "complete_count": _known(found.delivery_complete_count),
        "batches": [_batch(each) for each in found.state_batches],
    }
    if isinstance(found, ShareSnapshotValue):
        row |= {
            "state_epoch": found.state_epoch,
            "created_ts": timestamp_us(found.create_timestamp),
            "written_ts": timestamp_us(found.write_timestamp),
        }
    return row


def _batch(batch: ShareStateBatch) -> dict[str, Any]:
    return {
        "first_offset": batch.first_offset,
        "last_offset": batch.last_offset,
        "state": _STATES.get(batch.delivery_state, str(batch.delivery_state)),
        "delivery_count": batch.delivery_count,
    }


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _named(topics: Iterable[records.ShareStateTopicPartitions]) -> list[dict[str, Any]]:
    return [
        {"topic": topic.topic_name} | partition
        for topic in topics
        for partition in partition_rows([topic])
    ]
