"""Transactions and producers as rows: what `--json` of the commands and the console have."""

from typing import Any

from coterie.client.producers import Producer
from coterie.client.transactions import DescribedTransaction

Row = dict[str, Any]

_NO_TIME = -1

PRODUCER_KEYS = ("producer_id", "producer_epoch", "coordinator_epoch")
PRODUCER_ROW_KEYS = (
    "topic", "partition", *PRODUCER_KEYS, "start_offset", "last_timestamp_ms", "last_sequence"
)  # fmt: skip


def transaction_row(name: str, described: DescribedTransaction, now_ms: int) -> Row:
    """Return the state of a transactional id as `transactions describe` shows it."""
    state = described.state
    start_ms = state.transaction_start_time_ms
    has_started = start_ms != _NO_TIME
    return {
        "transactional_id": name,
        "coordinator_id": described.coordinator_id,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "state": state.transaction_state,
        "timeout_ms": state.transaction_timeout_ms,
        "start_ms": start_ms if has_started else None,
        "duration_ms": max(0, now_ms - start_ms) if has_started else None,
        "partitions": {each.topic: each.partitions for each in state.topics},
    }


def producer_row(found: Producer) -> Row:
    """Return a producer of a partition as `transactions describe-producers` shows it."""
    return dict(zip(PRODUCER_ROW_KEYS, (*found.partition, *found[1:]), strict=True))
