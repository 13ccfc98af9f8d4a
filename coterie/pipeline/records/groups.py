"""Generations of classic groups, with their members' subscriptions.

Only the end of a rebalance is logged [group-log/logged-changes], so these records are rare beside
commits, and `protocol` decodes them one by one.
"""

from collections.abc import Iterable
from typing import Any

from coterie.pipeline.records import timestamp_us
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages import connect_protocol
from coterie.protocol.messages.consumer_protocol import (
    TopicPartition,
    decode_assignment,
    decode_subscription,
)
from coterie.protocol.messages.journal_records import GenerationMember
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataMember,
    decode_key,
    decode_value,
)

KEY_TYPE = 2

CONSUMER = "consumer"


def group_fields(key: bytes, value: bytes | None) -> dict[str, Any]:
    """Return the columns of one generation that come from its key and value.

    Raises:
        MalformedFrame: the key or the value does not match its type and version.
    """
    decoded = decode_key(key)
    assert isinstance(decoded, GroupMetadataKey), "selected by its record type"
    group = decode_value(decoded, value)
    if group is None:
        return {"group_id": decoded.group, "state": "Dead", "is_tombstone": True}
    assert value is not None, "only a tombstone has no value"
    return {
        "group_id": decoded.group,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "state": "Stable" if group.members else "Empty",
        "state_ts": timestamp_us(group.current_state_timestamp),
        "members": [_member(member, group.protocol_type) for member in group.members],
        "value_version": int.from_bytes(value[:2], signed=True),
        "is_tombstone": False,
    }


def _member(member: GroupMetadataMember, protocol_type: str | None) -> dict[str, Any]:
    return member_fields(member, protocol_type) | {
        "session_timeout_ms": member.session_timeout,
        # Before version 1 the rebalance timeout was the session timeout [group-log/group-value].
        "rebalance_timeout_ms": (
            member.session_timeout if member.rebalance_timeout < 0 else member.rebalance_timeout
        ),
    }


def member_fields(
    member: GroupMetadataMember | GenerationMember, protocol_type: str | None
) -> dict[str, Any]:
    """Return the columns that the group log and the journal have of a member.

    Args:
        member: the member of a generation.
        protocol_type: that of the group; it says what the member's bytes are.
    """
    row: dict[str, Any] = {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "member_key": member.group_instance_id or member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "topics": None,
        "owned": None,
        "assigned": None,
    }
    if protocol_type == CONSUMER:
        row |= _consumer_fields(member.subscription, member.assignment)
    elif protocol_type == connect_protocol.PROTOCOL_TYPE:
        row |= _worker_fields(member.subscription, member.assignment)
    return row


def _consumer_fields(subscription: bytes, assignment: bytes) -> dict[str, Any]:
    """Return the columns that come from a member's bytes of protocol type "consumer".

    Clients may put other bytes there. If they cannot be decoded, the columns are null; the group's
    row is valid nevertheless.
    """
    row: dict[str, Any] = {}
    try:
        decoded = decode_subscription(subscription)
    except MalformedFrame:
        pass
    else:
        row |= {
            "topics": decoded.topics,
            "owned": _partitions(decoded.owned_partitions),
            "owned_generation": None if decoded.generation_id < 0 else decoded.generation_id,
            "rack_id": decoded.rack_id,
        }
    if not assignment:
        return row | {"assigned": []}
    try:
        row["assigned"] = _partitions(decode_assignment(assignment).assigned_partitions)
    except MalformedFrame:
        row["assigned"] = None
    return row


def _worker_fields(metadata: bytes, assignment: bytes) -> dict[str, Any]:
    """Return the columns of a worker of Kafka Connect [pipeline/connect-tasks]."""
    try:
        worker = connect_protocol.decode_worker(metadata, assignment)
    except MalformedFrame:
        return {}
    tasks = [
        {"topic": connector, "partition": task}
        for connector, numbers in worker.running.items()
        for task in numbers
    ]
    return {"assigned": tasks}


def _partitions(topics: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [
        {"topic": topic.topic, "partition": partition}
        for topic in topics
        for partition in topic.partitions
    ]
