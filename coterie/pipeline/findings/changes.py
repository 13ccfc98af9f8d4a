"""What happened to a group as the rules read it: its rebalances and its members' sessions.

Nothing here needs Arrow, so rules that read only this can be applied to a journal that was just
read.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

from coterie.pipeline.timeline.model import STREAMS

MINUTE_MS = 60_000
_FOREVER_MS = 1 << 62


class Event(NamedTuple):
    """A rebalance.

    Attributes:
        at_ms: when it began, or else when it ended.
        cause: why it began.
        identity: the member that caused it; None if unknown.
        joined, left: keys of members.
        members, partitions: the numbers after it.
        unowned_ms: the time without owner; None if unknown.
        moved, excess_moved: moves; the second is None if unknown.
        protocol: the assignor.
        to_generation: the generation with which it ended.
        group_type: that of the group then.
    """

    at_ms: int
    cause: str
    identity: str | None
    joined: Sequence[str]
    left: Sequence[str]
    members: int
    partitions: int
    unowned_ms: int | None
    moved: int
    excess_moved: int | None
    protocol: str | None
    to_generation: int | None
    group_type: str | None = None

    @property
    def partition_seconds(self) -> float:
        """The time without owner; where it is unknown, a second for each partition."""
        if self.unowned_ms is None:
            return float(self.partitions)
        return self.unowned_ms / 1000


def event_of(row: Mapping[str, Any]) -> Event | None:
    """Return a row of `rebalances`, with times in epoch milliseconds; None without any time."""
    at_ms = row["started_ts"] if row["started_ts"] is not None else row["completed_ts"]
    if at_ms is None:
        return None
    return Event(
        at_ms,
        row["trigger"] or "unknown",
        row["trigger_identity"],
        row["joined"] or (),
        row["left"] or (),
        row["members"] or 0,
        row["partitions"] or 0,
        row["unowned_partition_ms"],
        row.get("moved") or 0,
        row.get("excess_moved"),
        row.get("protocol"),
        row.get("to_generation"),
        row.get("group_type"),
    )


class Change(Protocol):
    """What a rebalance changed: the members that joined and left, and how many there are."""

    @property
    def at_ms(self) -> int: ...  # noqa: D102
    @property
    def joined(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def left(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def members(self) -> int: ...  # noqa: D102


C = TypeVar("C", bound=Change)

# A group that is empty for longer was stopped. Before that, all of its members may have failed.
STOPPED_MS = 10 * MINUTE_MS


def in_operation(changes: Sequence[C]) -> list[C]:
    """Return the rebalances of a group without those in which it was started or stopped.

    Starting are the joins of a group that was stopped, stopping the departures before that
    [pipeline/start-and-stop].

    Args:
        changes: all rebalances of the group, in order.
    """
    deliberate = set()
    is_starting = True
    for number, change in enumerate(changes):
        is_starting = is_starting and bool(change.joined) and not change.left
        if is_starting:
            deliberate.add(number)
        soon = _gap_ms(changes, number) <= STOPPED_MS
        is_starting = (is_starting and soon) or _stops(changes, number)
    is_stopping = False
    for number in reversed(range(len(changes))):
        change = changes[number]
        leaves = bool(change.left) and not change.joined
        soon = _gap_ms(changes, number) <= STOPPED_MS
        is_stopping = _stops(changes, number) or (is_stopping and soon and leaves)
        if is_stopping:
            deliberate.add(number)
    return [change for number, change in enumerate(changes) if number not in deliberate]


def _stops(changes: Sequence[C], number: int) -> bool:
    """Return whether the group is empty for long after a rebalance."""
    return not changes[number].members and _gap_ms(changes, number) > STOPPED_MS


def _gap_ms(changes: Sequence[C], number: int) -> int:
    """Return the time until the next rebalance; very long after the last one."""
    if number + 1 == len(changes):
        return _FOREVER_MS
    return changes[number + 1].at_ms - changes[number].at_ms


class Session(NamedTuple):
    """The time for which a member was in the group.

    Attributes:
        member_key, identity: the member [pipeline/member-identity].
        from_ms, to_ms: its beginning and end; `to_ms` None: it is still there.
        exit_kind: how it ended; None while it is there.
        entry_kind: how it began; None if unknown.
        silent_ms: how long its member had been silent at the end; None if unknown.
        session_timeout_ms, rebalance_timeout_ms: as its client set them; None if unknown.
        exit_evidence: how the exit is known.
    """

    member_key: str
    identity: str
    from_ms: int
    to_ms: int | None
    exit_kind: str | None
    entry_kind: str | None = None
    silent_ms: int | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    exit_evidence: str | None = None


def session_of(row: Mapping[str, Any]) -> Session:
    """Return a row of `member_sessions`, with times in epoch milliseconds."""
    return Session(
        row["member_key"],
        row["identity"] or row["member_key"],
        row["first_seen_ts"],
        row["last_seen_ts"],
        row["exit_kind"],
        row.get("entry_kind"),
        row["silent_ms"],
        row.get("session_timeout_ms"),
        row.get("rebalance_timeout_ms"),
        row.get("exit_evidence"),
    )


class Owned(NamedTuple):
    """The time for which a member owned a partition; `to_ms` None: until the end of the records.

    Of a streams group it is an active task, with its subtopology as the topic.
    """

    topic: str
    partition: int
    member_key: str
    from_ms: int
    to_ms: int | None


class Bump(NamedTuple):
    """A rise of the epoch of a KIP-848 group; `stable_ms` None: it rose again before."""

    at_ms: int
    cause: str
    identity: str | None
    stable_ms: int | None


def bump_of(row: Mapping[str, Any]) -> Bump:
    """Return a row of `epoch_bumps`, with times in epoch milliseconds."""
    return Bump(row["at_ts"], row["cause"], row["identity"], row["stable_ts"])


class Changes:
    """What happened to one group, in order of time.

    Attributes:
        group_id: the group.
        now_ms: the end of the records [pipeline/one-finding-a-cause].
    """

    def __init__(self, group_id: str, now_ms: int) -> None:
        """Name the group."""
        self.group_id = group_id
        self.now_ms = now_ms

    @cached_property
    def is_share_group(self) -> bool:
        """Whether its members share partitions: nothing is handed over, and nobody commits."""
        return False

    @cached_property
    def events(self) -> list[Event]:
        """Its rebalances."""
        raise NotImplementedError

    @cached_property
    def sessions(self) -> list[Session]:
        """The sessions of its members."""
        raise NotImplementedError

    @cached_property
    def owned(self) -> list[Owned]:
        """The times for which members owned partitions."""
        raise NotImplementedError

    @cached_property
    def bumps(self) -> list[Bump]:
        """The rises of its epoch."""
        raise NotImplementedError

    def mean_lag(self, from_ms: int, to_ms: int) -> float:
        """Return the largest mean lag of a partition in a time, 0 if none is known."""
        raise NotImplementedError

    @cached_property
    def has_tasks(self) -> bool:
        """Whether it is a streams group, whose members are given tasks [pipeline/streams-tasks]."""
        return any(event.group_type == STREAMS for event in self.events)

    @property
    def unit(self) -> str:
        """What its members are given."""
        return "task" if self.has_tasks else "partition"

    @cached_property
    def identities(self) -> Mapping[str, str]:
        """The identity of each member key."""
        return {session.member_key: session.identity for session in self.sessions}

    @cached_property
    def sessions_by_identity(self) -> Mapping[str, list[Session]]:
        """The sessions of each member, whatever its ids were."""
        found: dict[str, list[Session]] = defaultdict(list)
        for session in self.sessions:
            found[session.identity].append(session)
        return found

    @cached_property
    def _occupied(self) -> list[tuple[int, int]]:
        """The times at which it had members, without gaps between them."""
        found: list[tuple[int, int]] = []
        for session in self.sessions:
            end = _FOREVER_MS if session.to_ms is None else session.to_ms
            if found and session.from_ms <= found[-1][1]:
                found[-1] = (found[-1][0], max(found[-1][1], end))
            else:
                found.append((session.from_ms, end))
        return found

    def has_members(self, at_ms: int) -> bool:
        """Return whether it had a member at a time."""
        place = bisect_right(self._occupied, (at_ms, _FOREVER_MS + 1)) - 1
        return place >= 0 and self._occupied[place][1] > at_ms

    def empty_since_ms(self, at_ms: int) -> int | None:
        """Return since when it has had no members; None if it never had one before."""
        ends = [end for begin, end in self._occupied if begin <= at_ms and end <= at_ms]
        return max(ends, default=None)

    def members_within(self, from_ms: int, to_ms: int, identity: str | None = None) -> int:
        """Return the most members, or members of an identity, at one time."""
        changes = []
        sessions = self.sessions if identity is None else self.sessions_by_identity[identity]
        for session in sessions:
            end = _FOREVER_MS if session.to_ms is None else session.to_ms
            if session.from_ms > to_ms:
                break
            if end > from_ms:
                changes += [(max(session.from_ms, from_ms), 1), (end, -1)]
        count = most = 0
        for _, change in sorted(changes):
            count += change
            most = max(most, count)
        return most
