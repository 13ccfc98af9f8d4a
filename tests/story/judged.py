"""Every finding about members, judged right or wrong by the independent log.

The log says who was killed, paused, restarted and how often. A finding that it does not confirm
contradicts it, and so does a cause that no finding tells.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from coterie.pipeline.report.content import Row
from tests.story.record import KILLED, Record, Session

# As many sessions of a client are flapping [pipeline/flapping-member].
FLAPS = 3
HOST = "127.0.0.1"
# Rules of which nothing happens in the story.
_NEVER = ("broker_restart", "rollout", "max_poll_exceeded")


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
    named = [each for each in record.of(group or "") if _is_named(row, each)]
    if rule == "expired_member":
        return bool(named) and all(each.end == KILLED or each.paused for each in named[-1:])
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
