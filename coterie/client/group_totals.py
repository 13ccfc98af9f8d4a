"""The totals of a group: what `groups list --lag` and the console show of it in one line."""

from collections.abc import Iterable
from typing import Any

from coterie.client.group_description import GroupDescription
from coterie.client.progress import (
    Rates,
    Sample,
    rates_between,
    total,
)

_COUNTS = "member_count", "partition_count", "uncommitted_count", "lag"
_RATES = "consumed_per_s", "produced_per_s", "lag_growth_per_s"


def totals_row(
    group: GroupDescription | None, before: Sample | None, sample: Sample
) -> dict[str, Any]:
    """Return the totals of a group, by the keys of `--json`.

    Args:
        group: the group; None if it is not described, which gives unknown totals.
        before: an earlier sample, for the rates; None for none.
        sample: the offsets.
    """
    if group is None:
        return dict.fromkeys((*_COUNTS, *_RATES))
    committed = sample.committed[group.group_id]
    partitions = sample.partitions(group)
    rates = [rates_between(before, sample, group.group_id, each) for each in partitions]
    values = (
        len(group.members),
        len(partitions),
        sum(each not in committed for each in partitions),
        total(sample.lag(group.group_id, each) for each in partitions),
    )
    return {
        **dict(zip(_COUNTS, values, strict=True)),
        "consumed_per_s": total(each.consumed for each in rates),
        "produced_per_s": total(each.produced for each in rates),
        "lag_growth_per_s": lag_growth(rates),
    }


def lag_growth(rates: Iterable[Rates]) -> float | None:
    """Return the records each second by which a lag grows; None if it is not known.

    A partition whose consumption is not known has no lag, so it does not count.
    """
    return total(
        None if each.consumed is None or each.produced is None else each.produced - each.consumed
        for each in rates
    )


# The part of a rate by which another one may differ from it and still be called equal: commits come
# in steps, so a small difference is none.
EQUAL_RATES = 0.1


def catch_up_s(lag: float | None, growth: float | None, produced: float | None) -> float | None:
    """Return how long a group needs to read everything at these rates, in seconds.

    Args:
        lag: the records that are not committed yet.
        growth: the records each second by which the lag grows.
        produced: the records each second that are produced.

    Returns:
        0 without a lag; None if it is not known, or if the group does not catch up.
    """
    if lag is None or growth is None:
        return None
    if not lag:
        return 0.0
    if growth >= 0 or (produced and abs(growth) <= EQUAL_RATES * produced):
        return None
    return lag / -growth
