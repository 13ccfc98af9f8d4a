"""The history of a group as lines for people: one a fact, and who owns what behind a generation.

A line is the time, a sign, what happened, and what explains it. Ids that end in a uuid are shown
with the first part of it; `--json` has them whole. Members are followed by instance id where they
have one, since a restart changes the other.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from coterie.cli.output import printable
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages import journal_records as facts
from coterie.protocol.messages.consumer_protocol import decode_assignment

# A part of a line: text and rich style.
Part = tuple[str, str]
Line = list[Part]

# Members shown below a generation: what fits on a screen.
SHOWN_MEMBERS = 20

_WHAT_WIDTH = 24
_UUID = re.compile(r"-([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

Owners = dict[tuple[str, int], str]

_CHANGES = {
    "topics": "came back with other topics",
    "protocols": "came back with other assignors",
    "owned partitions": "came back with other partitions, as cooperative members do",
    "user data": "came back with other user data",
    "opaque": "came back with other metadata",
}


class Timeline:
    """Tells facts in their order; it remembers who had what, to tell what moved.

    A partition that a cooperative rebalance took away from one member and gave to the next a
    generation later has moved then: who had it last counts.
    """

    def __init__(self) -> None:
        self._day = ""
        # None where that is not known: at the beginning, and where assignments can't be read.
        self._owned: set[tuple[str, int]] | None = None
        self._last_owners: Owners = {}

    def lines(self, some: Iterable[facts.Fact]) -> Iterator[Line]:
        """The lines of the facts that come next."""
        for fact in some:
            at = datetime.fromtimestamp(fact.at_ms / 1000, UTC)
            day = at.strftime("%Y-%m-%d UTC")
            if day != self._day:
                self._day = day
                yield [(day, "bold")]
            time = f"{at:%H:%M:%S}.{fact.at_ms % 1000:03d}"
            sign, style, what, details = _TOLD[type(fact)](fact)
            below: list[Line] = []
            if isinstance(fact, facts.GenerationCompleted):
                moves, below = self._generation(fact)
                details += moves
            elif isinstance(fact, facts.GroupDeleted | facts.GroupExpired | facts.GroupEmptied):
                self._owned, self._last_owners = set(), {}
            yield [
                (f"{time}  ", "dim"),
                (f"{sign} {what.ljust(_WHAT_WIDTH)}", style),
                (f"  {details}", ""),
            ]
            yield from below

    def _generation(self, fact: facts.GenerationCompleted) -> tuple[str, list[Line]]:
        """What moved, and the members with what they own."""
        owned = {_identity(member): _partitions(fact, member) for member in fact.members}
        before, self._owned = self._owned, None
        if any(partitions is None for partitions in owned.values()):
            return "", list(_tree(fact, owned))
        now: Owners = {
            partition: name for name, partitions in owned.items() for partition in partitions or ()
        }
        moved = sum(self._last_owners.get(each, name) != name for each, name in now.items())
        left = 0 if before is None else len(before - now.keys())
        self._owned = set(now)
        self._last_owners |= now
        told = f"; {counted(len(now), 'partition')}"
        told += f", {moved} moved" if moved else ""
        told += f", {left} without an owner" if left else ""
        return told, list(_tree(fact, owned))


def _tree(
    fact: facts.GenerationCompleted, owned: Mapping[str, list[tuple[str, int]] | None]
) -> Iterator[Line]:
    indent = " " * 14
    shown = fact.members[:SHOWN_MEMBERS]
    hidden = len(fact.members) - len(shown)
    width = max(
        (len(member_name(member.member_id, member.group_instance_id)) for member in shown),
        default=0,
    )
    for number, member in enumerate(shown, 1):
        corner = "└" if number == len(shown) and not hidden else "├"
        name = member_name(member.member_id, member.group_instance_id).ljust(width)
        partitions = owned[_identity(member)]
        text = (
            f"{len(member.assignment)} bytes"
            if partitions is None
            else partition_ranges(partitions)
        )
        slow = member.joined_after_ms
        late = f"  (joined after {duration(slow)})" if slow >= _WORTH_TELLING_MS else ""
        away = "  (did not rejoin)" if slow < 0 else ""
        yield [
            (f"{indent}{corner} ", "dim"),
            (name, "cyan"),
            (f"  {text}", ""),
            (late + away, "dim"),
        ]
    if hidden:
        yield [(f"{indent}└ and {hidden} more", "dim")]


# From how much on it is told how long a member let the others wait.
_WORTH_TELLING_MS = 100


def _identity(member: facts.GenerationMember) -> str:
    """Who a member is over its restarts."""
    return member.group_instance_id or member.member_id


def _partitions(
    fact: facts.GenerationCompleted, member: facts.GenerationMember
) -> list[tuple[str, int]] | None:
    """What a member was given; None where only its client can read it."""
    if fact.protocol_type != "consumer":
        return None
    if not member.assignment:
        return []
    try:
        assignment = decode_assignment(member.assignment)
    except MalformedFrame:
        return None
    return sorted(
        (each.topic, partition)
        for each in assignment.assigned_partitions
        for partition in each.partitions
    )


def partition_ranges(partitions: list[tuple[str, int]]) -> str:
    """Partitions in short: sales 0-2,5; billing 1."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return (
        "; ".join(f"{printable(topic)} {_numbers(numbers)}" for topic, numbers in by_topic.items())
        or "nothing"
    )


def _numbers(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def duration(duration_ms: int) -> str:
    """A duration as one reads it: 12 ms, 2.31 s, 4 min 5 s, 2 h 3 min."""
    if duration_ms < 1_000:
        return f"{duration_ms} ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.2f} s"
    minutes, seconds = divmod(duration_ms // 1000, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"


def member_name(member_id: str, group_instance_id: str | None) -> str:
    """A member as it is shown: by its instance id, else by its id without most of the uuid."""
    if group_instance_id is not None:
        return printable(group_instance_id)
    return printable(_UUID.sub(r"-\1", member_id))


def counted(number: int, what: str) -> str:
    """1 member, 2 members."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def client_text(client_id: str, host: str) -> str:
    """A client and where it runs."""
    return printable(f"client {client_id} at {host.removeprefix('/')}")


def _with(*parts: str | None) -> str:
    """What there is to tell, with commas."""
    return ", ".join(part for part in parts if part)


def _reason(reason: str | None) -> str | None:
    return None if reason is None else f'"{printable(reason)}"'


def _requester(client_id: str | None, host: str | None) -> str | None:
    return None if client_id is None else f"asked for by {client_text(client_id, host or '')}"


# --- the facts ------------------------------------------------------------------------------------

# Sign, style, what, details.
Told = tuple[str, str, str, str]


def _began(fact: facts.RebalanceBegan) -> Told:
    who = "" if fact.member_id is None else member_name(fact.member_id, fact.group_instance_id)
    told = {
        "join": f"{who} joined",
        "rejoin with changed subscription": f"{who} {_CHANGES.get(fact.subscription_change or '')}",
        "leader rejoin": f"the leader {who} joined again, for its topics or on its own wish",
        "static replacement": f"{who} was started again",
        "leave": f"{who} left",
        "admin removal": f"an administrator removed {who}",
        "session expiry": f"the session of {who} ran out",
        "sync timeout": f"{who} did not sync in time",
        "append failure": "the assignment could not be written",
        "load": "the group is larger than group.max.size",
    }.get(fact.cause, f"{fact.cause} {who}")
    cut_short = fact.previous_state == "CompletingRebalance"
    details = _with(
        told,
        _reason(fact.reason),
        _requester(fact.requester_client_id, fact.requester_host),
        "before the last one was over" if cut_short else None,
    )
    return "▷", "yellow", "rebalance began", details


def _joined(fact: facts.MemberJoined) -> Told:
    name = member_name(fact.member_id, fact.group_instance_id)
    details = _with(
        client_text(fact.client_id, fact.client_host),
        counted(fact.member_count, "member"),
        _reason(fact.reason),
    )
    return "+", "green", f"{name} joined", details


def _removed(fact: facts.MemberRemoved) -> Told:
    name = member_name(fact.member_id, fact.group_instance_id)
    asked = fact.cause in ("leave", "admin removal")
    heard = None
    if not asked and fact.last_heard_ms >= 0:
        heard = f"last heard {duration(fact.at_ms - fact.last_heard_ms)} before"
    details = _with(
        None if fact.cause == "leave" else fact.cause,
        heard,
        client_text(fact.client_id, fact.client_host),
        "it led the group" if fact.was_leader else None,
        f"{counted(fact.member_count, 'member')} left",
        _reason(fact.reason),
        _requester(fact.requester_client_id, fact.requester_host),
    )
    return "-", "red", f"{name} {'left' if asked else 'removed'}", details


def _fenced(fact: facts.MemberFenced) -> Told:
    details = f"{printable(fact.member_id)} at {fact.request}: it is {printable(fact.holder)} now"
    return "!", "red", f"{printable(fact.group_instance_id)} fenced", details


def _replaced(fact: facts.StaticMemberReplaced) -> Told:
    details = _with(
        client_text(fact.client_id, fact.client_host),
        None if fact.rebalances else "no rebalance",
        _reason(fact.reason),
    )
    return "±", "green", f"{printable(fact.group_instance_id)} came back", details


def _restored(fact: facts.StaticMemberRestored) -> Told:
    details = f"it is {printable(fact.member_id)} again: the new id could not be written"
    return "!", "red", f"{printable(fact.group_instance_id)} restored", details


def _pending(fact: facts.PendingMemberExpired) -> Told:
    waited = "the rebalance waited for it" if fact.state == "PreparingRebalance" else None
    details = _with("it asked for a member id and never joined", waited)
    return "-", "dim", f"{member_name(fact.member_id, None)} forgotten", details


def _extended(fact: facts.JoinPhaseExtended) -> Told:
    details = f"none of {counted(fact.member_count, 'static member')} is back"
    return "·", "yellow", "rebalance waits on", f"{details}, {duration(fact.wait_ms)} more"


def _join_completed(fact: facts.JoinCompleted) -> Told:
    details = _with(
        f"{fact.ended_by} after {duration(fact.join_ms)}",
        counted(fact.member_count, "member"),
        printable(fact.protocol_name),
        f"leader {member_name(fact.leader, None)}",
    )
    return "·", "", f"generation {fact.generation_id} joined", details


def _completed(fact: facts.GenerationCompleted) -> Told:
    details = _with(
        f"{duration(fact.join_ms + fact.sync_ms)} (join {duration(fact.join_ms)}, "
        f"sync {duration(fact.sync_ms)})",
        counted(len(fact.members), "member"),
        printable(fact.protocol_name),
    )
    return "■", "green", f"generation {fact.generation_id} stable", details


def _emptied(fact: facts.GroupEmptied) -> Told:
    return "□", "dim", "group empty", f"generation {fact.generation_id}, nobody is left"


def _deleted(fact: facts.GroupDeleted) -> Told:
    details = _with(
        f"with {counted(fact.offset_count, 'offset')}",
        _requester(fact.requester_client_id, fact.requester_host),
    )
    return "✗", "red", "group deleted", details


def _expired(fact: facts.GroupExpired) -> Told:
    return "✗", "red", "group expired", f"generation {fact.generation_id}, nothing was left of it"


def _offsets_expired(fact: facts.OffsetsExpired) -> Told:
    partitions = [(each.topic, part.partition) for each in fact.topics for part in each.partitions]
    topics = partition_ranges(sorted(partitions)) if partitions else None
    details = _with(counted(fact.offset_count, "offset"), topics)
    return "✗", "yellow", "offsets expired", details


def _loaded(fact: facts.PartitionLoaded) -> Told:
    details = f"the broker read __consumer_offsets-{fact.partition} back"
    return "○", "cyan", "coordinator loaded", details


def _unloaded(fact: facts.PartitionUnloaded) -> Told:
    told = "its log can't be used" if fact.cause == "failed" else "the broker stopped or gave it up"
    details = f"__consumer_offsets-{fact.partition}: {told}"
    return "●", "cyan", "coordinator gone", details


_TOLD: dict[type[facts.Fact], Callable[[Any], Told]] = {
    facts.RebalanceBegan: _began,
    facts.MemberJoined: _joined,
    facts.MemberRemoved: _removed,
    facts.MemberFenced: _fenced,
    facts.StaticMemberReplaced: _replaced,
    facts.StaticMemberRestored: _restored,
    facts.PendingMemberExpired: _pending,
    facts.JoinPhaseExtended: _extended,
    facts.JoinCompleted: _join_completed,
    facts.GenerationCompleted: _completed,
    facts.GroupEmptied: _emptied,
    facts.GroupDeleted: _deleted,
    facts.GroupExpired: _expired,
    facts.OffsetsExpired: _offsets_expired,
    facts.PartitionLoaded: _loaded,
    facts.PartitionUnloaded: _unloaded,
}
