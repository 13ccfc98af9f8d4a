"""A look at a group as JSON, with the keys of `groups describe --json` and `groups check --json`.

Times are epoch milliseconds, and a value that is not known is null.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.client.cluster import TopicPartition
from coterie.client.group_description import GroupDescription
from coterie.client.group_rows import member_rows, offset_rows, state_row
from coterie.client.health.checks import Found
from coterie.client.health.observation import short_name
from coterie.client.names import counted
from coterie.client.progress import rates_between, total
from coterie.client.times import duration_text
from coterie.client.waiting import Phase, Timeouts, phase_of, timeouts_of
from coterie.console.group.look import Seen, Trend
from coterie.protocol.messages.journal_records import (
    Fact,
    GenerationCompleted,
    GroupEmptied,
    MemberJoined,
    RebalanceBegan,
)

# A page shows so many partitions of a group; the number of all is there, too.
MAX_PARTITIONS = 2_000
# Trends of more partitions would be most of what is sent.
MAX_TRENDS = 256
# A change of the lag that is smaller than this part of what is produced is none: commits come in
# steps.
_EQUAL_RATES = 0.1

Json = dict[str, Any]


def group_json(seen: Seen) -> Json:
    """Return everything that the page of a group shows but for its history."""
    group = seen.group
    phase = phase_of(group, seen.facts)
    generation = generation_of(group, seen.facts)
    partitions = _partitions(seen)
    lag = total(each["lag"] for each in partitions)
    since_ms, is_recorded = (
        (seen.seen_ms, False) if phase.since_ms is None else (phase.since_ms, True)
    )
    return state_row(group) | {
        "at_ms": seen.at_ms,
        "exists": True,
        "sentence": _sentence(seen, phase, since_ms, generation, lag),
        "generation": generation,
        "since_ms": since_ms,
        "since_is_recorded": is_recorded,
        "has_journal": seen.facts is not None,
        "phase": _phase(phase, seen.at_ms),
        "lag": lag,
        "catch_up_s": _catch_up_s(seen, lag),
        "lag_trend": [[at_ms, total(lags.values())] for at_ms, lags in seen.trend],
        "members": _members(seen),
        "partitions": partitions[:MAX_PARTITIONS],
        "partition_count": len(partitions),
        "findings": None if seen.findings is None else list(map(finding_row, seen.findings)),
    }


def gone_json(group_id: str, at_ms: int) -> Json:
    """Return what a page of a group shows that does not exist any more."""
    return {
        "group": group_id,
        "at_ms": at_ms,
        "exists": False,
        "state": "Dead",
        "sentence": "There is no such group now: it was deleted, it has expired, or it never was.",
        "phase": None,
        "members": [],
        "partitions": [],
        "findings": [],
    }


def finding_row(found: Found) -> Json:
    """Return a finding as `groups check --json` has it."""
    return {
        "group": found.group_id,
        "severity": str(found.finding.severity),
        "check": found.check,
        "subject": found.finding.subject or None,
        "cause": found.finding.cause,
        "remedy": found.finding.remedy,
    }


def generation_of(group: GroupDescription, facts: Sequence[Fact] | None) -> int | None:
    """Return the generation or the epoch of a group; None if it is not recorded."""
    if group.group_epoch is not None:
        return group.group_epoch
    for fact in reversed(facts or ()):
        if isinstance(fact, GenerationCompleted | GroupEmptied):
            return fact.generation_id
    return None


def _sentence(
    seen: Seen, phase: Phase, since_ms: int, generation: int | None, lag: float | None
) -> str:
    """Return the group in a sentence: Stable for 12 min, generation 17, range, 3 members, ..."""
    group = seen.group
    at_least = "" if phase.since_ms is not None else "at least "
    named = "generation" if group.group_epoch is None else "epoch"
    parts = [
        f"{group.state} for {at_least}{duration_text(max(0, seen.at_ms - since_ms))}",
        *([f"{named} {generation}"] if generation is not None else []),
        *([group.protocol] if group.protocol else []),
        counted(len(group.members), "member"),
        *([f"lag {lag:,.0f}"] if lag is not None else []),
    ]
    catch_up_s = _catch_up_s(seen, lag)
    if catch_up_s is not None:
        parts.append(
            f"caught up in {duration_text(int(catch_up_s * 1000))}" if catch_up_s else "caught up"
        )
    text = ", ".join(parts)
    waits = waits_text(phase, seen.at_ms)
    return f"{text}; waits for {waits}" if waits else text


def waits_text(phase: Phase, at_ms: int) -> str:
    """Return for what a group waits, in the words of `Group.stuck` of `coterie.testing`."""
    texts = []
    by_what: dict[tuple[str, int | None, bool], list[str]] = {}
    for each in phase.waits_for or ():
        key = each.what, each.until_ms, each.is_certain
        by_what.setdefault(key, []).append(each.member or "")
    for (what, until_ms, is_certain), members in by_what.items():
        named = (", " if is_certain else " or ").join(each for each in members if each)
        left = "" if until_ms is None else f", at most {max(0, until_ms - at_ms) / 1000:.1f} s more"
        texts.append(f"{what}{f' of {named}' if named else ''}{left}")
    return "; ".join(texts)


def _phase(phase: Phase, at_ms: int) -> Json:
    waits = phase.waits_for
    return {
        "name": phase.name,
        "since_ms": phase.since_ms,
        "joined": phase.joined,
        "waits_text": waits_text(phase, at_ms) or None,
        "waits_for": None
        if waits is None
        else [
            {
                "member": each.member,
                "consumer_id": each.member_id,
                "for": each.what,
                "at_most_ms": None if each.until_ms is None else max(0, each.until_ms - at_ms),
                "until_ms": each.until_ms,
                "why": each.why,
                "is_certain": each.is_certain,
            }
            for each in waits
        ],
    }


# -- members ---------------------------------------------------------------------------------------


def _members(seen: Seen) -> list[Json]:
    facts = seen.facts or ()
    timeouts = timeouts_of(facts)
    joined = {each.member_id: each.at_ms for each in facts if isinstance(each, MemberJoined)}
    caused: dict[str, int] = {}
    for fact in facts:
        if isinstance(fact, RebalanceBegan) and fact.member_id is not None:
            caused[fact.member_id] = caused.get(fact.member_id, 0) + 1
    names = {each.member_id: short_name(each) for each in seen.group.members}
    rows = member_rows(seen.group, seen.software)
    return [
        row
        | {
            "name": names[row["consumer_id"]],
            "joined_ms": joined.get(row["consumer_id"]),
            **_timeouts(timeouts.get(row["consumer_id"])),
            # No response has it, and the journal only that of members that are gone.
            "last_heartbeat_ms": None,
            "rebalances_caused": None if seen.facts is None else caused.get(row["consumer_id"], 0),
        }
        for row in rows
    ]


def _timeouts(known: Timeouts | None) -> Mapping[str, int | None]:
    return {
        "session_timeout_ms": None if known is None else known.session_ms,
        "rebalance_timeout_ms": None if known is None else known.rebalance_ms,
    }


# -- partitions ------------------------------------------------------------------------------------


def _partitions(seen: Seen) -> list[Json]:
    if seen.sample is None:
        return []
    rows = offset_rows(seen.group, seen.before, seen.sample, seen.commit_times)
    names = {each.member_id: short_name(each) for each in seen.group.members}
    with_trends = len(rows) <= MAX_TRENDS
    return [
        row
        | {
            "owner": names.get(row["consumer_id"]),
            "last_commit_ms": seen.commit_times.get((row["topic"], row["partition"])),
            "lag_ms": 0 if row["lag"] == 0 else None,
            "trend": _trend((row["topic"], row["partition"]), seen.trend) if with_trends else [],
        }
        for row in rows
    ]


def _trend(partition: TopicPartition, trend: Sequence[tuple[int, Trend]]) -> list[list[int | None]]:
    return [[at_ms, lags.get(partition)] for at_ms, lags in trend]


def _catch_up_s(seen: Seen, lag: float | None) -> float | None:
    """Return in how many seconds the group has read everything; None if unknown or never."""
    if lag is None or seen.sample is None:
        return None
    if not lag:
        return 0.0
    group_id = seen.group.group_id
    rates = [
        rates_between(seen.before, seen.sample, group_id, each)
        for each in seen.sample.committed[group_id]
    ]
    both = [each for each in rates if each.consumed is not None and each.produced is not None]
    consumed = total(each.consumed for each in both)
    produced = total(each.produced for each in both)
    if consumed is None or produced is None or consumed <= produced:
        return None
    if produced and consumed - produced <= _EQUAL_RATES * produced:
        return None
    return lag / (consumed - produced)
