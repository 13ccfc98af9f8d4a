"""A rebalance as a row of the table, for the terminal and for Spark."""

from typing import Any

from coterie.pipeline.timeline.model import Rebalance


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
        "trigger_reason": trigger.reason,
        "subscription_change": trigger.subscription_change,
        "started_ts": row.pop("started_ms"),
        "completed_ts": row.pop("completed_ms"),
        "duration_ms": rebalance.duration_ms,
        "excess_moved": rebalance.excess_moved,
        "evidence": rebalance.evidence.value,
    }
    return row | {name: list(row[name]) for name in ("joined", "left", "replaced")}
