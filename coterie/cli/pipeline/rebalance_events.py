"""Events of a group's timeline, made from the pipeline's rebalances and ownership.

A rebalance is one event: when it began, from which generation to which, why, and who caused it;
remarks say how long it took and what it cost. Each generation on its way is a further event with
the members, their partitions, and what they gave up and took over.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coterie.cli.output import Row, printable
from coterie.cli.timeline import (
    SHOWN_MEMBERS,
    Event,
    MemberLine,
    TopicPartition,
    cause_text,
    client_text,
    count_text,
    duration_text,
    joined_text,
    member_name,
    partition_ranges,
    quoted_reason,
)
from coterie.pipeline.report.history import CompletedGeneration

_EVIDENCE = {
    "journal": "recorded in the journal",
    "log": "derived from the group's log",
    "inferred": "inferred from the group's log",
}


class OwnershipSnapshot(NamedTuple):
    """The partitions of each member at one moment, by member key; members without any included."""

    by_member: Mapping[str, Sequence[TopicPartition]]

    @property
    def owners(self) -> dict[TopicPartition, str]:
        """The owner of each partition."""
        return {
            partition: key for key, partitions in self.by_member.items() for partition in partitions
        }


class _OwnershipReplay:
    """Works out the ownership at one moment after the other."""

    def __init__(self, ownership: Sequence[Row], sessions: Sequence[Row]) -> None:
        """Begin before the first change.

        Args:
            ownership: rows of the table `ownership`.
            sessions: rows of the table `member_sessions`, which has members without partitions too.
        """
        changes: list[tuple[int, bool, Row]] = []
        for row in (*ownership, *sessions):
            begin, end = _period(row)
            if begin == end:
                continue
            # Sorted by time and then by False before True: what ends at a moment goes before what
            # begins at that moment.
            changes.append((begin, True, row))
            if end is not None:
                changes.append((end, False, row))
        self._changes = sorted(changes, key=lambda change: change[:2], reverse=True)
        self._members: dict[str, int] = {}
        self._owners: dict[TopicPartition, str] = {}

    def at(self, at_ms: int) -> OwnershipSnapshot:
        """Return the ownership after all changes up to a moment, which must not go back."""
        while self._changes and self._changes[-1][0] <= at_ms:
            _, begins, row = self._changes.pop()
            self._apply(row, begins=begins)
        by_member: dict[str, list[TopicPartition]] = {
            key: [] for key, count in self._members.items() if count > 0
        }
        for partition, key in sorted(self._owners.items()):
            by_member.setdefault(key, []).append(partition)
        return OwnershipSnapshot(dict(sorted(by_member.items())))

    def _apply(self, row: Row, *, begins: bool) -> None:
        key = row["member_key"]
        if "topic" not in row:
            # Counted, because the next session of a static member may begin before the last ends.
            self._members[key] = self._members.get(key, 0) + (1 if begins else -1)
            return
        partition = row["topic"], row["partition"]
        if begins:
            self._owners[partition] = key
        elif self._owners.get(partition) == key:
            del self._owners[partition]


def _period(row: Row) -> tuple[int, int | None]:
    if "topic" in row:
        return row["from_ts"], row["to_ts"]
    return row["first_seen_ts"], row["last_seen_ts"]


class CompletedStep(NamedTuple):
    """A generation that a rebalance went through; its number is None if it is not known."""

    generation: int | None
    at_ms: int
    ownership: OwnershipSnapshot


class RebalanceStory(NamedTuple):
    """A rebalance and its results.

    Attributes:
        row: its row in the table `rebalances`.
        before: the ownership before it.
        steps: its generations; the last one is its result.
        moves: its rows in the table `partition_moves`.
    """

    row: Row
    before: OwnershipSnapshot
    steps: list[CompletedStep]
    moves: list[Row]


def rebalance_stories(
    tables: Mapping[str, Sequence[Row]],
    moves: Sequence[Row],
    generations: Sequence[CompletedGeneration],
) -> list[RebalanceStory]:
    """Combine what is known of each rebalance of a group, in order of time.

    Args:
        tables: the group's rows of `rebalances`, `ownership` and `member_sessions`.
        moves: its rows of `partition_moves`.
        generations: its completed generations. KIP-848 groups have none; their assignments come
            from `ownership`.
    """
    replay = _OwnershipReplay(tables["ownership"], tables["member_sessions"])
    moves_by_end: dict[tuple[int, int | None], list[Row]] = {}
    for move in moves:
        moves_by_end.setdefault((move["at_ts"], move["to_generation"]), []).append(move)
    stories = []
    before, last_ms = OwnershipSnapshot({}), -1
    for row in tables["rebalances"]:
        end_ms, last = row["completed_ts"], row["to_generation"]
        steps: list[CompletedStep] = []
        if end_ms is not None:
            steps = [
                CompletedStep(each.generation, each.at_ms, OwnershipSnapshot(each.owned))
                for each in generations
                if last_ms <= each.at_ms <= end_ms and _belongs_to(each.generation, row)
            ]
            if not steps or steps[-1].generation != last:
                steps.append(CompletedStep(last, end_ms, replay.at(end_ms)))
        rebalance_moves = moves_by_end.get((end_ms or -1, last), [])
        stories.append(RebalanceStory(row, before, steps, rebalance_moves))
        if steps:
            before, last_ms = steps[-1].ownership, end_ms
    return stories


def _belongs_to(generation: int, row: Row) -> bool:
    """Return whether a generation is one of those that a rebalance went through."""
    last: int | None = row["to_generation"]
    if last is None or row["generations"] < 2:
        return generation == last
    first: int = -1 if row["from_generation"] is None else row["from_generation"]
    return first < generation <= last


def rebalance_events(story: RebalanceStory) -> Iterator[Event]:
    """Return the events of a rebalance and of its generations."""
    row = story.row
    began = row["started_ts"] is not None
    before = "?" if row["from_generation"] is None else row["from_generation"]
    after = "?" if row["to_generation"] is None else row["to_generation"]
    yield Event(
        row["started_ts"] if began else row["completed_ts"],
        "▷" if began else "■",
        "yellow",
        f"generation {before} → {after}",
        _cause(row),
        remarks=[text for text in (_duration(row), _cost(row), _changed_members(row)) if text],
    )
    ownership = story.before
    for step in story.steps:
        yield _generation_event(step, ownership, story.moves)
        ownership = step.ownership


def _cause(row: Row) -> str:
    key, client_id = row["trigger_member_key"], row["trigger_client_id"]
    return joined_text(
        cause_text(
            row["trigger"] or "unknown cause",
            member_name(key) if key else None,
            row["subscription_change"],
        ),
        client_text(client_id, row["trigger_client_host"] or "?") if client_id else None,
        quoted_reason(row["trigger_reason"] or None),
    )


def _duration(row: Row) -> str:
    if row["completed_ts"] is None:
        took = "its end is not recorded"
    elif row["duration_ms"] is None:
        took = "its beginning is not recorded"
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
        count_text(row["generations"], "generation") if row["generations"] > 1 else None,
        f"{skipped} never completed" if skipped else None,
        _EVIDENCE.get(row["evidence"], printable(str(row["evidence"]))),
    )


def _cost(row: Row) -> str:
    if row["completed_ts"] is None or not row["partitions"]:
        return ""
    unowned_ms = row["unowned_partition_ms"]
    unowned = "not known" if unowned_ms is None else f"{duration_text(unowned_ms)} in total"
    moved = f"{row['moved']} of {count_text(row['partitions'], 'partition')} moved"
    if row["moved"] and row["moved_min"] is not None:
        moved += f", {row['moved_min']} of them necessarily"
    return f"partitions without an owner: {unowned}; {moved}"


def _changed_members(row: Row) -> str:
    return "  ".join(
        f"{sign} {member_name(key)}"
        for sign, column in (("+", "joined"), ("-", "left"), ("±", "replaced"))
        for key in (row[column] or [])[:SHOWN_MEMBERS]
    )


def _generation_event(
    step: CompletedStep, before: OwnershipSnapshot, moves: Sequence[Row]
) -> Event:
    number = "?" if step.generation is None else step.generation
    members = list(step.ownership.by_member.items())
    owners_before, owners = before.owners, step.ownership.owners
    lines = []
    for key, partitions in members[:SHOWN_MEMBERS]:
        lost = [each for each in before.by_member.get(key, ()) if owners.get(each) != key]
        new = [each for each in partitions if owners_before.get(each) != key]
        remarks = [f"gave up {partition_ranges(lost)}"] if lost else []
        remarks += _acquired(new, len(partitions), owners_before, moves)
        lines.append(MemberLine(member_name(key), partition_ranges(partitions), "; ".join(remarks)))
    return Event(
        step.at_ms,
        "■",
        "green",
        f"generation {number}",
        "" if members else "no members left",
        members=lines,
        hidden_members=len(members) - len(lines),
    )


def _acquired(
    new: Sequence[TopicPartition],
    count: int,
    owners_before: Mapping[TopicPartition, str],
    moves: Sequence[Row],
) -> list[str]:
    """Return the partitions that a member acquired, grouped by their last owner.

    Args:
        new: the acquired partitions.
        count: the number of all its partitions.
        owners_before: the owners in the generation before.
        moves: rows of `partition_moves`.
    """
    known = {(move["topic"], move["partition"]): move for move in moves}
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
        source = "new" if owner is None else f"from {member_name(owner)}"
        which = "" if len(partitions) == count else f"{partition_ranges(partitions)} "
        texts.append(f"{which}{source}{after}")
    return texts
