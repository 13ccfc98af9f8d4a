"""The rows of `groups describe --offsets`: offsets, lag, rates, and the time of the last commit."""

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from coterie.cli.output import NOTHING, Column, Row, lag_style, time_text
from coterie.cli.timeline import duration_text
from coterie.client.cluster import TopicPartition
from coterie.client.group_description import SHARE_GROUP, GroupDescription
from coterie.client.progress import (
    Rates,
    Sample,
    partitions_of_members,
    rates_between,
    total,
)

# The part of a rate by which another one may differ from it and still be called equal.
_EQUAL_RATES = 0.1


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


def lag_growth(rates: Iterable[Rates]) -> float | None:
    """Return the records each second by which a lag grows; None if it is not known.

    A partition whose consumption is not known has no lag, so it does not count.
    """
    return total(
        None if each.consumed is None or each.produced is None else each.produced - each.consumed
        for each in rates
    )


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
    # Commits come in steps, so a small difference is none.
    if produced and abs(growth) <= _EQUAL_RATES * produced:
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


def offset_rows(
    group: GroupDescription,
    before: Sample | None,
    sample: Sample,
    commit_times: Mapping[TopicPartition, int],
) -> list[Row]:
    """Return a row for each partition that has an offset or an owner, in order."""
    members = {member.member_id: member for member in group.members}
    owners = partitions_of_members(group)
    rows: list[Row] = []
    for partition in sample.partitions(group):
        committed = sample.committed[group.group_id].get(partition)
        committed_ms = commit_times.get(partition)
        ids = owners.get(partition, [])
        # Several members of a share group may have a partition.
        is_owned = ids and (len(ids) == 1 or group.type != SHARE_GROUP)
        owner = members[ids[-1]] if is_owned else None
        rates = rates_between(before, sample, group.group_id, partition)
        rows.append(
            {
                "group": group.group_id,
                "topic": partition[0],
                "partition": partition[1],
                "leader_epoch": committed.leader_epoch
                if committed and committed.leader_epoch >= 0
                else None,
                "current_offset": None if committed is None else committed.offset,
                "log_end_offset": sample.ends.get(partition),
                "lag": sample.lag(group.group_id, partition),
                "metadata": None if committed is None else committed.metadata,
                "consumer_id": owner.member_id if owner else None,
                "group_instance_id": owner.group_instance_id if owner else None,
                "host": owner.host if owner else None,
                "client_id": owner.client_id if owner else None,
                "consumed_per_s": rates.consumed,
                "produced_per_s": rates.produced,
                "last_commit": None if committed_ms is None else time_text(committed_ms),
            }
        )
    return rows
