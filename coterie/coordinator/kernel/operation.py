"""Operations: what a verb writes, and what waits until that is durable."""

from collections.abc import Hashable, Sequence
from typing import Any

from coterie.coordinator.kernel.append import NO_RECORDS, Append, BatchForm, Pair, Record
from coterie.coordinator.kernel.event import Event
from coterie.protocol.messages.journal_records import Fact

# The key of an operation that does not belong to one group: the marker of a transaction.
NO_GROUP = ""


class Operation(Append):
    """The records of a verb and what follows from them; then what waits for them.

    A verb fills in the first part: whether it creates or removes a group is said here and not read
    from the records. The shard fills in the second part, and keeps the operation until its records
    are durable. The server handles it as an append, and drops its records once they are written. An
    operation without a key only waits for those before it.

    Attributes:
        key: the group or transactional id that it changes, or `NO_GROUP`; None if it only reads.
        creates: the group that exists from now on; None for one that exists.
        removes: the group that is gone from now on. With `creates` it is replaced by another one.
        completion: what the verb does once the records are durable, as data.
        durable_events: what has happened then.
        response: what to send then; None if nothing is to be sent.
        request, version: the request, to build its error response if the append fails.
        to: its reply address, or its part of a response about several groups.
    """

    __slots__ = (
        "completion", "creates", "durable_events", "key", "removes", "request", "response", "to",
        "version",
    )  # fmt: skip

    def __init__(self, key: str | None, records: list[Record] | None = None) -> None:
        """Start without anything but the records."""
        self.partition = -1
        self.key = key
        self.records = NO_RECORDS if records is None else records
        self.pairs: list[Pair] | None = None
        self.form: BatchForm | None = None
        self.marker: Pair | None = None
        self.creates: Any = None
        self.removes: Any = None
        self.completion: Any = None
        self.durable_events: Sequence[Event] = ()
        self.response: Any = None
        self.request: Any = None
        self.to: Hashable = None
        self.version = 0

    def note(self, fact: Fact) -> None:
        """Add an event for when the records are durable [journal/phases]."""
        assert self.key is not None, "an operation that only reads has no events"
        self.durable_events = [*self.durable_events, Event(self.key, fact)]
