"""The interface between a coordinator and its runtime.

A coordinator keeps its state in the records of an internal topic. It is a `Machine`: it is given
the time, requests and records, and returns what is to be done. The runtime owns the logs, the event
loop and the connections; it carries out what a machine returns, and reports back what has become
durable (ADR 16). It knows nothing else of a machine, so it serves every coordinator: that of
groups, and those of transactions and of share groups to come.

The runtime calls a machine in this order for each partition: `begin_load`; `replay` for each record
that the reader of the log has left; `replay_open` for each record of an open transaction;
`finish_load`; then the machine serves requests, and each of its appends is acknowledged with
`appended` in the order in which they were made, until `unload`, `fail` or `append_failed`. After
`append_failed` the load has begun already, under the same epoch.

A machine refuses an operation that does not fit a batch before it changes anything, and splits what
may be split [coordinator/operation-size] [coordinator/sweep-size].
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from coterie.protocol.errors import ErrorCode
from coterie.protocol.record_batch_layout import (
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
)
from coterie.protocol.wire import Message

# The largest batch of a coordinator's log: Kafka's default max.message.bytes, so that a Kafka
# broker can read the log.
MAX_BATCH_BYTES = 1_048_588
# The most bytes that a batch needs beside its records, and a record beside its key and value.
BATCH_OVERHEAD_BYTES = HEADER_BYTES
RECORD_OVERHEAD_BYTES = 24

# Kafka's name for a client that has not logged in.
ANONYMOUS = "User:ANONYMOUS"

# A decoded key and value; without a value it is a tombstone.
Record = tuple[Message, Message | None]
# An encoded key and value.
Pair = tuple[bytes, bytes | None]


class ClientContext(NamedTuple):
    """The sender of the requests of one connection.

    A connection has one of these, and replaces it when a request has another client id
    [connections/client-context].

    Attributes:
        connection_id: the number of the connection, counted from the start of the broker.
        listener: the name of the listener that accepted the connection.
        principal: who has logged in.
        client_host: the peer's address as Java prints it, with a leading slash.
        client_id: the client id of the request header.
        software_name, software_version: the client library, from ApiVersions; "" if unknown.
        client_port: the peer's port.
    """

    connection_id: int = 0
    listener: str = "PLAINTEXT"
    principal: str = ANONYMOUS
    client_host: str = ""
    client_id: str = ""
    software_name: str = ""
    software_version: str = ""
    client_port: int = 0


class RequestContext:
    """Where a request comes from.

    This class and those below that are made for every request have slots. A named tuple takes
    almost twice as long to make, and its fields take more than twice as long to read.

    Attributes:
        client: who sent it.
        version: the version of the request.
        to: the reply address of a later response; opaque here.
    """

    __slots__ = ("client", "to", "version")

    def __init__(self, client: ClientContext, version: int, to: Hashable) -> None:
        self.client = client
        self.version = version
        self.to = to


class Reply:
    """The response to a request that was delayed."""

    __slots__ = ("message", "to")

    def __init__(self, to: Hashable, message: Any) -> None:
        self.to = to
        self.message = message

    def __repr__(self) -> str:
        return f"Reply({self.to!r}, {self.message!r})"


class BatchForm(NamedTuple):
    """The header of a batch that belongs to a producer: a transaction's records, or its marker.

    Attributes:
        attributes: its bits, such as `TRANSACTIONAL`.
        producer_id, producer_epoch, base_sequence: of the producer.
    """

    attributes: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = 0


class Append:
    """The records of one operation; they go into one batch [coordinator/operation].

    Attributes:
        partition: the partition of the internal topic.
        records: the records, at least one, unless there is a marker.
        form: the header of a batch of their own; None to share a plain batch with the operations
            before and after.
        marker: key and value of the marker of a transaction, with the form of its control batch.
    """

    __slots__ = ("form", "marker", "partition", "records")

    def __init__(
        self,
        partition: int,
        records: Sequence[Record],
        form: BatchForm | None = None,
        marker: Pair | None = None,
    ) -> None:
        self.partition = partition
        self.records = records
        self.form = form
        self.marker = marker

    def __repr__(self) -> str:
        return f"Append({self.partition}, {self.records!r}, {self.form!r})"


# The response of a request.
R = TypeVar("R")


class Outcome(Generic[R]):
    """What a machine returns: what the runtime has to do. A machine's own effects add to it.

    Most outcomes have few of these, so a list is made for the first one of a kind.

    Attributes:
        response: the response to the request itself; None if it comes later as a `Reply`.
        appends: records to append, one entry per operation.
        replies: responses to delayed requests.
        timers: not empty if a deadline may have changed.
    """

    __slots__ = ("appends", "replies", "response", "timers")

    def __init__(self, response: R | None = None) -> None:
        """Start without effects but the response."""
        self.response = response
        self.appends: Sequence[Append] = ()
        self.replies: Sequence[Reply] = ()
        self.timers: Sequence[Any] = ()

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to do but to send the response."""
        return not (self.replies or self.appends or self.timers)

    def append(self, append: Append) -> None:
        """Append the records of an operation."""
        appends = self.appends
        if isinstance(appends, list):
            appends.append(append)
        else:
            self.appends = [append]

    def reply(self, to: Hashable, message: Any) -> None:
        """Answer a delayed request."""
        replies = self.replies
        if isinstance(replies, list):
            replies.append(Reply(to, message))
        else:
            self.replies = [Reply(to, message)]


OutcomeT = TypeVar("OutcomeT", bound=Outcome[Any])
OutcomeT_co = TypeVar("OutcomeT_co", bound=Outcome[Any], covariant=True)


class OpenRecord(NamedTuple):
    """A record of a transaction that has not ended at the end of the log.

    Attributes:
        producer_id, producer_epoch: of its batch.
        key, value: of the record; without a value it is a tombstone.
        overtaken: whether a record of the same key with a larger offset counts already.
    """

    producer_id: int
    producer_epoch: int
    key: bytes
    value: bytes | None
    overtaken: bool


class LogReader(Protocol):
    """Reduces the log of a partition, while it is read, to the records that are to be replayed.

    Attributes:
        records: how many records were read.
        skipped: the number of records of each unknown type.
    """

    skipped: Counter[int]

    @property
    def records(self) -> int:
        """See the class."""

    def add_batches(self, data: bytes) -> None:
        """Add whole batches, in the order of the log.

        Raises:
            MalformedFrame: the bytes are not such batches.
        """

    def survivors(self) -> Iterator[Pair]:
        """Yield what is to be replayed, and forget it."""

    def open_records(self) -> Iterator[OpenRecord]:
        """Yield the records of open transactions in the order of the log; before `survivors`."""


class Machine(Protocol[OutcomeT_co]):
    """A coordinator, as its runtime sees it."""

    # -- the log of a partition --------------------------------------------------------------------

    def epoch(self, partition: int) -> int:
        """Return the leader epoch of the latest load or unload; -1 before the first."""

    def begin_load(self, partition: int, epoch: int) -> bool:
        """Start to load a partition; return False if there is nothing to load.

        That is so if the epoch is not newer than the present one, or if the partition is loading or
        loaded already [coordinator/epochs].
        """

    def reader(self) -> LogReader:
        """Return a reader for the log of a partition."""

    def replay(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Apply one record of a partition that is being loaded.

        Raises:
            MalformedFrame: the record cannot be decoded.
        """

    def replay_open(self, partition: int, record: OpenRecord) -> None:
        """Apply one record of a transaction that is open at the end of the log, after all others.

        Raises:
            MalformedFrame: the record cannot be decoded.
        """

    def finish_load(self, partition: int, now_ms: int, skipped_records: int = 0) -> OutcomeT_co:
        """Serve a partition whose log has been read to its end."""

    def unload(self, partition: int, epoch: int | None, now_ms: int) -> OutcomeT_co:
        """Give a partition up: under a newer epoch, or in any case if that is None."""

    def fail(self, partition: int, now_ms: int) -> OutcomeT_co:
        """Give up a partition whose log cannot be used."""

    # -- appends -----------------------------------------------------------------------------------

    def encode(self, record: Record) -> Pair:
        """Return key and value of a record as bytes."""

    def appended(self, partition: int, operations: int, now_ms: int) -> OutcomeT_co:
        """Acknowledge the oldest `operations` appends of a partition as durable."""

    def append_failed(self, partition: int, error: ErrorCode, now_ms: int) -> OutcomeT_co:
        """Answer what waits for a lost append, and start to load the partition again.

        The epoch stays [coordinator/failed-append].
        """

    # -- time --------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """Return when to call `advance` next; None without a timer."""

    def advance(self, now_ms: int) -> OutcomeT_co:
        """Handle all timers that are due."""

    # -- for people --------------------------------------------------------------------------------

    def totals(self) -> dict[str, int]:
        """Return what the machine holds, by name, for the log line of a load."""
