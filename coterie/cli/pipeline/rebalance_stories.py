"""What is known of each rebalance of a group: its row, its generations, owners and members."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from coterie.cli.output import Row
from coterie.cli.timeline import TopicPartition, member_name
from coterie.client.names import short_member
from coterie.pipeline.report.history import CompletedGeneration
from coterie.pipeline.timeline.model import WITH_EPOCHS
from coterie.pipeline.timeline.sessions import REPLACED, RESTARTED_FREELY
from coterie.pipeline.timeline.tasks import OWNING_ROLES


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

    def __init__(self, ownership: Iterable[Row], sessions: Sequence[Row]) -> None:
        """Begin before the first change.

        Args:
            ownership: rows of the table `ownership`, without copies of tasks.
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
        restarts: the members that were restarted after it, before the next one, without a
            rebalance: rows of `member_sessions`.
        departures: rows of `member_sessions` of the members that left with it.
        names: the names of members by key.
        bumps, handovers: of a group with epochs its rows of `epoch_bumps` and `epoch_handovers`.
    """

    row: Row
    before: OwnershipSnapshot
    steps: list[CompletedStep]
    moves: list[Row]
    restarts: Sequence[Row] = ()
    departures: Sequence[Row] = ()
    names: Mapping[str, str] = MappingProxyType({})
    bumps: Sequence[Row] = ()
    handovers: Sequence[Row] = ()

    def name(self, key: str) -> str:
        """Return the name of a member."""
        return self.names.get(key) or member_name(key)

    @property
    def at_ms(self) -> int:
        """When it began, or when the first of its generations was completed."""
        at_ms: int | None = self.row["started_ts"]
        if at_ms is None:
            at_ms = self.steps[0].at_ms if self.steps else self.row["completed_ts"]
        return at_ms or 0


def rebalance_stories(
    tables: Mapping[str, Sequence[Row]],
    moves: Sequence[Row],
    generations: Sequence[CompletedGeneration],
) -> list[RebalanceStory]:
    """Combine what is known of each rebalance of a group, in order of time.

    Args:
        tables: the group's rows of `rebalances`, `ownership` and `member_sessions`, and of its
            epochs.
        moves: its rows of `partition_moves`.
        generations: its completed generations. The tables have none of consumer groups; their
            assignments come from `ownership`.
    """
    owned = (row for row in tables["ownership"] if row.get("role") in OWNING_ROLES)
    replay = _OwnershipReplay(owned, tables["member_sessions"])
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
                if max(last_ms, _epochs_began_ms(row)) <= each.at_ms <= end_ms
                and _belongs_to(each.generation, row)
            ]
            if not steps or steps[-1].generation != last:
                steps.append(CompletedStep(last, end_ms, replay.at(end_ms)))
        rebalance_moves = moves_by_end.get((end_ms or -1, last), [])
        story = RebalanceStory(row, before, steps, rebalance_moves)
        if row.get("group_type") in WITH_EPOCHS:
            story = story._replace(
                bumps=_of_epochs(_within(tables.get("epoch_bumps", ()), "at_ts", row), row),
                handovers=_of_epochs(
                    _within(tables.get("epoch_handovers", ()), "asked_ts", row), row
                ),
            )
        stories.append(story)
        if steps:
            before, last_ms = steps[-1].ownership, end_ms
    return _with_members(stories, tables["member_sessions"])


def _within(rows: Sequence[Row], column: str, rebalance: Row) -> list[Row]:
    """Return the rows from the beginning of a rebalance to its end, which are in order of time."""
    first = bisect_left(rows, rebalance["started_ts"] or 0, key=itemgetter(column))
    if rebalance["completed_ts"] is None:
        return list(rows[first:])
    return list(rows[first : bisect_right(rows, rebalance["completed_ts"], key=itemgetter(column))])


def _epochs_began_ms(rebalance: Row) -> int:
    """Return when a rebalance of epochs began; a generation before it may have the same number."""
    if rebalance.get("group_type") not in WITH_EPOCHS:
        return -1
    began_ms: int | None = rebalance["started_ts"]
    return -1 if began_ms is None else began_ms


def _of_epochs(rows: list[Row], rebalance: Row) -> list[Row]:
    """Return those of the epochs of a rebalance: two may begin at the same time."""
    first, last = rebalance["from_generation"], rebalance["to_generation"]
    return [
        row
        for row in rows
        if (first is None or row["epoch"] > first) and (last is None or row["epoch"] <= last)
    ]


def _with_members(
    stories: Sequence[RebalanceStory], sessions: Sequence[Row]
) -> list[RebalanceStory]:
    """Add the restarts and departures of members to the rebalances that they belong to."""
    begins = [story.at_ms for story in stories]
    names = {row["member_key"]: _name(row) for row in sessions}
    restarts: dict[int, list[Row]] = {}
    departures: dict[int, list[Row]] = {}
    for session in sessions:
        if session.get("entry_kind") == RESTARTED_FREELY:
            place = bisect_right(begins, session["first_seen_ts"]) - 1
            restarts.setdefault(place, []).append(session)
        if session["last_seen_ts"] is not None and session["exit_kind"] != REPLACED:
            departures.setdefault(session["last_seen_ts"], []).append(session)
    return [
        story._replace(
            names=names,
            restarts=restarts.get(number, ()),
            departures=[
                session
                for at_ms in {story.row["started_ts"], story.row["completed_ts"]} - {None}
                for session in departures.get(at_ms, ())
                if session["member_key"] in (story.row["left"] or ())
            ],
        )
        for number, story in enumerate(stories)
    ]


def _belongs_to(generation: int, row: Row) -> bool:
    """Return whether a generation is one of those that a rebalance went through."""
    last: int | None = row["to_generation"]
    if last is None or row["generations"] < 2:
        return generation == last
    first: int = -1 if row["from_generation"] is None else row["from_generation"]
    return first < generation <= last


def _name(session: Row) -> str:
    """Return a member's name, which begins with its client id [terminal/timelines]."""
    key, client_id = session["member_key"], session["client_id"]
    if key != session["member_id"] or not client_id or key.startswith(client_id):
        return member_name(key)
    return short_member(key, key, client_id)
