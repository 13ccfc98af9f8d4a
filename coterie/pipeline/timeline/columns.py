"""A rebalance as a row: the columns of the table, for the terminal and for the tables alike."""

from typing import Any

from coterie.pipeline.timeline.model import Rebalance


def rebalance_columns(told: Rebalance) -> dict[str, Any]:
    """The columns of `rebalances`; moments (`_ts`) are epoch milliseconds still."""
    trigger = told.trigger
    row = told._asdict()
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
        "duration_ms": told.duration_ms,
        "excess_moved": told.excess_moved,
        "evidence": told.evidence.value,
    }
    return row | {name: list(row[name]) for name in ("joined", "left", "replaced")}
