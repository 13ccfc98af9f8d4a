"""Rebalances and sessions as rows of their tables, for the terminal and for the engines."""

from typing import Any

from coterie.pipeline.timeline.model import MemberSession, Rebalance


def rebalance_columns(rebalance: Rebalance) -> dict[str, Any]:
    """Return the columns of `rebalances`, with times (`_ts`) in epoch milliseconds."""
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
    """Return the columns of `member_sessions`, with times (`_ts`) in epoch milliseconds."""
    row = session._asdict()
    return row | {
        "identity": session.identity,
        "first_seen_ts": row.pop("first_seen_ms"),
        "last_seen_ts": row.pop("last_seen_ms"),
    }
