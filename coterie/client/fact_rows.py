"""The facts of the journal as rows: what `groups history --json` and the console say of each."""

from collections.abc import Callable
from typing import Any

from coterie.client.group_rows import Row
from coterie.client.times import time_text
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages import connect_protocol
from coterie.protocol.messages.consumer_protocol import (
    TopicPartition,
    decode_assignment,
    decode_subscription,
)
from coterie.protocol.messages.journal_records import (
    FACT_NAMES,
    Fact,
    GenerationCompleted,
    GenerationMember,
)
from coterie.protocol.messages.offset_facts import OffsetsExpired
from coterie.protocol.messages.share_facts import DeliveriesFailed


def fact_row(group_id: str, fact: Fact) -> Row:
    """Return a fact with stable keys, and with the consumer protocol in it decoded."""
    row: Row = {"group": group_id, "at": time_text(fact.at_ms), "event": FACT_NAMES[type(fact)]}
    row |= {name: getattr(fact, name) for name in fact.fields_}
    if fact.node_id < 0:
        # There was one broker.
        del row["node_id"]
    if isinstance(fact, GenerationCompleted):
        row["members"] = [_member_row(member, fact.protocol_type) for member in fact.members]
    elif isinstance(fact, OffsetsExpired):
        row["topics"] = {
            each.topic: {str(part.partition): part.committed_offset for part in each.partitions}
            for each in fact.topics
        }
    elif isinstance(fact, DeliveriesFailed):
        row["deliveries"] = [
            {name: getattr(each, name) for name in each.fields_} for each in fact.deliveries
        ]
    return row


def _member_row(member: GenerationMember, protocol_type: str) -> Row:
    row: Row = {name: getattr(member, name) for name in member.fields_}
    if protocol_type == connect_protocol.PROTOCOL_TYPE:
        row["worker"] = _worker(member)
    for name, data, decoded in (
        ("subscription", member.subscription, _subscription),
        ("assignment", member.assignment, _assignment),
    ):
        is_known = protocol_type == "consumer"
        row[name] = _decoded_or_hex(data, decoded) if is_known else data.hex()
    return row


def _worker(member: GenerationMember) -> Row | None:
    try:
        return connect_protocol.decode_worker(member.subscription, member.assignment)._asdict()
    except MalformedFrame:
        return None


def _decoded_or_hex(data: bytes, decoded: Callable[[bytes], Any]) -> Any:
    try:
        return decoded(data) if data else ""
    except MalformedFrame:
        return data.hex()


def _subscription(data: bytes) -> Row:
    decoded = decode_subscription(data)
    return {"topics": sorted(decoded.topics), "owned": _by_topic(decoded.owned_partitions)}


def _assignment(data: bytes) -> Row:
    return _by_topic(decode_assignment(data).assigned_partitions)


def _by_topic(partitions: list[TopicPartition]) -> Row:
    by_topic = sorted(partitions, key=lambda each: each.topic)
    return {each.topic: sorted(each.partitions) for each in by_topic}
