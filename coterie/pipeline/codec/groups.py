"""The view `groups`: generations of classic groups, and what their members' bytes say.

Only the end of a rebalance is ever logged, so these records are rare beside commits; each is
decoded by `protocol`, whose every version it has.
"""

from collections.abc import Iterable
from typing import Any

from coterie.pipeline.codec import columns
from coterie.pipeline.codec.piece import DecodedView, Piece, decode_each
from coterie.pipeline.schemas import GROUPS
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.consumer_protocol import (
    TopicPartition,
    decode_assignment,
    decode_subscription,
)
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataMember,
    decode_key,
    decode_value,
)

KEY_TYPE = 2

CONSUMER = "consumer"


def decode_groups(piece: Piece) -> DecodedView:
    """The group metadata of a piece."""
    return decode_each(piece, piece.key_types == KEY_TYPE, group_fields, GROUPS)


def group_fields(key: bytes, value: bytes | None) -> dict[str, Any]:
    """One generation: the columns that come from key and value.

    Raises:
        MalformedFrame: key or value are not what their type and version say.
    """
    decoded = decode_key(key)
    assert isinstance(decoded, GroupMetadataKey), "chosen by its record type"
    group = decode_value(decoded, value)
    if group is None:
        return {"group_id": decoded.group, "state": "Dead", "is_tombstone": True}
    assert value is not None, "only a tombstone has none"
    is_consumer = group.protocol_type == CONSUMER
    return {
        "group_id": decoded.group,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "state": "Stable" if group.members else "Empty",
        "state_ts": columns.timestamp_us(group.current_state_timestamp),
        "members": [_member(member, is_consumer=is_consumer) for member in group.members],
        "value_version": int.from_bytes(value[:2], signed=True),
        "is_tombstone": False,
    }


def _member(member: GroupMetadataMember, *, is_consumer: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "member_key": member.group_instance_id or member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": member.session_timeout,
        # Before version 1 a rebalance waited as long as a session (spec 14.3).
        "rebalance_timeout_ms": (
            member.session_timeout if member.rebalance_timeout < 0 else member.rebalance_timeout
        ),
    }
    if is_consumer:
        row |= consumer_fields(member.subscription, member.assignment)
    return row


def consumer_fields(subscription: bytes, assignment: bytes) -> dict[str, Any]:
    """The columns that come from a member's bytes of protocol type "consumer".

    They are the clients' own: where they can't be read the columns are null, and the group is one
    all the same.
    """
    row: dict[str, Any] = {}
    try:
        wanted = decode_subscription(subscription)
    except MalformedFrame:
        pass
    else:
        row |= {
            "topics": wanted.topics,
            "owned": _partitions(wanted.owned_partitions),
            "owned_generation": None if wanted.generation_id < 0 else wanted.generation_id,
            "rack_id": wanted.rack_id,
        }
    if not assignment:
        return row | {"assigned": []}
    try:
        row["assigned"] = _partitions(decode_assignment(assignment).assigned_partitions)
    except MalformedFrame:
        row["assigned"] = None
    return row


def _partitions(topics: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [
        {"topic": topic.topic, "partition": partition}
        for topic in topics
        for partition in topic.partitions
    ]
