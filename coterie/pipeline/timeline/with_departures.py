"""A history from the group log, with how members left [pipeline/departures].

The tables of a run say the same (`transforms.departures`), from the same rules.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, NamedTuple

from coterie.pipeline.timeline.departures import (
    LEAVE,
    MINUTE_US,
    OPEN,
    Left,
    Minutes,
    Place,
    cause_of,
    exits_of,
    held_up,
)
from coterie.pipeline.timeline.model import Evidence, GroupHistory, MemberSession
from coterie.pipeline.timeline.tasks import partitions_read


class Commit(NamedTuple):
    """A commit of a partition; the time is in microseconds."""

    topic: str
    partition: int
    at_us: int


def with_departures(history: GroupHistory, commits: Iterable[Commit]) -> GroupHistory:
    """Return a history with how members left.

    Args:
        history: the history of one group.
        commits: its commits, in any order.
    """
    group_id = history.group_id
    open_sessions = [each for each in history.sessions if each.exit_kind == OPEN]
    left = {(each.member_key, each.last_seen_ms) for each in open_sessions}
    owned: dict[Left, list[dict[str, Any]]] = {}
    for each in partitions_read(history.ownership):
        if each.to_ms is not None and (each.member_key, each.to_ms) in left:
            row = each._asdict() | {"from_ts": each.from_ms * 1000}
            owned.setdefault((group_id, each.member_key, each.to_ms * 1000), []).append(row)
    times = _times(group_id, owned, commits)
    at_moment = {}
    for (_, _, at_us), rows in owned.items():
        for row in rows:
            place = group_id, row["topic"], row["partition"]
            known = times.get(place, [])
            number = bisect_right(known, at_us)
            # The same minute, as in the tables.
            if number and known[number - 1] >= at_us - at_us % MINUTE_US:
                at_moment[place, at_us] = known[number - 1]
    sessions = [
        each._asdict() | {"last_seen_ts": (each.last_seen_ms or 0) * 1000} for each in open_sessions
    ]
    by_place = {place: _minutes(known) for place, known in times.items()}
    exits = exits_of(
        sessions, owned, by_place, at_moment, held_up(map(_times_of, history.sessions))
    )
    found = history._replace(rebalances=[], sessions=[])
    for rebalance in history.rebalances:
        cause = cause_of(
            {
                "group_id": group_id,
                "trigger": rebalance.trigger.cause,
                "left": rebalance.left,
                "completed_ts": (rebalance.completed_ms or 0) * 1000,
            },
            exits,
        )
        if cause is not None and cause != rebalance.trigger.cause:
            # That a member left is proved, an expiry is not.
            evidence = rebalance.evidence if cause == LEAVE else Evidence.INFERRED
            trigger = rebalance.trigger._replace(cause=cause)
            rebalance = rebalance._replace(trigger=trigger, evidence=evidence)
        found.rebalances.append(rebalance)
    for session in history.sessions:
        exit_ = exits.get((group_id, session.member_key, (session.last_seen_ms or 0) * 1000))
        if session.exit_kind == OPEN and exit_ is not None:
            session = session._replace(
                exit_kind=exit_.kind, exit_evidence=exit_.evidence, silent_ms=exit_.silent_ms
            )
        found.sessions.append(session)
    return found


def _times_of(session: MemberSession) -> dict[str, Any]:
    last_ms = session.last_seen_ms
    return {
        "group_id": session.group_id,
        "member_key": session.member_key,
        "identity": session.identity,
        "first_seen_ts": session.first_seen_ms * 1000,
        "last_seen_ts": None if last_ms is None else last_ms * 1000,
    }


def _times(
    group_id: str,
    owned: dict[tuple[str, str, int], list[dict[str, Any]]],
    commits: Iterable[Commit],
) -> dict[Place, list[int]]:
    """Return the times of the commits of partitions whose owners left."""
    times: dict[Place, list[int]] = {
        (group_id, row["topic"], row["partition"]): [] for rows in owned.values() for row in rows
    }
    for commit in commits:
        known = times.get((group_id, commit.topic, commit.partition))
        if known is not None:
            known.append(commit.at_us)
    return {place: sorted(known) for place, known in times.items()}


def _minutes(times: list[int]) -> Minutes:
    found = Minutes([], [], [], [])
    for at_us in times:
        start = at_us - at_us % MINUTE_US
        if found.starts and found.starts[-1] == start:
            found.last[-1] = at_us
            found.commits[-1] += 1
        else:
            found.starts.append(start)
            found.first.append(at_us)
            found.last.append(at_us)
            found.commits.append(1)
    return found
