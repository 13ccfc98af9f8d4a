"""Events of a group's timeline, made from the pipeline's rebalances and ownership.

A rebalance is one event: when it began, from which generation to which, why, and who caused it;
remarks say how long it took and what it cost. Each generation on its way is a further event with
the members, their partitions, and what they gave up and took over.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from coterie.cli.output import Row, printable
from coterie.cli.pipeline.rebalance_stories import (
    CompletedStep,
    OwnershipSnapshot,
    RebalanceStory,
)
from coterie.cli.timeline import (
    SHOWN_MEMBERS,
    Event,
    MemberLine,
    TopicPartition,
    cause_text,
    client_text,
    joined_text,
    partition_ranges,
    quoted_reason,
    work_text,
)
from coterie.client.names import counted
from coterie.client.times import duration_text
from coterie.pipeline.timeline.departures import RECORDED
from coterie.pipeline.timeline.epoch_handovers import GIVEN_UP
from coterie.pipeline.timeline.from_log import CHANGED_MEMBERS
from coterie.pipeline.timeline.model import DOWNGRADE, STREAMS, WITH_EPOCHS
from coterie.protocol.messages import connect_protocol

_EVIDENCE = {
    "journal": "recorded in the journal",
    "log": "derived from the group's log",
    "inferred": "inferred from the group's log",
}


# The evidence of what the coordinator recorded.
_JOURNAL = "journal"
# Causes by a member that was in the group and remains in it. If it has one member, it is that one.
_BY_PRESENT_MEMBERS = ("leader rejoin", "rejoin with changed subscription")


def rebalance_events(story: RebalanceStory) -> Iterator[Event]:
    """Return the events of a rebalance and of its generations."""
    row = story.row
    began = row["started_ts"] is not None
    remarks = (
        _duration(row), _cost(row), _changed_members(story), *_departures(story), *_epochs(story)
    )  # fmt: skip
    event = Event(
        story.at_ms,
        "▷" if began else "■",
        "yellow",
        _numbers(row),
        _cause(story),
        remarks=[text for text in remarks if text],
    )
    ownership, steps = story.before, story.steps
    if not began and [step.at_ms for step in steps] == [story.at_ms]:
        # Only the end is recorded: the rebalance and its generation are one event.
        result = _generation_event(steps[0], ownership, story)
        event = event._replace(
            remarks=[*event.remarks, *([result.details] if result.details else [])],
            members=result.members,
            hidden_members=result.hidden_members,
        )
        steps = []
    yield event
    for step in steps:
        yield _generation_event(step, ownership, story)
        ownership = step.ownership
    for session in story.restarts:
        yield _restart_event(session, story.name(session["member_key"]))


def _unit(row: Row) -> str:
    """Return what is numbered: consumer groups (KIP-848) and streams groups have epochs."""
    return "epoch" if row.get("group_type") in WITH_EPOCHS else "generation"


def _numbers(row: Row) -> str:
    before, after, unit = row["from_generation"], row["to_generation"], _unit(row)
    if after is None:
        return "a rebalance" if before is None else f"after {unit} {before}"
    if before is None:
        return f"first {unit}" if after == 1 else f"{unit} {after}"
    return f"{unit} {before} → {after}"


def _is_first_known(row: Row) -> bool:
    """Return whether nothing of the time before a rebalance is recorded."""
    if row["trigger"] == DOWNGRADE:
        # It was a consumer group before.
        return False
    first = row["from_generation"] is None and row["started_ts"] is None
    return bool(first and (row["to_generation"] or 0) > 1)


def _restart_event(session: Row, name: str) -> Event:
    """Return the event of a static member that came back without a rebalance."""
    client = client_text(session["client_id"], session["client_host"] or "?")
    return Event(
        session["first_seen_ts"],
        "±",
        "green",
        f"{name} restarted",
        f"{client}, without a rebalance",
    )


def _departures(story: RebalanceStory) -> Iterator[str]:
    """Yield how each member that left is known to have done so [pipeline/departures]."""
    for session in story.departures[:SHOWN_MEMBERS]:
        evidence = session.get("exit_evidence")
        if evidence and evidence != RECORDED:
            yield f"{story.name(session['member_key'])}: {session['exit_kind']}, {evidence}"


def _cause(story: RebalanceStory) -> str:
    row = story.row
    if _is_first_known(row):
        return "the first that is recorded"
    key, client_id = row["trigger_member_key"], row["trigger_client_id"]
    cause = row["trigger"] or "unknown cause"
    members = list(story.steps[-1].ownership.by_member) if story.steps else []
    if key is None and cause in _BY_PRESENT_MEMBERS and len(members) == 1:
        (key,) = members
    if cause == CHANGED_MEMBERS and client_id:
        # All members that joined or left are of this client.
        cause = "client returned"
    return joined_text(
        cause_text(
            cause,
            story.name(key) if key else None,
            row["subscription_change"],
            unit=_given(row),
        ),
        client_text(client_id, row["trigger_client_host"] or "?") if client_id else None,
        quoted_reason(row["trigger_reason"] or None),
    )


def _duration(row: Row) -> str:
    took: str | None
    # A store of an earlier version has no column for it.
    if cut_off_by := row.get("cut_off_by"):
        took = f"cut off by the {cut_off_by} of the group"
    elif row["completed_ts"] is None:
        took = "its end is not recorded"
    elif row["duration_ms"] is None:
        # A group's log never has beginnings; in a journal it is an exception.
        took = "its beginning is not recorded" if row["evidence"] == _JOURNAL else None
    else:
        phases = joined_text(
            *(
                f"{name} {duration_text(row[column])}"
                for name, column in (("join", "join_ms"), ("sync", "sync_ms"))
                if row[column] is not None
            )
        )
        took = f"took {duration_text(row['duration_ms'])}" + (f" ({phases})" if phases else "")
    delay_ms, skipped = row["initial_delay_ms"], row["skipped_generations"]
    return joined_text(
        took,
        f"{duration_text(delay_ms)} of it waiting for more members" if delay_ms else None,
        counted(row["generations"], _unit(row)) if row["generations"] > 1 else None,
        _skipped_text(row) if skipped else None,
        _EVIDENCE.get(row["evidence"], printable(str(row["evidence"]))),
    )


def _skipped_text(row: Row) -> str:
    """Return what is known of the generations whose numbers are left out."""
    skipped: int = row["skipped_generations"]
    if _unit(row) == "epoch":
        return f"{counted(skipped, 'epoch')} not reached before the next"
    if row["evidence"] == _JOURNAL:
        return f"{counted(skipped, 'generation')} never completed"
    return (
        f"{counted(skipped, 'generation', 'is', 'are')} not in the log: not completed, or compacted"
    )


def _cost(row: Row) -> str:
    if row["completed_ts"] is None or not row["partitions"]:
        return ""
    unit = _given(row)
    first = 2 if _unit(row) == "epoch" else 1
    if row.get("group_type") == STREAMS:
        # It may rise again before there are tasks.
        first += row["skipped_generations"]
    if row["from_generation"] is None and row["to_generation"] <= first:
        # Nothing was interrupted [pipeline/unowned-time].
        return f"{counted(row['partitions'], unit)} assigned for the first time"
    if _is_first_known(row):
        return f"{counted(row['partitions'], unit)} assigned"
    unowned_ms = row["unowned_partition_ms"]
    unowned = "not known" if unowned_ms is None else f"{duration_text(unowned_ms)} in total"
    if row["trigger"] == DOWNGRADE:
        # It is not compared with what the members of the consumer group had.
        return f"{unit}s without an owner: {unowned}; {counted(row['partitions'], unit)} assigned"
    moved = f"{row['moved']:,} of {counted(row['partitions'], unit)} moved"
    if row["moved"] and row["moved_min"] is not None:
        moved += f", {row['moved_min']:,} of them necessarily"
    return f"{unit}s without an owner: {unowned}; {moved}"


def _epochs(story: RebalanceStory) -> Iterator[str]:
    """Yield the later epochs of a rebalance, and how long members took to give up and take over."""
    for bump in story.bumps[1:][:SHOWN_MEMBERS]:
        key = bump["member_key"]
        name, unit = story.name(key) if key else None, _given(story.row)
        cause = cause_text(bump["cause"], name, None, unit=unit)
        after = duration_text(bump["at_ts"] - story.at_ms)
        yield f"epoch {bump['epoch']} after {after}: {cause}"
    ways: dict[tuple[Any, ...], list[TopicPartition]] = {}
    for row in story.handovers:
        names = "from_member_key", "to_member_key", "give_up_ms", "take_over_ms", "ended_by"
        place = row["topic"], row["partition"]
        ways.setdefault(tuple(row[name] for name in names), []).append(place)
    for (giver, taker, give_up_ms, take_over_ms, ended_by), places in list(ways.items())[
        :SHOWN_MEMBERS
    ]:
        if give_up_ms is None:
            given = "kept"
        elif ended_by != GIVEN_UP and not give_up_ms:
            given = f"free since a removal ({ended_by})"
        else:
            given = f"given up after {duration_text(give_up_ms)}"
            given += "" if ended_by == GIVEN_UP else f" ({ended_by})"
        taken = None if take_over_ms is None else f"taken over {duration_text(take_over_ms)} later"
        yield joined_text(
            f"{_text_of(story)(sorted(places))}: {story.name(giver)} to {story.name(taker)}",
            given,
            taken,
        )


def _changed_members(story: RebalanceStory) -> str:
    row = story.row
    if _is_first_known(row):
        return ""
    # Restarts without a rebalance have lines of their own.
    replaced = list(row["replaced"] or ())
    for session in story.restarts:
        if session["member_key"] in replaced:
            replaced.remove(session["member_key"])
    signs = (("+", row["joined"]), ("-", row["left"]), ("±", replaced))
    return "  ".join(
        f"{sign} {story.name(key)}" for sign, keys in signs for key in (keys or ())[:SHOWN_MEMBERS]
    )


def _generation_event(
    step: CompletedStep, before: OwnershipSnapshot, story: RebalanceStory
) -> Event:
    number = "?" if step.generation is None else step.generation
    members = list(step.ownership.by_member.items())
    owners_before, owners = before.owners, step.ownership.owners
    lines = []
    for key, partitions in members[:SHOWN_MEMBERS]:
        lost = [each for each in before.by_member.get(key, ()) if owners.get(each) != key]
        new = [each for each in partitions if owners_before.get(each) != key]
        remarks = [f"gave up {_text_of(story)(lost)}"] if lost else []
        remarks += _acquired(new, len(partitions), owners_before, story)
        lines.append(MemberLine(story.name(key), _text_of(story)(partitions), "; ".join(remarks)))
    return Event(
        step.at_ms,
        "■",
        "green",
        f"{_unit(story.row)} {number}",
        "" if members else "no members left",
        members=lines,
        hidden_members=len(members) - len(lines),
    )


def _text_of(story: RebalanceStory) -> Callable[[Sequence[TopicPartition]], str]:
    """Return what makes a text of partitions, or of tasks."""
    return work_text if _has_tasks(story.row) else partition_ranges


def _has_tasks(row: Row) -> bool:
    """Return whether members have the tasks of Connect or of a streams group."""
    is_of_connect = row["protocol"] in connect_protocol.PROTOCOLS
    return is_of_connect or row.get("group_type") == STREAMS


def _given(row: Row) -> str:
    """Return what members are given."""
    return "task" if _has_tasks(row) else "partition"


def _acquired(
    new: Sequence[TopicPartition],
    count: int,
    owners_before: Mapping[TopicPartition, str],
    story: RebalanceStory,
) -> list[str]:
    """Return the partitions that a member acquired, grouped by their last owner.

    Args:
        new: the acquired partitions.
        count: the number of all its partitions.
        owners_before: the owners in the generation before.
        story: the rebalance.
    """
    if _is_first_known(story.row):
        return []
    known = {(move["topic"], move["partition"]): move for move in story.moves}
    by_owner: dict[str | None, list[TopicPartition]] = {}
    gaps: dict[str | None, list[int]] = {}
    for partition in new:
        move = known.get(partition, {})
        owner = move.get("from_member_key") or owners_before.get(partition)
        by_owner.setdefault(owner, []).append(partition)
        gap_ms: Any = move.get("gap_ms")
        if gap_ms is not None:
            gaps.setdefault(owner, []).append(gap_ms)
    texts = []
    for owner, partitions in by_owner.items():
        longest_ms = max(gaps.get(owner, []), default=0)
        after = f" after {duration_text(longest_ms)}" if longest_ms else ""
        source = "new" if owner is None else f"from {story.name(owner)}"
        which = "" if len(partitions) == count else f"{_text_of(story)(partitions)} "
        texts.append(f"{which}{source}{after}")
    return texts
