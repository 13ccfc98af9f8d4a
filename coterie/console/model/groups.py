"""The rows of the groups page: every group with its state, lag, and last rebalances.

The model is given looks at the cluster and facts of the journal, and says which rows have changed.
It has no clock and asks nothing [console/rows].
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coterie.client.group_description import GroupDescription
from coterie.client.group_totals import catch_up_s, totals_row
from coterie.client.groups import ListedGroup
from coterie.client.health.observation import REBALANCING
from coterie.client.progress import Sample
from coterie.console.model.past import HOUR_MS, Mark, Recorded, Seen
from coterie.console.model.series import WINDOW_MS, Ends, Steps
from coterie.protocol.messages import consumer_group_facts as epoch_facts
from coterie.protocol.messages import journal_records as journal
from coterie.protocol.messages.journal_records import Fact

Row = dict[str, Any]

# Rates are those of this time: consumers commit every five seconds by default.
RATE_S = 10.0

# Of all groups, in one answer: about a megabyte.
MOST_MARKS = 20_000

# The state that a group has after a fact, so that a page shows it before the next look.
_STATES: dict[type[Fact], str] = {
    journal.RebalanceBegan: "PreparingRebalance",
    journal.JoinCompleted: "CompletingRebalance",
    journal.GenerationCompleted: "Stable",
    journal.GroupEmptied: "Empty",
    epoch_facts.GroupEpochRaised: "Assigning",
    epoch_facts.TargetComputed: "Reconciling",
    epoch_facts.GroupConverged: "Stable",
}


class GroupsLook(NamedTuple):
    """All groups, or some, at one time.

    Attributes:
        began_ms: when it began, in epoch milliseconds: what has happened before is in it.
        listed: the groups.
        described: those that exist and have members and offsets of the kind that is known.
        sample: their offsets.
        is_whole: whether a group that is not listed does not exist.
        refused: the names of errors of the groups that the user may not describe.
    """

    began_ms: int
    listed: Sequence[ListedGroup]
    described: Mapping[str, GroupDescription]
    sample: Sample
    is_whole: bool = True
    refused: Mapping[str, str] = {}


class Changes(NamedTuple):
    """What has changed.

    Attributes:
        changed: the rows that are new or differ from before.
        removed: the names of groups that do not exist any more.
    """

    changed: list[Row]
    removed: list[str]


class _Track:
    """What is known of one group."""

    def __init__(self) -> None:
        self.row: Row = {}
        self.lags = Steps()
        self.seen = Seen()
        self.recorded: list[Mark] | None = None
        self.committed: dict[tuple[str, int], int] | None = None
        self.last_commit_ms: int | None = None
        # By our clock, when the last facts about it were read.
        self.facts_ms = 0

    @property
    def marks(self) -> list[Mark]:
        """Its rebalances."""
        return self.seen.marks if self.recorded is None else self.recorded


def strip_of(marks: Sequence[Mark], since_ms: int) -> list[list[Any]]:
    """Return the rebalances that had not ended at a time."""
    return [
        [each.from_ms, each.to_ms, each.cause, each.unowned_ms]
        for each in marks
        if each.to_ms is None or each.to_ms > since_ms
    ]


def fitting(found: list[tuple[str, int, list[list[Any]]]]) -> list[Row]:
    """Return strips by group, with at most `MOST_MARKS` rebalances together.

    Groups with trouble come first, then those with many rebalances.

    Args:
        found: of each group its name, its trouble, and its strip.
    """
    rows: list[Row] = []
    left = MOST_MARKS
    for name, _, strip in sorted(found, key=lambda each: (-each[1], -len(each[2]), each[0])):
        left -= len(strip)
        if left < 0:
            break
        rows.append({"group": name, "strip": strip})
    return rows


class GroupsModel:
    """The rows of all groups."""

    def __init__(self) -> None:
        self._tracks: dict[str, _Track] = {}
        self._ends: dict[tuple[str, int], Ends] = {}
        self._samples: list[Sample] = []
        self._recorded = Recorded()
        self._trouble: dict[str, int] = {}
        self._has_journal = False

    @property
    def rows(self) -> list[Row]:
        """All rows, by name."""
        return [track.row for _, track in sorted(self._tracks.items()) if track.row]

    @property
    def facts(self) -> Mapping[str, Sequence[Fact]] | None:
        """The facts of the last hour; None if the broker keeps no journal."""
        return self._recorded.facts if self._has_journal else None

    def add_look(self, look: GroupsLook, now_ms: int) -> Changes:
        """Add a look; `now_ms` is when it ended."""
        for partition, end in look.sample.ends.items():
            self._ends.setdefault(partition, Ends()).add(now_ms, end)
        before = self._earlier(look.sample)
        changed = [
            row
            for each in look.listed
            if (row := self._looked_at(each, look, before, now_ms)) is not None
        ]
        removed: list[str] = []
        if look.is_whole:
            names = {each.group_id for each in look.listed}
            removed = [name for name in self._tracks if name not in names]
            for name in removed:
                del self._tracks[name]
            for partition in self._ends.keys() - look.sample.ends.keys():
                del self._ends[partition]
            self._samples.append(look.sample)
        return Changes(changed, removed)

    def _earlier(self, sample: Sample) -> Sample | None:
        """Return the sample that rates are made with, and forget older ones."""
        samples = self._samples
        while len(samples) > 1 and samples[1].at_s <= sample.at_s - RATE_S:
            del samples[0]
        return samples[0] if samples and samples[0].at_s < sample.at_s else None

    def _looked_at(
        self, listed: ListedGroup, look: GroupsLook, before: Sample | None, now_ms: int
    ) -> Row | None:
        name = listed.group_id
        track = self._tracks.setdefault(name, _Track())
        group = look.described.get(name)
        totals = totals_row(group, before, look.sample)
        state = group.state if group is not None and group.state else listed.state
        if track.facts_ms >= look.began_ms and track.row:
            # The facts are newer than the look.
            state, totals["member_count"] = track.row["state"], track.row["member_count"]
        track.seen.add(now_ms, state, group)
        if totals["lag"] is not None:
            track.lags.add(now_ms, totals["lag"])
        self._note_commits(track, name, look.sample, now_ms)
        row = {
            "group": name,
            "type": listed.type,
            "protocol_type": listed.protocol_type,
            "state": state,
            **totals,
            "assignment_strategy": None if group is None else group.protocol or None,
            "coordinator_id": None if group is None else group.coordinator.node_id,
            "lag_ms": self._lag_ms(name, look.sample, now_ms),
            "catch_up_s": catch_up_s(
                totals["lag"], totals["lag_growth_per_s"], totals["produced_per_s"]
            ),
            "lag_trend": track.lags.points,
            "last_commit_ms": track.last_commit_ms,
            "refused": look.refused.get(name),
        }
        return self._changed(name, track, row, now_ms)

    def _note_commits(self, track: _Track, name: str, sample: Sample, now_ms: int) -> None:
        offsets = sample.committed.get(name)
        if offsets is None:
            return
        committed = {partition: each.offset for partition, each in offsets.items()}
        if track.committed is not None and committed != track.committed:
            track.last_commit_ms = now_ms
        track.committed = committed

    def _lag_ms(self, name: str, sample: Sample, now_ms: int) -> int | None:
        """Return the age of the oldest record that is not read; None if it is not known."""
        ages: list[int] = []
        for partition, committed in sample.committed.get(name, {}).items():
            ends = self._ends.get(partition)
            if ends is None or partition not in sample.ends:
                continue
            age_ms = ends.age_ms(committed.offset, now_ms)
            if age_ms is None:
                return None
            ages.append(age_ms)
        return max(ages, default=None)

    def _changed(self, name: str, track: _Track, row: Row, now_ms: int) -> Row | None:
        """Complete a row with what is known of its past; return it if it differs from before."""
        marks = track.marks
        last = marks[-1] if marks else None
        row |= {
            # The names that the page has.
            "members": row["member_count"],
            "partitions": row["partition_count"],
            "records_per_s": row["consumed_per_s"],
            "rebalances_1h": sum(each.from_ms > now_ms - HOUR_MS for each in marks),
            "last_rebalance": None
            if last is None
            else {"at_ms": last.to_ms or last.from_ms, "cause": last.cause, "who": last.who},
            "strip": strip_of(marks, now_ms - WINDOW_MS),
            "trouble": self._trouble.get(name, 0) + (row["state"] in REBALANCING),
        }
        if row == track.row:
            return None
        track.row = row
        return row

    def strips(self, now_ms: int) -> list[Row]:
        """Return the rebalances of the last hour, by group: at most `MOST_MARKS` of all."""
        found = [
            (name, track.row["trouble"], strip)
            for name, track in self._tracks.items()
            if track.row and (strip := strip_of(track.marks, now_ms - HOUR_MS))
        ]
        return fitting(found)

    def forget_facts(self) -> None:
        """Forget the facts, because the journal is read again; rebalances stay known."""
        self._recorded = Recorded()

    def add_facts(
        self, by_group: Mapping[str, Sequence[Fact]], now_ms: int
    ) -> tuple[Changes, list[dict[str, Any]]]:
        """Add facts of the journal; return what has changed, and the rebalances that ended."""
        self._has_journal = True
        changed: list[Row] = []
        ended: list[dict[str, Any]] = []
        for name, facts in by_group.items():
            track = self._tracks.setdefault(name, _Track())
            before = track.recorded or []
            track.recorded = marks = self._recorded.add(name, facts, before, now_ms)
            track.facts_ms = now_ms
            known = {each.from_ms for each in before if each.to_ms is not None}
            ended += [
                {"group": name, "at_ms": each.to_ms, "cause": each.cause, "who": each.who}
                for each in marks
                if each.to_ms is not None and each.from_ms not in known
            ]
            if not track.row:
                # It has not been looked at yet.
                continue
            row = dict(track.row)
            for fact in facts:
                row["state"] = _STATES.get(type(fact), row["state"])
                row["member_count"] = getattr(fact, "member_count", row["member_count"])
                if isinstance(fact, journal.GenerationCompleted):
                    row["member_count"] = len(fact.members)
            new = self._changed(name, track, row, now_ms)
            if new is not None:
                changed.append(new)
        return Changes(changed, []), ended

    def set_trouble(self, trouble: Mapping[str, int], now_ms: int) -> Changes:
        """Set the weight of the findings of each group; groups without any have none."""
        self._trouble = dict(trouble)
        return Changes(
            [
                row
                for name, track in self._tracks.items()
                if track.row
                and (row := self._changed(name, track, dict(track.row), now_ms)) is not None
            ],
            [],
        )
