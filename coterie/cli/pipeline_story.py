"""The story of a group as lines for people: a few a rebalance, and who owned what behind it.

First the line of its beginning: when, from which generation to which, why and whose doing. Then
what it cost. Then, for each generation on the way, its members with what they owned, gave up and
took over. Ids are shortened as in `coterie groups history`; `--json` has them whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from coterie.cli.history_text import (
    SHOWN_MEMBERS,
    Line,
    client_text,
    counted,
    duration,
    member_name,
    partition_ranges,
)
from coterie.cli.output import Row, printable
from coterie.pipeline.report.content import Place
from coterie.pipeline.report.history import CompletedGeneration

_INDENT = " " * 14
_WIDTH = 20

_EVIDENCE = {
    "journal": "told by the journal",
    "log": "follows from the group's log",
    "inferred": "guessed from the group's log",
}


class State(NamedTuple):
    """A group at one moment: what each member has, by its key; those with nothing included."""

    owned: Mapping[str, Sequence[Place]]

    @property
    def owners(self) -> dict[Place, str]:
        """Who has each partition."""
        return {place: key for key, places in self.owned.items() for place in places}


class States:
    """Who had what, asked for in order of time."""

    def __init__(self, ownership: Sequence[Row], sessions: Sequence[Row]) -> None:
        """Before everything.

        Args:
            ownership: rows of that table.
            sessions: rows of `member_sessions`: a member that has nothing is there too.
        """
        changes: list[tuple[int, bool, Row]] = []
        for row in (*ownership, *sessions):
            begin, end = _ends(row)
            # What ends at a moment goes before what begins then.
            if begin == end:
                continue
            changes.append((begin, True, row))
            if end is not None:
                changes.append((end, False, row))
        self._changes = sorted(changes, key=lambda change: change[:2], reverse=True)
        self._members: dict[str, int] = {}
        self._owners: dict[Place, str] = {}

    def at(self, at_ms: int) -> State:
        """The state after everything that happened up to a moment, not before the last asked."""
        while self._changes and self._changes[-1][0] <= at_ms:
            _, begins, row = self._changes.pop()
            self._change(row, begins=begins)
        owned: dict[str, list[Place]] = {
            key: [] for key, count in self._members.items() if count > 0
        }
        for place, key in sorted(self._owners.items()):
            owned.setdefault(key, []).append(place)
        return State(dict(sorted(owned.items())))

    def _change(self, row: Row, *, begins: bool) -> None:
        key = row["member_key"]
        if "topic" not in row:
            # A static member that is started again comes at the moment at which it goes.
            self._members[key] = self._members.get(key, 0) + (1 if begins else -1)
            return
        place = row["topic"], row["partition"]
        if begins:
            self._owners[place] = key
        elif self._owners.get(place) == key:
            del self._owners[place]


def _ends(row: Row) -> tuple[int, int | None]:
    if "topic" in row:
        return row["from_ts"], row["to_ts"]
    return row["first_seen_ts"], row["last_seen_ts"]


class Step(NamedTuple):
    """A generation on the way of a rebalance; its number is None where that is not known."""

    generation: int | None
    at_ms: int
    state: State


class ToldRebalance(NamedTuple):
    """A rebalance with what came of it.

    Attributes:
        row: of `rebalances`.
        before: who had what before it.
        steps: its generations; the last one is what it ended with.
        moves: rows of `partition_moves`.
    """

    row: Row
    before: State
    steps: list[Step]
    moves: list[Row]


def told_rebalances(
    tables: Mapping[str, Sequence[Row]],
    moves: Sequence[Row],
    generations: Sequence[CompletedGeneration],
) -> list[ToldRebalance]:
    """Bring together what is known of each rebalance, in order of time.

    Args:
        tables: `rebalances`, `ownership` and `member_sessions` of a group.
        moves: rows of `partition_moves`.
        generations: the completed ones; where there are none (KIP-848 groups), who had what comes
            from `ownership`.
    """
    states = States(tables["ownership"], tables["member_sessions"])
    by_end: dict[tuple[int, int | None], list[Row]] = {}
    for move in moves:
        by_end.setdefault((move["at_ts"], move["to_generation"]), []).append(move)
    found = []
    before, last_ms = State({}), -1
    for row in tables["rebalances"]:
        end_ms, last = row["completed_ts"], row["to_generation"]
        steps: list[Step] = []
        if end_ms is not None:
            steps = [
                Step(each.generation, each.at_ms, State(each.owned))
                for each in generations
                if last_ms <= each.at_ms <= end_ms and _is_on_the_way(each.generation, row)
            ]
            if not steps or steps[-1].generation != last:
                steps.append(Step(last, end_ms, states.at(end_ms)))
        found.append(ToldRebalance(row, before, steps, by_end.get((end_ms or -1, last), [])))
        if steps:
            before, last_ms = steps[-1].state, end_ms
    return found


def _is_on_the_way(generation: int, row: Row) -> bool:
    """Whether a generation was completed in a rebalance, by its number."""
    last: int | None = row["to_generation"]
    if last is None or row["generations"] < 2:
        return generation == last
    first: int = -1 if row["from_generation"] is None else row["from_generation"]
    return first < generation <= last


class StoryText:
    """Tells rebalances, one after the other."""

    def __init__(self) -> None:
        self._day = ""

    def lines(self, told: ToldRebalance) -> Iterator[Line]:
        """The lines of the next one."""
        row = told.row
        began_ms = row["started_ts"] if row["started_ts"] is not None else row["completed_ts"]
        day = datetime.fromtimestamp(began_ms / 1000, UTC).strftime("%Y-%m-%d UTC")
        if day != self._day:
            self._day = day
            yield [(day, "bold")]
        before = "?" if row["from_generation"] is None else row["from_generation"]
        after = "?" if row["to_generation"] is None else row["to_generation"]
        sign = "▷" if row["started_ts"] is not None else "■"
        yield [
            (f"{_clock(began_ms)}  ", "dim"),
            (f"{sign} {f'generation {before} → {after}'.ljust(_WIDTH)}", "yellow"),
            (f"  {_why(row)}", ""),
        ]
        for text in (_took(row), _cost(row), _comings(row)):
            if text:
                yield [(f"{_INDENT}{text}", "")]
        state = told.before
        for step in told.steps:
            yield from _generation(step, state, told.moves)
            state = step.state


def _clock(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at:%H:%M:%S}.{at_ms % 1000:03d}"


def _why(row: Row) -> str:
    parts = [printable(row["trigger"] or "unknown")]
    if row["subscription_change"]:
        parts[0] += f" ({printable(row['subscription_change'])})"
    if row["trigger_member_key"]:
        parts[0] += f" by {member_name(row['trigger_member_key'], None)}"
    if row["trigger_client_id"]:
        parts.append(client_text(row["trigger_client_id"], row["trigger_client_host"] or "?"))
    if row["trigger_reason"]:
        parts.append(f'"{printable(row["trigger_reason"])}"')
    return ", ".join(parts)


def _took(row: Row) -> str:
    parts = []
    if row["completed_ts"] is None:
        parts.append("its end is not recorded")
    elif row["duration_ms"] is None:
        parts.append("its beginning is not recorded")
    else:
        phases = [
            f"{name} {duration(row[column])}"
            for name, column in (("join", "join_ms"), ("sync", "sync_ms"))
            if row[column] is not None
        ]
        told = f" ({', '.join(phases)})" if phases else ""
        parts.append(f"took {duration(row['duration_ms'])}{told}")
    if row["initial_delay_ms"]:
        parts.append(f"{duration(row['initial_delay_ms'])} of it waiting for more members")
    if row["generations"] > 1:
        parts.append(counted(row["generations"], "generation"))
    if row["skipped_generations"]:
        parts.append(f"{row['skipped_generations']} never completed")
    parts.append(_EVIDENCE.get(row["evidence"], printable(str(row["evidence"]))))
    return ", ".join(parts)


def _cost(row: Row) -> str:
    if row["completed_ts"] is None or not row["partitions"]:
        return ""
    unowned = row["unowned_partition_ms"]
    how_long = "not known" if unowned is None else f"{duration(unowned)} over all partitions"
    moved = f"{row['moved']} of {counted(row['partitions'], 'partition')} moved"
    if row["moved"] and row["moved_min"] is not None:
        moved += f", {row['moved_min']} had to"
    return f"without an owner: {how_long}; {moved}"


def _comings(row: Row) -> str:
    return "  ".join(
        f"{sign} {member_name(key, None)}"
        for sign, column in (("+", "joined"), ("-", "left"), ("±", "replaced"))
        for key in (row[column] or [])[:SHOWN_MEMBERS]
    )


def _generation(step: Step, before: State, moves: Sequence[Row]) -> Iterator[Line]:
    number = "?" if step.generation is None else step.generation
    members = list(step.state.owned.items())
    yield [
        (f"{_clock(step.at_ms)}  ", "dim"),
        (f"■ generation {number}", "green"),
        ("" if members else ": nobody is left", ""),
    ]
    owners_before, owners = before.owners, step.state.owners
    shown = members[:SHOWN_MEMBERS]
    names = {key: member_name(key, None) for key, _ in shown}
    texts = {key: partition_ranges(list(places)) for key, places in shown}
    name_width = max(map(len, names.values()), default=0)
    text_width = max(map(len, texts.values()), default=0)
    for place, (key, places) in enumerate(shown, 1):
        corner = "└" if place == len(members) else "├"
        lost = [each for each in before.owned.get(key, ()) if owners.get(each) != key]
        new = [each for each in places if owners_before.get(each) != key]
        remarks = [f"gave up {partition_ranges(lost)}"] if lost else []
        remarks += _taken(new, len(places), owners_before, moves)
        yield [
            (f"{_INDENT}{corner} ", "dim"),
            (names[key].ljust(name_width), "cyan"),
            (f"  {texts[key].ljust(text_width if remarks else 0)}", ""),
            (f"  {'; '.join(remarks)}" if remarks else "", "dim"),
        ]
    if len(members) > len(shown):
        yield [(f"{_INDENT}└ and {len(members) - len(shown)} more", "dim")]


def _taken(
    new: Sequence[Place], count: int, owners_before: Mapping[Place, str], moves: Sequence[Row]
) -> list[str]:
    """What a member has that it did not have, of `count` in all, by whose it was."""
    known = {(move["topic"], move["partition"]): move for move in moves}
    by_owner: dict[str | None, list[Place]] = {}
    gaps: dict[str | None, list[int]] = {}
    for place in new:
        move = known.get(place, {})
        owner = move.get("from_member_key") or owners_before.get(place)
        by_owner.setdefault(owner, []).append(place)
        gap: Any = move.get("gap_ms")
        if gap is not None:
            gaps.setdefault(owner, []).append(gap)
    told = []
    for owner, places in by_owner.items():
        longest = max(gaps.get(owner, []), default=0)
        after = f" after {duration(longest)}" if longest else ""
        came = "new" if owner is None else f"from {member_name(owner, None)}"
        which = "" if len(places) == count else f"{partition_ranges(places)} "
        told.append(f"{which}{came}{after}")
    return told
