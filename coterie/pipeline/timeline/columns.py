"""The parts of a history as rows of their tables, with times (`_ts`) in epoch milliseconds."""

from typing import Any

from coterie.assignors.model import TopicPartition
from coterie.pipeline.records.streams import ACTIVE
from coterie.pipeline.timeline.model import (
    STREAMS,
    Copy,
    EpochBump,
    EpochMember,
    Handover,
    MemberSession,
    Rebalance,
)
from coterie.pipeline.timeline.share_partitions import (
    ACCEPTED,
    AGAIN,
    GIVEN_UP,
    RELEASED,
    Ended,
    PoisonRecord,
    SharedPartition,
)
from coterie.protocol.messages.share_facts import LOCK_TIMEOUT


def rebalance_columns(rebalance: Rebalance) -> dict[str, Any]:
    """Return the columns of `rebalances`."""
    trigger = rebalance.trigger
    row = rebalance._asdict()
    row |= {
        "trigger": trigger.cause,
        "trigger_member_key": trigger.member_key,
        "trigger_member_id": trigger.member_id,
        "trigger_client_id": trigger.client_id,
        "trigger_client_host": trigger.client_host,
        "trigger_identity": trigger.identity,
        "trigger_reason": trigger.reason,
        "subscription_change": trigger.subscription_change,
        "started_ts": row.pop("started_ms"),
        "completed_ts": row.pop("completed_ms"),
        "duration_ms": rebalance.duration_ms,
        "excess_moved": rebalance.excess_moved,
        "evidence": rebalance.evidence.value,
    }
    return row | {name: list(row[name]) for name in ("joined", "left", "replaced")}


def session_columns(session: MemberSession) -> dict[str, Any]:
    """Return the columns of `member_sessions`."""
    row = session._asdict()
    return row | {
        "identity": session.identity,
        "first_seen_ts": row.pop("first_seen_ms"),
        "last_seen_ts": row.pop("last_seen_ms"),
    }


def bump_columns(bump: EpochBump) -> dict[str, Any]:
    """Return the columns of `epoch_bumps`."""
    trigger = bump.trigger
    return {
        "group_id": bump.group_id,
        "epoch": bump.epoch,
        "at_ts": bump.at_ms,
        "cause": trigger.cause,
        "member_key": trigger.member_key,
        "member_id": trigger.member_id,
        "client_id": trigger.client_id,
        "client_host": trigger.client_host,
        "identity": trigger.identity,
        "members": bump.members,
        "target_ts": bump.target_ms,
        "assignor": bump.assignor,
        "changed_members": bump.changed_members,
        "moved_partitions": bump.moved_partitions,
        "stable_ts": bump.stable_ms,
        "stable_ms": None if bump.stable_ms is None else bump.stable_ms - bump.at_ms,
        "evidence": bump.evidence.value,
    }


def handover_columns(handover: Handover) -> dict[str, Any]:
    """Return the columns of `epoch_handovers`."""
    row = handover._asdict()
    for name in ("asked", "noticed", "given_up", "taken"):
        row[f"{name}_ts"] = row.pop(f"{name}_ms")
    return row | {"give_up_ms": handover.give_up_ms, "take_over_ms": handover.take_over_ms}


def member_columns(found: EpochMember) -> dict[str, Any]:
    """Return the columns of `epoch_members`."""
    member = found.member
    row = found._asdict()
    for name in ("member", "copies", "target_copies", "pending_copies"):
        del row[name]
    role = ACTIVE if found.group_type == STREAMS else None
    target = None
    if found.target is not None:
        target = _held(found.target, role, found.target_copies)
    return row | {
        "member_key": member.key,
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "identity": member.identity,
        "topics": None if member.topics is None else list(member.topics),
        "since_ts": row.pop("since_ms"),
        "target": target,
        "assigned": _held(member.assigned, role, found.copies),
        "pending_revocation": _held(found.pending_revocation, role, found.pending_copies),
    }


def _held(
    partitions: tuple[TopicPartition, ...], role: str | None, copies: tuple[Copy, ...]
) -> list[dict[str, Any]]:
    """Return partitions, or active tasks and copies of tasks."""
    held: list[dict[str, Any]] = [
        {"topic": each.topic, "partition": each.partition, "role": role} for each in partitions
    ]
    return held + [each._asdict() for each in copies]


def delivery_columns(group_id: str, ended: Ended) -> dict[str, Any]:
    """Return the columns of `share_deliveries`."""
    delivery = ended.delivery
    return {
        "group_id": group_id,
        "topic": ended.topic,
        "partition": delivery.key.partition,
        "at_ts": delivery.at_ms,
        "first_offset": delivery.first_offset,
        "last_offset": delivery.last_offset,
        "records": ended.records,
        "became": delivery.became,
        "delivery_count": delivery.delivery_count,
        "ended_by": ended.ended_by,
        "member_id": ended.member_id,
    }


def shared_partition_columns(group_id: str, found: SharedPartition) -> dict[str, Any]:
    """Return the columns of `share_partitions`."""
    last = found.starts[-1] if found.starts and found.starts[-1].offset is not None else None
    counts = found.counts
    return {
        "group_id": group_id,
        "topic": found.topic,
        "partition": found.partition,
        "start_offset": None if last is None else last.offset,
        "start_ts": None if last is None else last.at_ms,
        "last_ts": found.last_ms,
        "complete": found.complete,
        "waiting": found.waiting,
        "most_deliveries": found.most_deliveries,
        "accepted": counts.get(ACCEPTED, 0),
        "released": counts.get(RELEASED, 0),
        "timed_out": counts.get(LOCK_TIMEOUT, 0),
        "given_up": counts.get(GIVEN_UP, 0),
        "delivered_again": counts.get(AGAIN, 0),
    }


def poison_columns(group_id: str, found: SharedPartition, record: PoisonRecord) -> dict[str, Any]:
    """Return the columns of `poison_records`."""
    return {
        "group_id": group_id,
        "topic": found.topic,
        "partition": found.partition,
        "record_offset": record.record_offset,
        "delivery_count": record.delivery_count,
        "became": record.became,
        "ended_by": record.ended_by,
        "first_ts": record.first_ms,
        "last_ts": record.last_ms,
    }
