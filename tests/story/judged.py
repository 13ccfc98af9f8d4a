"""Every finding about members, judged right or wrong by the independent log.

The log says who was killed, paused, restarted and how often. A finding that it does not confirm
contradicts it, and so does a cause that no finding tells.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from coterie.pipeline.report.content import Row
from tests.story.record import KILLED, Record, Session

# As many sessions of a client are flapping [pipeline/flapping-member].
FLAPS = 3
HOST = "127.0.0.1"
# Rules of which nothing happens in the story.
_NEVER = ("rollout", "max_poll_exceeded")
# The last commit may be this much older than the kill, and a group may notice it this much later.
_OUTAGE_SLACK_MS = 15_000
# A rebalance begins that long after a process was ended or started, on a busy machine.
_CHANGE_SLACK_MS = 4_000


class Verdict(NamedTuple):
    """A finding, and whether the log confirms it; None if the log does not say."""

    finding: Row
    is_right: bool | None

    def __str__(self) -> str:
        words = {True: "right", False: "WRONG", None: "not in the log"}
        row = self.finding
        who = f" {row['subject']}" if row["subject"] else ""
        return (
            f"{words[self.is_right]:<15}{row['severity']} {row['rule']}"
            f" {row['group_id'] or 'across groups'}{who}: {row['evidence']}"
        )


def identity_of(session: Session) -> str:
    """Return the name that findings have for a process."""
    return session.instance or f"{session.client} at {HOST}"


def verdicts(record: Record, findings: Sequence[Row]) -> list[Verdict]:
    """Judge every finding."""
    return [Verdict(row, _is_right(record, row)) for row in findings]


def untold(
    record: Record, findings: Sequence[Row], exits: Mapping[str, str | None]
) -> Iterator[str]:
    """Yield what the log has and no finding tells.

    Args:
        record: the log.
        findings: the findings about its groups.
        exits: how each member left, as the tables have it; the log of a real Kafka leaves it open
            for members that own nothing or commit seldom.
    """
    for session in record.sessions:
        known = [exits[each] for each in session.member_ids() if exits.get(each) is not None]
        if session.end == KILLED or session.paused:
            is_open = known and all(each in ("leave or expiry", "leave") for each in known)
            rules = ("expired_member", "flapping_member", "rebalance_storm")
            if not is_open and not _told(findings, session, rules):
                yield f"{session}: no finding says that it died or was paused"
    for outage in record.outages:
        if not any(row["rule"] == "broker_restart" and _overlaps(row, outage) for row in findings):
            killed_ms, again_ms = outage
            yield f"no finding says that the broker was away for {again_ms - killed_ms:.0f} ms"
    for (group, identity), sessions in _by_identity(record).items():
        ended = [each for each in sessions if each.ended_ms is not None]
        is_static = sessions[0].instance is not None
        flaps = not is_static and len(ended) >= FLAPS
        if flaps and not _told(findings, sessions[0], ("flapping_member", "rebalance_storm")):
            yield f"{group}: no finding says that {identity} came and went {len(ended)} times"
        again = is_static and len(sessions) > 1
        if again and not _told(findings, sessions[0], ("static_restart", "expired_member")):
            yield f"{group}: no finding says that {identity} restarted"


def _is_right(record: Record, row: Row) -> bool | None:
    rule, group = row["rule"], row["group_id"]
    if rule in _NEVER:
        return False
    if rule == "broker_restart":
        began_ms = min((each.started_ms for each in record.sessions), default=0.0)
        if row["window_end_ts"].timestamp() * 1_000 < began_ms:
            # A broker that has been used before remembers what happened before the log began.
            return None
        return any(_overlaps(row, outage) for outage in record.outages)
    if rule == "deployment":
        return _is_deployment(record, row)
    named = [each for each in record.of(group or "") if _is_named(row, each)]
    if rule == "expired_member":
        return bool(named) and all(
            each.end == KILLED or each.paused or record.left_unheard(each) for each in named[-1:]
        )
    if rule == "flapping_member":
        return sum(each.ended_ms is not None for each in named) >= FLAPS
    if rule == "static_restart":
        return any(each.instance is not None for each in named) and len(named) > 1
    if rule == "rebalance_storm":
        counts = record.disturbances(group)
        if row["subject"] is None:
            return max(counts.values(), default=0) * 2 <= sum(counts.values()) + 1
        most = max(counts, key=lambda client: counts[client])
        return any(each.client == most for each in named)
    return None


def _overlaps(row: Row, outage: tuple[float, float]) -> bool:
    """Return whether a finding begins with an outage, or within it."""
    from_ms = float(row["window_start_ts"].timestamp()) * 1_000
    return outage[0] - _OUTAGE_SLACK_MS <= from_ms <= outage[1] + _OUTAGE_SLACK_MS


def _is_deployment(record: Record, row: Row) -> bool:
    """Return whether each client of the group was ended and started at most once in that time.

    Its first start may be in that time, too.
    """
    from_ms, to_ms = (
        row[name].timestamp() * 1_000 for name in ("window_start_ts", "window_end_ts")
    )

    def times(moments: Iterable[float | None]) -> int:
        return sum(
            each is not None and from_ms - _CHANGE_SLACK_MS <= each <= to_ms for each in moments
        )

    clients: dict[str, list[Session]] = {}
    for each in record.of(row["group_id"]):
        clients.setdefault(each.client, []).append(each)
    changes = [
        (times([each.ended_ms for each in some]), times([each.started_ms for each in some]))
        for some in clients.values()
    ]
    return any(ended for ended, _ in changes) and all(
        ended <= 1 and started <= 2 for ended, started in changes
    )


def _is_named(row: Row, session: Session) -> bool:
    identity = identity_of(session)
    return identity == row["subject"] or (
        row["subject"] is None and identity in (row["evidence"] or "")
    )


def _told(findings: Sequence[Row], session: Session, rules: Sequence[str]) -> bool:
    return any(
        row["rule"] in rules
        and row["group_id"] == session.group
        and (_is_named(row, session) or identity_of(session) in (row["evidence"] or ""))
        for row in findings
    )


def _by_identity(record: Record) -> dict[tuple[str, str], list[Session]]:
    found: dict[tuple[str, str], list[Session]] = {}
    for each in record.sessions:
        found.setdefault((each.group, identity_of(each)), []).append(each)
    return found
