"""What happened to a group, as lines for people.

There are two sources: `coterie groups history` makes events from the facts in the broker's journal
(groups/journal_events.py), `coterie pipeline show` from rebalances and ownership
(pipeline/rebalance_events.py). Both are printed here, in the same form and with the same words.

An event is one line with its time, a sign, what happened, and details; below it follow remarks and
the members of a generation with their partitions. Lines are wrapped at 100 columns and long ids
are shortened [terminal/timelines]; `--json` has them whole. A static member is shown by its
instance id, because its member id changes with every restart.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from coterie.cli.output import Line, printable
from coterie.client.names import cut
from coterie.protocol.messages.connect_protocol import CONNECTOR_TASK

TopicPartition = tuple[str, int]

# The number of members shown below a generation, so that one generation fits on a screen.
SHOWN_MEMBERS = 20

WIDTH = 100
_WHAT_WIDTH = 24
_INDENT = " " * 14
# Time, sign and what happened take this much, if they are not longer.
_DETAILS_AT = 42
_NAME_LETTERS = 36
# Less room than this is not worth using beside a long text.
_LEAST_ROOM = 24
# Most clients end a member id with a UUID. Its first group is enough to distinguish members.
_UUID = re.compile(r"-([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

_SUBSCRIPTION_CHANGES = {
    "topics": "other topics",
    "protocols": "other assignors",
    "owned partitions": "other owned partitions (cooperative rebalancing)",
    "user data": "other user data",
    "opaque": "other metadata",
}
_CAUSES = {
    "join": "{member} joined",
    "rejoin with changed subscription": "{member} rejoined with {change}",
    "leader rejoin": "the leader {member} rejoined: its topics changed or it asked for a rebalance",
    "static replacement": "{member} was restarted",
    "leave": "{member} left",
    "leave or expiry": "{member} left or expired",
    "admin removal": "an administrator removed {member}",
    "session expiry": "the session of {member} expired",
    "sync timeout": "{member} did not send SyncGroup in time",
    "large assignment": "the assignment was too large for the log",
    "late assignment": "too few replicas of the log were in sync to store the assignment",
    "load": "the group is larger than group.max.size",
    "members changed": "members joined and left",
    "client returned": "a client left and joined again",
    "topic metadata change": "the partitions of the topics changed",
    # Of consumer groups (KIP-848).
    "subscription": "{member} subscribed to other topics",
    "topics changed": "the topics of the group changed",
    "regular expression resolved": "a pattern matches other topics",
    "revocation timeout": "{member} did not give {unit}s up in time",
    "upgrade": "the group became a consumer group",
    "downgrade": "the group became a classic group",
}

# Where the member is not known. A group with one member may have it, too, so none says "several".
_CAUSES_OF_UNKNOWN = {
    "join": "several members joined",
    "leave": "several members left",
    "leave or expiry": "several members left or expired",
    "session expiry": "the sessions of several members expired",
    "rejoin with changed subscription": "members rejoined with {change}",
    "leader rejoin": "a member rejoined with the same topics; which one is not recorded",
}


class MemberLine(NamedTuple):
    """A member of a generation: its name, its partitions as text, and a remark."""

    name: str
    partitions: str
    remark: str = ""


class Event(NamedTuple):
    """Something that happened to a group.

    Attributes:
        at_ms: epoch milliseconds.
        sign, style: the sign before the text, and the style of both.
        what: what happened, in a few words.
        details: what explains it.
        remarks: further lines.
        members: the members of a generation, the first `SHOWN_MEMBERS` of them.
        hidden_members: the number of members that are not in `members`.
    """

    at_ms: int
    sign: str
    style: str
    what: str
    details: str = ""
    remarks: Sequence[str] = ()
    members: Sequence[MemberLine] = ()
    hidden_members: int = 0


class Timeline:
    """Turns events into lines, with a heading for each day."""

    def __init__(self) -> None:
        self._day = ""

    def lines(self, event: Event) -> Iterator[Line]:
        """Return the lines of the next event."""
        at = datetime.fromtimestamp(event.at_ms / 1000, UTC)
        day = at.strftime("%Y-%m-%d UTC")
        if day != self._day:
            self._day = day
            yield [(day, "bold")]
        what = event.what.ljust(_WHAT_WIDTH)
        room = WIDTH - len(_INDENT) - 2 - len(what) - 2
        first, *rest = _wrapped(event.details, max(room, _LEAST_ROOM), WIDTH - _DETAILS_AT)
        if room < _LEAST_ROOM:
            first, rest = "", [first, *rest] if first else []
        yield [
            (f"{at:%H:%M:%S}.{event.at_ms % 1000:03d}  ", "dim"),
            (f"{event.sign} {what}", event.style),
            (f"  {first}", ""),
        ]
        for line in rest:
            yield [(" " * _DETAILS_AT + line, "")]
        for remark in event.remarks:
            room = WIDTH - len(_INDENT)
            first, *rest = _wrapped(remark, room, room - 2)
            yield [(_INDENT + first, "")]
            for line in rest:
                yield [(f"{_INDENT}  {line}", "")]
        yield from _member_lines(event)


def _wrapped(text: str, first: int, others: int) -> list[str]:
    """Return the lines of a text; the first one has at most `first` letters."""
    head = textwrap.wrap(text, first, break_on_hyphens=False)
    if len(head) < 2:
        return head or [""]
    rest = text[len(head[0]) :].strip()
    return [head[0], *textwrap.wrap(rest, others, break_on_hyphens=False)]


def _member_lines(event: Event) -> Iterator[Line]:
    members = [member._replace(name=cut(member.name, _NAME_LETTERS)) for member in event.members]
    name_width = max((len(member.name) for member in members), default=0)
    room = WIDTH - len(_INDENT) - 2 - name_width - 2
    text_width = max((len(member.partitions) for member in members), default=0)
    for number, member in enumerate(members, 1):
        is_last = number == len(members) and not event.hidden_members
        first, *rest = _wrapped(member.partitions, room, room)
        remark, *remarks = _wrapped(member.remark, room, room)
        if remark and (rest or text_width + 2 + len(remark) > room or remarks):
            # The remark does not fit beside the partitions.
            remarks.insert(0, remark)
            remark = ""
        yield [
            (f"{_INDENT}{'└' if is_last else '├'} ", "dim"),
            (member.name.ljust(name_width), "cyan"),
            (f"  {first.ljust(text_width if remark else 0)}", ""),
            (f"  {remark}" if remark else "", "dim"),
        ]
        edge = f"{_INDENT}{' ' if is_last else '│'} "
        for line, style in [(each, "") for each in rest] + [(each, "dim") for each in remarks]:
            yield [(edge, "dim"), (" " * (name_width + 2) + line, style)]
    if event.hidden_members:
        yield [(f"{_INDENT}└ and {event.hidden_members} more", "dim")]


def cause_text(
    cause: str, member: str | None, subscription_change: str | None, *, unit: str = "partition"
) -> str:
    """Return why a rebalance began, as a clause.

    Args:
        cause: the cause as the journal and the tables have it.
        member: the name of the member that caused it; None if it is not known or there are several.
        subscription_change: what the member changed in its subscription, if that is the cause.
        unit: what members are given.
    """
    templates = _CAUSES if member else _CAUSES | _CAUSES_OF_UNKNOWN
    template = templates.get(cause)
    if template is None:
        return printable(f"{cause} {member or ''}".rstrip())
    change = _SUBSCRIPTION_CHANGES.get(subscription_change or "", "a changed subscription")
    return template.format(member=member or "a member", change=change, unit=unit)


def partition_ranges(partitions: Sequence[TopicPartition]) -> str:
    """Return sorted partitions in short: sales 0-2,5; billing 1."""
    topics = by_topic(partitions).items()
    return "; ".join(f"{printable(topic)} {_ranges(each)}" for topic, each in topics) or "nothing"


def work_text(tasks: Sequence[TopicPartition]) -> str:
    """Return what a Connect worker runs in short: orders: connector, tasks 0-2,5; bills: task 1.

    Args:
        tasks: connectors and numbers of tasks, sorted; -1 is the connector itself.
    """
    parts = []
    for connector, numbers in by_topic(tasks).items():
        work = ["connector"] if CONNECTOR_TASK in numbers else []
        if found := [number for number in numbers if number != CONNECTOR_TASK]:
            work.append(f"task{'s' * (len(found) > 1)} {_ranges(found)}")
        parts.append(f"{printable(connector)}: {', '.join(work)}")
    return "; ".join(parts) or "nothing"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of partitions by topic, in the same order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def _ranges(numbers: list[int]) -> str:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def member_name(member_id: str, group_instance_id: str | None = None) -> str:
    """Return the instance id of a member, or else its member id with the UUID shortened."""
    if group_instance_id is not None:
        return printable(group_instance_id)
    return printable(_UUID.sub(r"-\1", member_id))


def client_text(client_id: str, host: str) -> str:
    """Return a client and the host it runs on."""
    return printable(f"client {client_id} at {host.removeprefix('/')}")


def quoted_reason(reason: str | None) -> str | None:
    """Return the reason that a client gave, in quotation marks."""
    return None if reason is None else f'"{printable(reason)}"'


def joined_text(*parts: str | None) -> str:
    """Return the parts that are not empty, with commas between them."""
    return ", ".join(part for part in parts if part)
