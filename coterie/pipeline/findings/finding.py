"""What a finding is [pipeline/one-finding-a-cause]."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from coterie.client.names import counted as counted  # noqa: PLC0414 - the rules import it from here

T = TypeVar("T")
CRITICAL, WARNING, INFO = "critical", "warning", "info"


class Finding(NamedTuple):
    """One finding: a group and a cause.

    Attributes:
        rule: the name of its rule.
        group_id: the group; None if it is about several groups.
        from_ms, to_ms: the time that it is about, in epoch milliseconds.
        at_ms: the moment to show first.
        subject: the identity of the member that caused it, or partitions; None if there is none.
        value: a number, whose meaning depends on the rule.
        evidence: a sentence.
        cost: what it cost, in message-seconds [pipeline/cost].
        groups: the groups, if there are several.
        rank: its place among all findings, from 1 on; 0 before they are ranked.
        silences: the times in which nothing was recorded of any group; none but of an outage.
        groups_at_ms: for each of `groups` when its members were replaced, or when it rebalanced.
        lost_until_ms: of an outage, who has sent nothing since then was lost with the broker; None
            of other findings.
    """

    rule: str
    group_id: str | None
    from_ms: int
    to_ms: int
    at_ms: int
    subject: str | None
    value: float
    evidence: str
    cost: float = 0.0
    groups: tuple[str, ...] = ()
    rank: int = 0
    silences: tuple[tuple[int, int], ...] = ()
    groups_at_ms: tuple[int, ...] = ()
    lost_until_ms: int | None = None


class Rule(NamedTuple):
    """A rule.

    Attributes:
        name: in the column `rule`.
        severity: critical, warning or info.
        about: what it means, in a few words.
    """

    name: str
    severity: str
    about: str


def cost_of(partition_seconds: float, lag: float) -> float:
    """Return the cost in message-seconds [pipeline/cost].

    Args:
        partition_seconds: for how long partitions were not read, summed over the partitions.
        lag: the mean lag of a partition at that time; 0 if it is unknown.
    """
    return partition_seconds * (1 + lag)


def finding_columns(finding: Finding, severities: dict[str, str]) -> dict[str, Any]:
    """Return a finding as a row of the table `anomalies`, with times in microseconds.

    Args:
        finding: the finding.
        severities: by rule.
    """
    return {
        "rule": finding.rule,
        "severity": severities[finding.rule],
        "group_id": finding.group_id,
        "window_start_ts": finding.from_ms * 1000,
        "window_end_ts": finding.to_ms * 1000,
        "at_ts": finding.at_ms * 1000,
        "subject": finding.subject,
        "value": float(finding.value),
        "evidence": finding.evidence,
        "cost": finding.cost,
        "groups": list(finding.groups),
        "rank": finding.rank,
        "silent_from_ts": [from_ms * 1000 for from_ms, _ in finding.silences],
        "silent_to_ts": [to_ms * 1000 for _, to_ms in finding.silences],
        "groups_at_ts": [at_ms * 1000 for at_ms in finding.groups_at_ms],
    }


def clock(at_ms: int, now_ms: int) -> str:
    """Return a time of day in UTC, with the date unless it is that of `now_ms`."""
    at, now = (datetime.fromtimestamp(each / 1000, UTC) for each in (at_ms, now_ms))
    return f"{at:%H:%M:%S}" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M:%S}"


def episodes(
    items: Iterable[T], at_ms: Callable[[T], int], apart_ms: int, *, chained: bool = False
) -> Iterator[list[T]]:
    """Yield items that are in order of time, together if they are close to each other.

    Args:
        items: the items.
        at_ms: the time of one.
        apart_ms: the longest time from the first to the last one.
        chained: whether it is that between two neighbours instead.
    """
    current: list[T] = []
    for each in items:
        if current and at_ms(each) > at_ms(current[-1 if chained else 0]) + apart_ms:
            yield current
            current = []
        current.append(each)
    if current:
        yield current


def most_frequent(texts: Iterable[str]) -> tuple[str, int]:
    """Return the most frequent text and its count; of equals the first in the alphabet."""
    counts: dict[str, int] = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    return min(counts.items(), key=lambda each: (-each[1], each[0]), default=("", 0))


def places_text(places: Iterable[tuple[str, int]], mark: str = "-") -> str:
    """Return partitions in short: orders-0, orders-1, orders-2 and 3 more.

    Args:
        places: the partitions.
        mark: what is between the parts of a name; Kafka's name of a task is 0_1.
    """
    return listed([f"{topic}{mark}{partition}" for topic, partition in sorted(places)])


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names in short: a, b, c and 3 more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


UNKNOWN = "unknown"
_SECOND_MS = 1_000


def duration(ms: float | None) -> str:
    """Return a duration in words: 340 ms, 12.4 s, 3 min 05 s, 2 h 10 min."""
    if ms is None:
        return UNKNOWN
    if ms < _SECOND_MS:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
