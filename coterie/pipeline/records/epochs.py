"""The records of KIP-848 groups, and of the groups that follow epochs as they do.

Seven kinds of records contain the whole course of a KIP-848 group: members that join, change and
leave; the group's epoch; the target assignment; how far each member has followed it; the topics
that patterns match; and, of brokers before Kafka 4.1, the topics of the group. Topics are named by
their ids [pipeline/topic-ids]. The records of streams groups are rows of the same columns, with
tasks in place of partitions (streams.py).
"""

from collections.abc import Callable
from typing import Any

from coterie.pipeline.records import partition_rows, shares, streams, target_columns
from coterie.protocol.messages import consumer_group_records as records
from coterie.protocol.messages.log_records import GROUP_RECORDS, decode_key, decode_value
from coterie.protocol.messages.record_types import UnknownKey

_MEMBER_STATES = ("Stable", "UnrevokedPartitions", "UnreleasedPartitions")

_Fields = Callable[[Any], dict[str, Any]]


def _group(value: records.ConsumerGroupMetadataValue) -> dict[str, Any]:
    return {"group_epoch": value.epoch, "metadata_hash": value.metadata_hash or None}


def _topics(value: records.ConsumerGroupPartitionMetadataValue) -> dict[str, Any]:
    return {"topics": [topic.topic_name for topic in value.topics]}


def _member(value: records.ConsumerGroupMemberMetadataValue) -> dict[str, Any]:
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "topics": value.subscribed_topic_names,
        "regex": value.subscribed_topic_regex,
        "rebalance_timeout_ms": (
            None if value.rebalance_timeout_ms < 0 else value.rebalance_timeout_ms
        ),
        "server_assignor": value.server_assignor,
        "is_classic_member": value.classic_member_metadata is not None,
    }


def _target_member(value: records.ConsumerGroupTargetAssignmentMemberValue) -> dict[str, Any]:
    return {"assigned": partition_rows(value.topic_partitions)}


def _current_member(value: records.ConsumerGroupCurrentMemberAssignmentValue) -> dict[str, Any]:
    known = 0 <= value.state < len(_MEMBER_STATES)
    return {
        "member_epoch": value.member_epoch,
        "previous_epoch": value.previous_member_epoch,
        "state": _MEMBER_STATES[value.state] if known else str(value.state),
        "assigned": partition_rows(value.assigned_partitions),
        "pending_revocation": partition_rows(value.partitions_pending_revocation),
    }


def _regex(value: records.ConsumerGroupRegularExpressionValue) -> dict[str, Any]:
    return {"topics": value.topics}


# By record type the kind, and the function for the columns of the value [group-log/record-types].
KINDS: dict[int, tuple[str, _Fields]] = {
    3: ("group", _group),
    4: ("topics", _topics),
    5: ("member", _member),
    6: ("target", target_columns),
    7: ("target_member", _target_member),
    8: ("current_member", _current_member),
    16: ("regex", _regex),
    **shares.KINDS,
    **streams.KINDS,
}


def epoch_fields(key: bytes, value: bytes | None) -> dict[str, Any]:
    """Return the columns of one record that come from its key and value.

    Raises:
        MalformedFrame: the key or the value does not match its type and version.
    """
    decoded = decode_key(key)
    assert not isinstance(decoded, UnknownKey), "selected by its record type"
    fields: Any = decoded
    record_type = GROUP_RECORDS.type_of(decoded).number
    kind, columns_of = KINDS[record_type]
    row: dict[str, Any] = {
        "group_id": fields.group_id,
        "record_type": record_type,
        "kind": kind,
        "is_tombstone": value is None,
        "member_id": getattr(fields, "member_id", None),
        "regex": getattr(fields, "regular_expression", None),
    }
    if value is None:
        return row
    return row | columns_of(decode_value(decoded, value))
