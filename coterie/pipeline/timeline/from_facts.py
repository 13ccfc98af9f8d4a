"""Members and generations of the timeline, from facts of the journal."""

from collections.abc import Iterable
from typing import Any

from coterie.assignors.model import TopicPartition
from coterie.pipeline.timeline.departures import RECORDED, SESSION_EXPIRY, silence_text
from coterie.pipeline.timeline.model import Generation, RecordedMember
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages import connect_protocol
from coterie.protocol.messages import journal_records as journal
from coterie.protocol.messages.consumer_protocol import decode_assignment, decode_subscription

CONSUMER = "consumer"


def process_of(fact: journal.MemberJoined | journal.StaticMemberReplaced) -> RecordedMember:
    """Return the member of a fact; it has no assignment yet."""
    return RecordedMember(
        fact.member_id,
        fact.group_instance_id,
        fact.client_id,
        fact.client_host,
        None,
        (),
        (),
        None,
        getattr(fact, "session_timeout_ms", None),
        getattr(fact, "rebalance_timeout_ms", None),
    )


def exit_evidence(fact: journal.MemberRemoved) -> str:
    """Return how an exit is known [pipeline/departures]."""
    silent_ms = silence_of(fact)
    if silent_ms is not None:
        return silence_text(silent_ms, fact.session_timeout_ms)
    return f"{RECORDED}: {fact.reason}" if fact.reason else RECORDED


def silence_of(fact: journal.MemberRemoved) -> int | None:
    """Return how long a member whose session expired had sent nothing; None if unknown."""
    if fact.cause == SESSION_EXPIRY and fact.last_heard_ms >= 0:
        return fact.at_ms - fact.last_heard_ms
    return None


def generation_of(fact: journal.GenerationCompleted) -> Generation:
    """Return the generation of a fact."""
    return Generation(
        fact.generation_id,
        fact.at_ms,
        fact.protocol_type,
        fact.protocol_name,
        fact.leader,
        tuple(_member(each, fact.protocol_type) for each in fact.members),
    )


def _member(logged: journal.GenerationMember, protocol_type: str) -> RecordedMember:
    topics: tuple[str, ...] | None = None
    owned: tuple[TopicPartition, ...] = ()
    assigned: tuple[TopicPartition, ...] = ()
    if protocol_type == CONSUMER:
        # Clients may put other bytes there. What cannot be decoded remains unknown.
        try:
            subscription = decode_subscription(logged.subscription)
            topics = tuple(subscription.topics)
            owned = _partitions(subscription.owned_partitions)
            if logged.assignment:
                assigned = _partitions(decode_assignment(logged.assignment).assigned_partitions)
        except MalformedFrame:
            pass
    elif protocol_type == connect_protocol.PROTOCOL_TYPE:
        assigned = _tasks(logged.subscription, logged.assignment)
    return RecordedMember(
        logged.member_id,
        logged.group_instance_id,
        logged.client_id,
        logged.client_host,
        topics,
        owned,
        assigned,
        None if logged.joined_after_ms < 0 else logged.joined_after_ms,
        logged.session_timeout_ms,
        logged.rebalance_timeout_ms,
    )


def _tasks(metadata: bytes, assignment: bytes) -> tuple[TopicPartition, ...]:
    """Return what a Connect worker runs [pipeline/connect-tasks]."""
    try:
        running = connect_protocol.decode_worker(metadata, assignment).running
    except MalformedFrame:
        return ()
    return tuple(
        TopicPartition(connector, task) for connector, tasks in running.items() for task in tasks
    )


def _partitions(listed: Iterable[Any]) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(each.topic, partition) for each in listed for partition in each.partitions
    )
