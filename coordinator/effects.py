"""What a verb of the coordinator wants done, as data: nothing here acts.

A verb is given the time and a decoded request and returns `Effects`. The server carries them out in
this order: append the records, send the replies, tell the events. Timers have already been applied
to the coordinator's own wheel when the server sees them; they are kept in the effects because a
transcript shows them.

Invariant: an answer that depends on records is not in the effects that carry those records. The
    shard holds it and gives it back from `appended` or `append_failed` (spec section 14.2).
"""

from collections.abc import Hashable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from coterie.protocol.messages.journal_records import FACT_NAMES, Fact
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

LogKey = GroupMetadataKey | OffsetCommitKey
LogValue = GroupMetadataValue | OffsetCommitValue
LogRecord = tuple[LogKey, LogValue | None]

# What a timer is for, whose group, which member ("" where the timer belongs to the group or the
# partition).
TimerKey = tuple["TimerKind", str, str]

# One entry of what an append changed in memory: the mapping, its key, and what stood there before.
Undo = tuple[dict[Any, Any], Any, Any]
ABSENT: Any = object()


class TimerKind(StrEnum):
    """The timers of spec section 13 that the coordinator arms; strings, for they stand in keys."""

    PENDING = "pending"  # an id handed out with MEMBER_ID_REQUIRED that has not joined yet
    SESSION = "session"  # a member that may have died; also the fixed five minutes of a new member
    JOIN = "join"  # the join phase: initial delay or stragglers
    SYNC = "sync"  # the sync phase
    EXPIRY = "expiry"  # the sweep over a partition's offsets


class RequestContext(NamedTuple):
    """Who sent a request.

    Attributes:
        client_id: from the request header.
        client_host: the peer's address as Java prints it, with a leading slash.
        version: the version of the request's API.
        to: where a later answer goes; opaque here, compared by identity.
    """

    client_id: str
    client_host: str
    version: int
    to: Hashable


class Reply(NamedTuple):
    """An answer to a request that was delayed."""

    to: Hashable
    message: Any


class Append(NamedTuple):
    """The records of one operation. They go into one batch: an operation is atomic (spec section
    14.2).
    """

    partition: int
    records: list[LogRecord]


class Timer(NamedTuple):
    """A timer to arm, replacing the one of the same key, or with None to cancel."""

    key: TimerKey
    deadline_ms: int | None


class Event(NamedTuple):
    """Something that happened to a group, and why. Logs, metrics, history and the journal are made
    of these.

    Attributes:
        group_id: "" for what happened to a whole partition.
        fact: what, as the journal keeps it (protocol/messages/journal_records.py).
    """

    group_id: str
    fact: Fact

    @property
    def name(self) -> str:
        """What kind of fact, as `member_joined`."""
        return FACT_NAMES[type(self.fact)]

    @property
    def at_ms(self) -> int:
        """When."""
        return self.fact.at_ms

    @property
    def fields(self) -> dict[str, Any]:
        """The fact as a new dictionary, for whoever tells every kind of fact the same way."""
        fact = self.fact
        return {name: getattr(fact, name) for name in fact.fields_}


class Effects:
    """Everything one call of the coordinator wants done; and, until its records are durable, the
    operation that the shard keeps of it.

    Attributes:
        answer: the answer to the request itself; None when it comes later as a `Reply`.
        replies: answers to other requests, or to this one if it was held.
        appends: records to append, one entry an operation.
        timers: timers that were armed or cancelled, for whoever wants to see them.
        events: what happened, in order.
        records: of this operation, as the verb made them.
        completion: what the shard does when those records are durable, or have failed.
        undo: what to restore if they fail, newest last.
        stored_events: what will have happened once they are durable, and not before.
        delayed_answer, to: the answer that waits for the records, and where it goes.
        request, version: what was asked, for the answer should they fail.
    """

    __slots__ = (
        "answer",
        "appends",
        "completion",
        "delayed_answer",
        "events",
        "records",
        "replies",
        "request",
        "stored_events",
        "timers",
        "to",
        "undo",
        "version",
    )

    delayed_answer: Any
    to: Any
    request: Any
    version: int

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.replies: list[Reply] = []
        self.appends: list[Append] = []
        self.timers: list[Timer] = []
        self.events: list[Event] = []
        self.records: list[LogRecord] = []
        self.undo: list[Undo] = []
        self.stored_events: Sequence[Event] = ()
        self.completion: Any = None

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to do but to send the answer."""
        return not (self.replies or self.appends or self.events or self.timers)

    def arm(self, kind: TimerKind, group_id: str, member_id: str, deadline_ms: int) -> None:
        """Arm the timer of a key; an earlier one of the same key is replaced (spec section 13)."""
        self.timers.append(Timer((kind, group_id, member_id), deadline_ms))

    def cancel(self, kind: TimerKind, group_id: str, member_id: str = "") -> None:
        """Cancel the timer of a key, if one is armed."""
        self.timers.append(Timer((kind, group_id, member_id), None))

    def note(self, group_id: str, fact: Fact) -> None:
        """Note that something happened."""
        self.events.append(Event(group_id, fact))

    def note_when_stored(self, group_id: str, fact: Fact) -> None:
        """Note what will have happened if the records become durable, and else will not have."""
        self.stored_events = [*self.stored_events, Event(group_id, fact)]

    def absorb(self, other: "Effects") -> None:
        """Take over what another operation wants done; what it keeps to itself stays with it."""
        self.replies += other.replies
        self.appends += other.appends
        self.timers += other.timers
        self.events += other.events

    def __repr__(self) -> str:
        parts = [f"answer={self.answer!r}"] if self.answer is not None else []
        parts += [
            f"{name}={getattr(self, name)!r}"
            for name in ("replies", "appends", "timers", "events")
            if getattr(self, name)
        ]
        return f"Effects({', '.join(parts)})"
