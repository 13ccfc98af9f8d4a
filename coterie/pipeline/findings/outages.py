"""Outages: the broker is gone for a while, and clients that join anew leave old sessions behind.

What that looks like was recorded with real clients on a killed broker [pipeline/outage]:
kafka-python 3.0, aiokafka and Java's consumer keep their member ids; librdkafka joins anew within
2 s if the broker was away for longer than its session, and its old session expires one session
timeout after the load.

Nothing here needs Arrow, so `groups check` judges a journal by the same functions.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from coterie.pipeline.findings.changes import MINUTE_MS, Session
from coterie.pipeline.findings.finding import (
    WARNING,
    Finding,
    Rule,
    clock,
    cost_of,
    counted,
    duration,
    listed,
)
from coterie.pipeline.timeline.departures import LEAVE

# Consumers commit every five seconds by default.
LEAST_SILENCE_MS = 5_000
# Where commits are rare, a silence is unusual if it is this many times the gaps between them.
UNUSUAL = 3
_USUAL_PART = 0.95
# One group may have been killed and started again just then, while the other ones had nothing to
# read. That many groups were silent at once is no chance.
REPLACED_GROUPS = 2
SILENT_GROUPS = 4
# Members that were expelled come back within a heartbeat and a join phase; those that try an
# address that is not there wait up to some seconds between two attempts.
RETURN_MS = MINUTE_MS
# A coordinator that loads its groups begins the sessions of all members then. If clients cannot
# reach it for that long, all of them expire together, in many groups. Members that were killed
# expire within an interval of their heartbeats, which is some seconds.
TOGETHER_MS = 1_000
EXPIRED_TOGETHER = 4
# The times of commits are known to the second, so a shorter silence says nothing.
_SECOND_MS = 1_000
_LEAST_SILENCE_MS = 2 * _SECOND_MS

RESTART = Rule(
    "broker_restart",
    WARNING,
    "all groups were silent while the coordinator restarted or until members were new, or many"
    " groups rebalanced at once without a member that caused it: a broker or coordinator"
    " restarted, or a network failed",
)


class Silence(NamedTuple):
    """A time in which nothing was recorded of any group: the records before and after it."""

    from_ms: int
    to_ms: int


class Outage(NamedTuple):
    """A time without a broker, or several of which the members recovered once.

    Attributes:
        silences: in which nothing was recorded of any group; none if no commits are known.
        loaded_ms: when a coordinator loaded its partitions, as far as a journal says.
        replaced: the groups all of whose members were replaced after it, each with the time.
        partly: the groups of which only some members were.
        known: the groups that had members.
        missing: the identities of members that expired after it and did not come back.
    """

    silences: tuple[Silence, ...]
    loaded_ms: tuple[int, ...]
    replaced: tuple[tuple[str, int], ...]
    partly: tuple[tuple[str, int], ...]
    known: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def from_ms(self) -> int:
        """The last record before it."""
        return self.silences[0].from_ms if self.silences else self.loaded_ms[0]

    @property
    def back_ms(self) -> int:
        """When the broker was there again."""
        return self.loaded_ms[-1] if self.loaded_ms else self.silences[-1].to_ms

    @property
    def touched(self) -> tuple[tuple[str, int], ...]:
        """The groups that had new members, each with the last replacement."""
        return tuple(sorted(self.replaced + self.partly))

    @property
    def last_ms(self) -> int:
        """The last replacement; if nobody was replaced, when the broker was there again."""
        return max((at_ms for _, at_ms in self.touched), default=self.back_ms)


class _Moment(NamedTuple):
    """A time that may be an outage.

    Attributes:
        silence: around it; None if no commits are known.
        is_unusual: whether the silence is too long for chance.
        loaded_ms: when the coordinator loaded its partitions in it; None if no journal says so.
        until_ms: the last time at which members may be replaced because of it.
    """

    silence: Silence | None
    is_unusual: bool
    loaded_ms: int | None
    until_ms: int

    @property
    def from_ms(self) -> int:
        return self.silence.from_ms if self.silence is not None else self.loaded_ms or 0

    @property
    def back_ms(self) -> int:
        if self.loaded_ms is not None or self.silence is None:
            return self.loaded_ms or 0
        return self.silence.to_ms


class _Emptied(NamedTuple):
    """A group that was empty before its clients came back.

    Attributes:
        group_id: the group.
        ends_ms: when its sessions expired.
        back_ms: when the first client joined again.
    """

    group_id: str
    ends_ms: tuple[int, ...]
    back_ms: int


def outages(
    records_ms: Iterable[int], sessions: Mapping[str, Sequence[Session]], loaded_ms: Sequence[int]
) -> Iterator[Outage]:
    """Find the outages.

    Args:
        records_ms: when anything was recorded: commits, rebalances, joins and departures. None at
            all: only a journal is known, which has no commits.
        sessions: the sessions of each group.
        loaded_ms: when a coordinator loaded a partition, in order.
    """
    current: Outage | None = None
    for moment in _moments(sorted(set(records_ms)), loaded_ms):
        found = _outage(moment, sessions)
        if found is None:
            continue
        if current is not None and found.from_ms < current.last_ms:
            current = _merged(current, found)
            continue
        if current is not None:
            yield current
        current = found
    if current is not None:
        yield current


def _moments(times: Sequence[int], loaded_ms: Sequence[int]) -> list[_Moment]:
    """Return the unusual silences and the loads, in order of time."""
    gaps = sorted(later - earlier for earlier, later in pairwise(times))
    usual_ms = gaps[int(_USUAL_PART * (len(gaps) - 1))] if gaps else 0
    least_ms = max(LEAST_SILENCE_MS, UNUSUAL * usual_ms)
    # The partitions of a broker are loaded one after the other, so a start is several loads.
    starts = [
        each
        for number, each in enumerate(loaded_ms)
        if not number or each - loaded_ms[number - 1] > LEAST_SILENCE_MS
    ]
    found = []
    for earlier, later in pairwise(times):
        within = [each for each in starts if earlier < each - each % _SECOND_MS <= later]
        is_unusual = later - earlier >= (LEAST_SILENCE_MS if within else least_ms)
        if within or is_unusual:
            load = within[0] if within else None
            silence = Silence(earlier, max(later, load or later))
            found.append(_Moment(silence, is_unusual, load, 0))
            starts = [each for each in starts if each not in within]
    if not times:
        found += [_Moment(None, False, each, 0) for each in starts]
    return _with_limits(found)


def _with_limits(moments: Sequence[_Moment]) -> list[_Moment]:
    """Return moments with the last time of a replacement.

    If the broker is gone again before the members are back, they come back after that.
    """
    found = [each._replace(until_ms=each.back_ms + RETURN_MS) for each in moments]
    for number, (each, later) in enumerate(pairwise(found)):
        if later.from_ms <= each.until_ms:
            found[number] = each._replace(until_ms=later.back_ms + RETURN_MS)
    return found


def _outage(moment: _Moment, sessions: Mapping[str, Sequence[Session]]) -> Outage | None:
    from_ms = moment.from_ms
    known: list[str] = []
    missing: list[str] = []
    replaced: list[tuple[str, int]] = []
    partly: list[tuple[str, int]] = []
    emptied: list[_Emptied] = []
    for group_id, of_group in sessions.items():
        old = [
            each
            for each in of_group
            if each.from_ms <= from_ms and (each.to_ms is None or each.to_ms > from_ms)
        ]
        if not old:
            continue
        known.append(group_id)
        new = [each for each in of_group if from_ms < each.from_ms <= moment.until_ms]
        lost = [each for each in old if _is_lost(each, moment)]
        back = {each.identity for each in of_group if each.from_ms > from_ms}
        missing += [each.identity for each in lost if each.identity not in back]
        ends = [each.to_ms for each in lost if each.to_ms is not None]
        begins = [each.from_ms for each in new]
        gone = len(lost) == len(old) and max(ends) <= moment.until_ms
        # The group was never empty: its new members joined before or as the old ones expired.
        if gone and begins and min(begins) <= max(ends):
            replaced.append((group_id, max(*ends, min(begins))))
            continue
        if gone and {each.identity for each in lost} & {each.identity for each in new}:
            emptied.append(_Emptied(group_id, tuple(ends), min(begins)))
            continue
        again = [each.to_ms or 0 for each in lost if _joined_anew(each, new)]
        if again:
            partly.append((group_id, max(again)))
    if _expired_together(emptied):
        replaced += [(each.group_id, each.back_ms) for each in emptied]
    if not known or not _is_outage(moment, len(known), len(replaced), len(partly), missing):
        return None
    silence = moment.silence
    is_long_enough = silence is not None and silence.to_ms - silence.from_ms >= _LEAST_SILENCE_MS
    return Outage(
        (silence,) if silence is not None and is_long_enough else (),
        () if moment.loaded_ms is None else (moment.loaded_ms,),
        tuple(replaced),
        tuple(partly),
        tuple(known),
        tuple(missing),
    )


def _is_outage(
    moment: _Moment, known: int, replaced: int, partly: int, missing: Sequence[str]
) -> bool:
    if moment.loaded_ms is not None:
        return moment.is_unusual or bool(replaced or partly or missing)
    if replaced >= (1 if known >= SILENT_GROUPS else REPLACED_GROUPS):
        return True
    # The other members of a group cannot commit while it waits for the old session of one, so a
    # machine that fails can silence its groups; it can't silence others, and rarely so many.
    touched = replaced + partly
    return touched >= SILENT_GROUPS or (touched >= REPLACED_GROUPS and known > touched)


def _expired_together(emptied: "Sequence[_Emptied]") -> bool:
    """Return whether the members of several groups expired at one moment, and came back."""
    ends = [end_ms for each in emptied for end_ms in each.ends_ms]
    if len(emptied) < REPLACED_GROUPS or len(ends) < EXPIRED_TOGETHER:
        return False
    return max(ends) - min(ends) <= TOGETHER_MS


def _is_lost(session: Session, moment: _Moment) -> bool:
    """Return whether a session ended without a word since the broker was gone."""
    if session.to_ms is None or session.exit_kind == LEAVE:
        return False
    if session.silent_ms is None:
        return session.to_ms <= moment.until_ms
    return session.to_ms - session.silent_ms <= moment.back_ms + LEAST_SILENCE_MS


def _joined_anew(session: Session, new: Sequence[Session]) -> bool:
    """Return whether a client joined under a new member id before its old session expired."""
    return any(
        each.identity == session.identity and each.from_ms <= (session.to_ms or 0) for each in new
    )


def _merged(first: Outage, second: Outage) -> Outage:
    """Return two outages of which the members recovered once."""
    moments = dict(first.replaced) | dict(second.replaced)
    partly = dict(first.partly) | dict(second.partly)
    return Outage(
        first.silences + second.silences,
        first.loaded_ms + second.loaded_ms,
        tuple(sorted(moments.items())),
        tuple(sorted(each for each in partly.items() if each[0] not in moments)),
        tuple(sorted({*first.known, *second.known})),
        tuple(dict.fromkeys(first.missing + second.missing)),
    )


def outage_finding(
    outage: Outage, partitions: Mapping[str, int], now_ms: int, group_id: str | None = None
) -> Finding:
    """Return the finding of an outage.

    Args:
        outage: the outage.
        partitions: by group, as far as they are known.
        now_ms: the end of the records.
        group_id: the group, if only one was looked at; None for all.
    """
    silent_ms = sum(each.to_ms - each.from_ms for each in outage.silences)
    groups = [group for group, _ in outage.touched]
    said = [_silent(outage.silences)] if outage.silences else []
    said += [_who(outage)] if group_id is None else _who_in_group(outage)
    evidence = ", then ".join(said)
    if outage.missing:
        evidence += f"; did not come back: {listed(outage.missing)}"
    if outage.loaded_ms:
        evidence += loaded_text(outage.loaded_ms, now_ms)
    stopped = sum(partitions.get(each, 0) for each in outage.known)
    return Finding(
        RESTART.name,
        group_id,
        outage.from_ms,
        outage.last_ms,
        outage.from_ms,
        None,
        len(groups),
        evidence.removeprefix("; "),
        cost_of(stopped * silent_ms / 1000, 0),
        tuple(groups),
        silences=tuple((each.from_ms, each.to_ms) for each in outage.silences),
        groups_at_ms=tuple(at_ms for _, at_ms in outage.touched),
        lost_until_ms=outage.back_ms + (LEAST_SILENCE_MS if outage.loaded_ms else RETURN_MS),
    )


def _silent(silences: Sequence[Silence]) -> str:
    text = f"no commit of any group for {duration(silences[0].to_ms - silences[0].from_ms)}"
    for earlier, later in pairwise(silences):
        text += f", {duration(later.from_ms - earlier.to_ms)} later"
        text += f" for {duration(later.to_ms - later.from_ms)}"
    return text


def _who(outage: Outage) -> str:
    """Say in how many groups members were replaced."""
    known = counted(len(outage.known), "group")
    if not outage.touched:
        return f"no member of {known} was replaced"
    times = [at_ms for _, at_ms in outage.touched]
    within = f" within {duration(max(times) - min(times))}" if len(times) > 1 else ""
    parts = []
    if outage.replaced:
        parts.append(f"all members of {len(outage.replaced)}")
    if outage.partly:
        parts.append(f"{'some' if parts else 'some members'} of {len(outage.partly)}")
    return f"{' and '.join(parts)} of {known} were replaced{within}"


def _who_in_group(outage: Outage) -> list[str]:
    """Say whether the members of the only group were replaced."""
    if outage.replaced:
        return ["all members were replaced"]
    return ["some members were replaced"] if outage.partly else []


def loaded_text(loaded_ms: Sequence[int], now_ms: int) -> str:
    """Return the end of a sentence: when the coordinator loaded its partitions."""
    times = " and ".join(clock(each, now_ms) for each in loaded_ms)
    return f"; the coordinator loaded its partitions at {times}"
