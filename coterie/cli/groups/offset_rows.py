"""The rows of `groups describe --offsets`: offsets, lag, rates, and the time of the last commit."""

import time
from datetime import datetime
from typing import Any

from coterie.cli.output import NOTHING, Column, lag_style
from coterie.client.group_totals import EQUAL_RATES
from coterie.client.times import duration_text


def rate_text(value: Any) -> str:
    """Return records each second as the text of a cell."""
    return NOTHING if value is None else f"{value:,.1f}"


def age_text(value: Any) -> str:
    """Return how long ago a time was, by the clock of this machine."""
    if value is None:
        return NOTHING
    age_ms = int(time.time() * 1000 - datetime.fromisoformat(value).timestamp() * 1000)
    # The clock of the broker may be ahead of this one.
    return f"{duration_text(max(age_ms, 0))} ago"


def catch_up_text(lag: float | None, growth: float | None, produced: float | None) -> str | None:
    """Return how long the group needs to read everything at these rates; None if not known.

    Args:
        lag: the records that are not committed yet.
        growth: the records each second by which the lag grows.
        produced: the records each second that are produced.
    """
    if lag is None or growth is None:
        return None
    if not lag:
        return "caught up"
    if produced and abs(growth) <= EQUAL_RATES * produced:
        return "keeps up"
    if growth < 0:
        return f"in {duration_text(int(lag / -growth * 1000))}"
    return "lag grows" if growth else "lag stays"


CONSUMED = Column("CONSUMED/S", "consumed_per_s", 10, rate_text, number=True)
PRODUCED = Column("PRODUCED/S", "produced_per_s", 10, rate_text, number=True)
RATES = (CONSUMED, PRODUCED)
LAST_COMMIT = Column("LAST-COMMIT", "last_commit", 20)
LAST_COMMIT_AGE = Column("LAST COMMIT", "last_commit", text=age_text)
LAG = Column("LAG", "lag", style=lag_style, number=True)
