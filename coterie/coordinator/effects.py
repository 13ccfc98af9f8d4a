"""Effects: everything that the server has to do after a call of the coordinator, as data.

A verb takes the time and a decoded request and returns `Effects`; nothing here acts. The server
carries effects out in this order: append the records, send the replies, publish the events. The
coordinator has already applied the timers to its own wheel; they are listed because transcripts
show them.

Invariant: the response of a request that writes is not in the effects that carry its records. The
shard keeps it and returns it from `appended` or `append_failed` [coordinator/durable-responses].
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, TypeVar

from coterie.coordinator.machine import BatchForm, Outcome, R, Record
from coterie.protocol.messages.journal_records import FACT_NAMES, Fact

V = TypeVar("V")

# The kind of a timer, its group, and its member, which is "" if the timer belongs to the group.
# The sweep of a partition has the number of the partition in place of the group.
TimerKey = tuple["TimerKind", str, str]


class TimerKind(StrEnum):
    """The kinds of timers [sessions/timers]. They are strings because timer keys contain them."""

    PENDING = "pending"  # a pending member that has not joined yet
    SESSION = "session"  # a member's session; five minutes for a new member
    JOIN = "join"  # the join phase: initial delay or rebalance timeout
    SYNC = "sync"  # the time in which the members of a generation have to sync
    EXPIRY = "expiry"  # the next sweep of a partition's offsets


class Timer:
    """A timer to arm, replacing the one of the same key; without a deadline, one to cancel."""

    __slots__ = ("deadline_ms", "key")

    def __init__(self, key: TimerKey, deadline_ms: int | None) -> None:
        self.key = key
        self.deadline_ms = deadline_ms

    def __repr__(self) -> str:
        return f"Timer({self.key!r}, {self.deadline_ms})"


class Event:
    """Something that happened to a group, and why. Logs, metrics and the journal consist of these.

    Attributes:
        group_id: "" for an event of a whole partition.
        fact: the event as the journal stores it.
    """

    __slots__ = ("fact", "group_id")

    def __init__(self, group_id: str, fact: Fact) -> None:
        self.group_id = group_id
        self.fact = fact

    def __repr__(self) -> str:
        return f"Event({self.group_id!r}, {self.fact!r})"

    @property
    def name(self) -> str:
        """The kind of the fact, such as `member_joined`."""
        return FACT_NAMES[type(self.fact)]

    @property
    def at_ms(self) -> int:
        """When it happened."""
        return self.fact.at_ms

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the fact as a new dictionary."""
        fact = self.fact
        return {name: getattr(fact, name) for name in fact.fields_}


class Effects(Outcome[R]):
    """What a verb returns, and then what the server has to do.

    A verb leaves records and what follows from them. The shard turns these into appends and an
    operation that waits for them [coordinator/operation]; the other attributes go to the server.

    Attributes:
        timers: timers that were armed or cancelled.
        events: what happened, in order.
        records: the records of the verb.
        form: the header of their batch, if they belong to a transaction.
        completion: what the verb does once the records are durable; see `shard.py`.
        durable_events: events that take place only if the records become durable.
    """

    __slots__ = ("completion", "durable_events", "events", "form", "records")

    timers: Sequence[Timer]

    def __init__(self, response: R | None = None) -> None:
        """Start without effects but the response."""
        super().__init__(response)
        self.events: Sequence[Event] = ()
        self.records: list[Record] = []
        self.form: BatchForm | None = None
        self.durable_events: Sequence[Event] = ()
        self.completion: Any = None

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to carry out but the response."""
        return not (self.replies or self.appends or self.events or self.timers)

    def arm(self, kind: TimerKind, group_id: str, member_id: str, deadline_ms: int) -> None:
        """Arm a timer, replacing an earlier one of its key [sessions/one-timer-per-key]."""
        self._add_timer(Timer((kind, group_id, member_id), deadline_ms))

    def cancel(self, kind: TimerKind, group_id: str, member_id: str = "") -> None:
        """Cancel a timer if it is armed."""
        self._add_timer(Timer((kind, group_id, member_id), None))

    def _add_timer(self, timer: Timer) -> None:
        timers = self.timers
        if isinstance(timers, list):
            timers.append(timer)
        else:
            self.timers = [timer]

    def note(self, group_id: str, fact: Fact) -> None:
        """Add the event that something has happened."""
        events = self.events
        if isinstance(events, list):
            events.append(Event(group_id, fact))
        else:
            self.events = [Event(group_id, fact)]

    def note_when_durable(self, group_id: str, fact: Fact) -> None:
        """Add an event for when the records are durable [journal/durable-facts]."""
        self.durable_events = [*self.durable_events, Event(group_id, fact)]

    def add_events(self, events: Sequence[Event]) -> None:
        """Add events behind those that there are."""
        self.events = _joined(self.events, events)

    def absorb(self, other: "Effects[Any]") -> None:
        """Add the replies, appends, timers and events of another operation."""
        self.replies = _joined(self.replies, other.replies)
        self.absorb_all_but_replies(other)

    def absorb_all_but_replies(self, other: "Effects[Any]") -> None:
        """Add the appends, timers and events of another operation."""
        self.appends = _joined(self.appends, other.appends)
        self.timers = _joined(self.timers, other.timers)
        self.events = _joined(self.events, other.events)

    def __repr__(self) -> str:
        parts = [f"response={self.response!r}"] if self.response is not None else []
        parts += [
            f"{name}={getattr(self, name)!r}"
            for name in ("replies", "appends", "timers", "events")
            if getattr(self, name)
        ]
        return f"Effects({', '.join(parts)})"


def _joined(values: Sequence[V], more: Sequence[V]) -> Sequence[V]:
    """Return values and more of them; in the same list, if it is one."""
    if isinstance(values, list):
        values += more
        return values
    return [*values, *more] if more else values
