"""A look at a group as JSON, with the keys of `groups describe --json` and `groups check --json`.

Times are epoch milliseconds, and a value that is not known is null.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.client.group_description import GroupDescription
from coterie.client.group_rows import member_rows, offset_rows, state_row
from coterie.client.group_totals import catch_up_s, totals_row
from coterie.client.health.observation import short_name
from coterie.client.names import counted
from coterie.client.progress import Sample
from coterie.client.times import duration_text
from coterie.client.waiting import NOT_READY, Owed, Phase, Timeouts, Wait, phase_of, timeouts_of
from coterie.console.group.look import Seen
from coterie.protocol.messages.journal_records import (
    Fact,
    GenerationCompleted,
    GroupEmptied,
    MemberJoined,
    RebalanceBegan,
)
from coterie.server.present import Present

# A page shows so many partitions of a group; the number of all is there, too.
MAX_PARTITIONS = 2_000

# What totals are made of where a group has no offsets.
_NONE = Sample(0.0, {}, {})

Json = dict[str, Any]


def group_json(seen: Seen) -> Json:
    """Return everything that the page of a group shows but for its history."""
    group = seen.group
    # The group may have gone on since it was described.
    present = seen.present
    if present is not None and present.state not in (None, group.state):
        present = None
    phase = phase_of(group, seen.facts, None if present is None else owed_of(present))
    said = None if present is None else present.waits_for
    if said and (not phase.waits_for or group.state == NOT_READY):
        # No response has it, such as why the topics of a streams group are wrong.
        phase = phase._replace(waits_for=[Wait(None, None, said, None, "")])
    # What the journal does not say, the group log may.
    if phase.since_ms is None and seen.logged is not None:
        phase = phase._replace(since_ms=seen.logged[1])
    generation = generation_of(group, seen.facts)
    if generation is None and seen.logged is not None:
        generation = seen.logged[0]
    partitions = _partitions(seen)
    totals = totals_row(None if seen.sample is None else group, seen.before, seen.sample or _NONE)
    catch_up = catch_up_s(totals["lag"], totals["lag_growth_per_s"], totals["produced_per_s"])
    # A group that has read everything has caught up, whatever is produced.
    catch_up = 0.0 if totals["lag"] == 0 else catch_up
    since_ms, is_recorded = (
        (seen.seen_ms, False) if phase.since_ms is None else (phase.since_ms, True)
    )
    return (
        state_row(group)
        | totals
        | {
            "at_ms": seen.at_ms,
            "exists": True,
            "sentence": _sentence(seen, phase, since_ms, generation, totals["lag"], catch_up),
            "generation": generation,
            "since_ms": since_ms,
            "since_is_recorded": is_recorded,
            "has_journal": seen.facts is not None,
            "phase": _phase(phase, seen.at_ms),
            "tells_present": seen.present is not None,
            "records": _records(seen),
            "delivery_limit": None if seen.present is None else seen.present.delivery_limit,
            "member_count": len(group.members),
            "catch_up_s": catch_up,
            "lag_ms": max(seen.lag_ages.values(), default=None),
            "lag_trend": seen.lag_trend,
            "members": _members(seen),
            "partitions": partitions[:MAX_PARTITIONS],
            "partition_count": len(partitions),
            "findings": None if seen.findings is None else [each.row() for each in seen.findings],
        }
    )


def gone_json(group_id: str, at_ms: int) -> Json:
    """Return what a page of a group shows that does not exist any more."""
    return {
        "group": group_id,
        "at_ms": at_ms,
        "exists": False,
        "state": "Dead",
        "sentence": "There is no such group now: it was deleted, it has expired, or it never was.",
        "generation": None,
        "phase": None,
        "lag": None,
        "lag_trend": [],
        "members": [],
        "partitions": [],
        "findings": [],
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
    seen: Seen,
    phase: Phase,
    since_ms: int,
    generation: int | None,
    lag: float | None,
    catch_up: float | None,
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
    if catch_up is not None:
        soon = f" in {duration_text(int(catch_up * 1000))}" if catch_up else ""
        parts.append(f"caught up{soon}")
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
        "synced": phase.synced,
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
    names = _names(seen)
    rows = member_rows(seen.group, seen.software)
    return [
        row
        | {
            "name": names[row["consumer_id"]],
            "joined_ms": joined.get(row["consumer_id"]),
            **_timeouts(timeouts.get(row["consumer_id"])),
            **_session(seen, row["consumer_id"]),
            "rebalances_caused": None if seen.facts is None else caused.get(row["consumer_id"], 0),
        }
        for row in rows
    ]


def owed_of(present: Present) -> Owed:
    """Return the responses that members wait for, by member id."""
    return {each.member_id: each.waits_for for each in present.sessions.values()}


def _names(seen: Seen) -> dict[str, str]:
    return {each.member_id: short_name(each) for each in seen.group.members}


def _session(seen: Seen, member_id: str) -> Mapping[str, int | str | None]:
    """Return what no response has, and the journal only of members that are gone."""
    known = None if seen.present is None else seen.present.sessions.get(member_id)
    if known is None:
        return {"waits_for": None, "last_heartbeat_ms": None, "session_left_ms": None}
    # The session of a member that waits for a response does not end.
    left_ms = None if known.waits_for else max(0, known.timeout_ms - known.silent_ms)
    return {
        "waits_for": known.waits_for,
        "last_heartbeat_ms": seen.at_ms - known.silent_ms,
        "session_left_ms": left_ms,
    }


def _timeouts(known: Timeouts | None) -> Mapping[str, int | None]:
    return {
        "session_timeout_ms": None if known is None else known.session_ms,
        "rebalance_timeout_ms": None if known is None else known.rebalance_ms,
    }


# -- records of share groups -----------------------------------------------------------------------


def _records(seen: Seen) -> list[Json] | None:
    """Return what a share group has in flight; None where that is not known."""
    if seen.present is None or seen.present.records is None:
        return None
    names = _names(seen)
    return [
        {"topic": topic, "partition": partition, **records._asdict()}
        | {"member": names.get(records.member_id or "")}
        for topic, partition, records in seen.present.records
    ]


# -- partitions ------------------------------------------------------------------------------------


def _partitions(seen: Seen) -> list[Json]:
    if seen.sample is None:
        return []
    rows = offset_rows(seen.group, seen.before, seen.sample, seen.commit_times)
    names = _names(seen)
    return [
        row
        | {
            "owner": names.get(row["consumer_id"]),
            "last_commit_ms": seen.commit_times.get(partition),
            "lag_ms": seen.lag_ages.get(partition),
            "trend": seen.trends.get(partition, []),
        }
        for partition, row in (((row["topic"], row["partition"]), row) for row in rows)
    ]
