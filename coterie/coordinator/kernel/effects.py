"""Effects: everything that the server has to do after a call of a coordinator, as data.

A verb takes the time and a decoded request and returns `Effects`; nothing here acts. The server
carries effects out in this order: append the records, send the replies, publish the events. The
coordinator has already applied the timers to its own wheel; they are listed because transcripts
show them.

What the verb writes is apart, in `operation`. The shard takes it out and makes an append of it, so
effects that reach the server have none.

Invariant: the response of a request that writes is not in the effects that carry its records. The
shard keeps it and returns it from `appended` [coordinator/durable-responses]. If the append fails,
the response is dropped, and an error is sent in its place [coordinator/failed-append].
"""

from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

from coterie.coordinator.kernel.append import Append
from coterie.coordinator.kernel.event import Event
from coterie.coordinator.kernel.operation import Operation
from coterie.coordinator.kernel.timers import Timer
from coterie.protocol.control_records import TransactionMarkers
from coterie.protocol.messages.journal_records import Fact

# The response of a request.
R = TypeVar("R")
V = TypeVar("V")


class Reply:
    """The response to a request that was delayed."""

    __slots__ = ("message", "to")

    def __init__(self, to: Hashable, message: Any) -> None:
        self.to = to
        self.message = message

    def __repr__(self) -> str:
        return f"Reply({self.to!r}, {self.message!r})"


class Effects(Generic[R]):
    """What a verb returns, and then what the server has to do.

    Most effects have few of these, so a list is made for the first one of a kind.

    Attributes:
        response: the response to the request itself; None if it comes later as a `Reply`.
        operation: what the verb writes, until the shard has taken it; None if it only reads.
        appends: records to append, one entry per operation.
        replies: responses to delayed requests.
        timers: timers that were armed or cancelled.
        events: what happened, in order.
        markers: the markers of transactions to write.
        requests: what is to be asked of another coordinator or of the runtime, each a value that
            the two agree on. An answer comes back as an operation.
        moves_deadline: whether the next deadline of the coordinator may be another one now.
        mistakes: of ours, which the completions of durable operations have raised.
    """

    __slots__ = (
        "appends", "events", "markers", "mistakes", "moves_deadline", "operation", "replies",
        "requests", "response", "timers",
    )  # fmt: skip

    def __init__(self, response: R | None = None) -> None:
        """Start without effects but the response."""
        self.response = response
        self.operation: Operation | None = None
        self.appends: Sequence[Append] = ()
        self.replies: Sequence[Reply] = ()
        self.timers: Sequence[Timer] = ()
        self.events: Sequence[Event] = ()
        self.markers: Sequence[TransactionMarkers] = ()
        self.requests: Sequence[Any] = ()
        self.moves_deadline = False
        self.mistakes: Sequence[Exception] = ()

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to carry out but the response."""
        return not (
            self.replies
            or self.appends
            or self.events
            or self.requests
            or self.moves_deadline
            or self.markers
        )

    def append(self, append: Append) -> None:
        """Append the records of an operation."""
        appends = self.appends
        if isinstance(appends, list):
            appends.append(append)
        else:
            self.appends = [append]

    def reply(self, to: Hashable, message: Any) -> None:
        """Answer a delayed request."""
        assert to is not None, "a delayed response has an address"
        assert message is not None, "a reply has a message"
        replies = self.replies
        if isinstance(replies, list):
            replies.append(Reply(to, message))
        else:
            self.replies = [Reply(to, message)]

    def request(self, request: Any) -> None:
        """Ask another coordinator, or the runtime."""
        requests = self.requests
        if isinstance(requests, list):
            requests.append(request)
        else:
            self.requests = [request]

    def arm(self, kind: str, group_id: str, member_id: str, deadline_ms: int) -> None:
        """Arm a timer, replacing an earlier one of its key."""
        self._add_timer(Timer((kind, group_id, member_id), deadline_ms))

    def cancel(self, kind: str, group_id: str, member_id: str = "") -> None:
        """Cancel a timer if it is armed."""
        self._add_timer(Timer((kind, group_id, member_id), None))

    def _add_timer(self, timer: Timer) -> None:
        self.moves_deadline = True
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

    def add_events(self, events: Sequence[Event]) -> None:
        """Add events behind those that there are."""
        self.events = _joined(self.events, events)

    def absorb(self, other: "Effects[Any]") -> None:
        """Add the replies, appends, timers and events of another operation."""
        if other.replies:
            self.replies = _joined(self.replies, other.replies)
        self.absorb_all_but_replies(other)

    def absorb_all_but_replies(self, other: "Effects[Any]") -> None:
        """Add the appends, timers and events of another operation."""
        assert other is not self, "effects are not added to themselves"
        assert other.operation is None, "an operation is settled before its effects are added"
        if other.appends:
            self.appends = _joined(self.appends, other.appends)
        if other.timers:
            self.timers = _joined(self.timers, other.timers)
        if other.events:
            self.events = _joined(self.events, other.events)
        if other.requests:
            self.requests = _joined(self.requests, other.requests)
        self.moves_deadline = self.moves_deadline or other.moves_deadline

    def __repr__(self) -> str:
        parts = [f"response={self.response!r}"] if self.response is not None else []
        parts += [
            f"{name}={getattr(self, name)!r}"
            for name in ("replies", "appends", "timers", "events", "requests")
            if getattr(self, name)
        ]
        return f"Effects({', '.join(parts)})"


def _joined(values: Sequence[V], more: Sequence[V]) -> Sequence[V]:
    """Return values and more of them; in the same list, if it is one."""
    if isinstance(values, list):
        values += more
        return values
    return [*values, *more]
