"""A Fetch from its first step to its response, which is the same course for each kind of fetch.

Look up the partitions, open logs that are not open, read, wait for more records and read again,
and make the response. Here is a fetch without a session; another kind says what it does differently
when it looks up, reads or makes the response.

A fetch of few partitions is answered at once, or else when what it waits for has come. One of many
goes on in slices, and between two of them the event loop serves others: any topic may be created
or deleted. While a fetch waits, and while it is handled in slices, its connection is muted.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import takewhile
from operator import not_
from typing import ClassVar

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchResponse,
    FetchResponseCurrentLeader,
    FetchResponseNodeEndpoint,
    FetchResponseTopic,
)
from coterie.server.handlers.moved_leaders import endpoints_of
from coterie.server.logs.fetch_sessions import SessionKey
from coterie.server.logs.fetching import (
    ISOLATION_LEVELS,
    DelayedFetch,
    FetchPartition,
    Read,
    Watchers,
    refused_partition,
)
from coterie.server.logs.led_logs import LedLogs, ReadOfReplicas
from coterie.server.logs.partition import Partition, Topic
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.sliced_response import run_in_slices, send_in_slices
from coterie.server.services import Services

TOPIC_IDS_SINCE = 13
LEADERS_SINCE = 16
# The errors of clients that know an older leader.
_MOVED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)

# The partitions that a fetch reads, and what refuses some of them.
Wanted = dict[SessionKey, FetchPartition]
Refuse = Callable[[Wanted], Iterable[None]]

# How many partitions are looked up or read in one step: about a millisecond.
READ_AT_ONCE = 128


class Fetch:
    """A fetch while it is handled; this one has no session and names all that it reads."""

    __slots__ = (
        "_broker",
        "_closed",
        "_connection",
        "_delayed",
        "_left",
        "_read",
        "_request",
        "_response",
        "_wanted",
        "_watched",
    )

    _read_at_once: ClassVar[int] = READ_AT_ONCE

    def __init__(self, broker: Services, request: FetchRequest, connection: Exchange) -> None:
        """Begin nothing yet."""
        self._broker = broker
        self._request = request
        self._connection = connection
        # What the next step waits for: logs to be opened, or appends to watched partitions.
        self._closed: list[Partition] = []
        self._watched: list[Watchers] = []
        self._read = self._new_read()
        self._response: FetchResponse | None = None
        # What is left to do.
        self._left: Iterator[bool | None] = self._steps()

    # --- the order of the steps -------------------------------------------------------------------

    def _steps(self) -> Generator[bool | None, None, None]:
        """Make the response; yield after each step, True where the next one has to wait."""
        yield from self._look_up()
        request = self._request
        if self._response is not None:
            return
        if request.isolation_level not in ISOLATION_LEVELS and self._watchers():
            # Kafka looks at the isolation level when it reads [data-plane/isolation].
            self._response = refused_as_a_whole(request, self._connection.version)
            return
        if self._closed:
            yield True
            self._closed = []
        yield from self._fill()
        if not self._read.is_enough():
            self._watched = self._watchers()
            if self._watched:
                yield True
                self._read = self._new_read()
                yield from self._fill()
        yield from self._render()

    def answer(self) -> FetchResponse | None:
        """Return the response, or None if it is sent later."""
        in_slices = self._is_large()
        if not in_slices and not any(self._left):
            return self._response
        self._delayed = DelayedResponse(self._connection)
        self._connection.delay_and_mute(self._delayed)
        if in_slices:
            self._go_on_in_slices()
        else:
            self._wait()
        return None

    def _wait(self) -> None:
        """Wait for what the next step needs, and go on then."""
        if self._closed:
            self._broker.logs.opener.open(self._closed, self._go_on)
        elif not self._connection.closed:
            loop, delayed = self._broker.loop, self._delayed
            DelayedFetch(loop, delayed, self._watched, self._read, self._go_on)

    def _go_on(self) -> None:
        """Take the steps up to the next wait, or to the end and send the response."""
        if self._is_large():
            self._go_on_in_slices()
            return
        try:
            if any(self._left):
                self._wait()
            else:
                self._delayed.send(self._response)
        except Exception as error:  # noqa: BLE001 - the caller has others to call, too
            self._connection.fail_request(error)

    def _go_on_in_slices(self) -> None:
        run_in_slices(self._broker, self._connection, self._sliced(), self._end_of_slices)

    def _sliced(self) -> Generator[None, None, FetchResponse | None]:
        """Take the steps up to the next wait or to the end; return the response if it is made."""
        for _ in takewhile(not_, self._left):
            yield
        return self._response

    def _end_of_slices(self, response: FetchResponse | None) -> None:
        if response is None:
            self._wait()
        else:
            # No step is left; it is encoded in slices, too.
            send_in_slices(self._broker, self._delayed, self._sliced())

    # --- the steps --------------------------------------------------------------------------------

    def _is_large(self) -> bool:
        """Return whether there are too many partitions for one turn of the event loop."""
        return named_entries(self._request) > READ_AT_ONCE

    def _look_up(self) -> Iterable[None]:
        """Look the partitions up. Of one that is named twice the last entry counts."""
        topics, by_id = self._broker.topics, self._connection.version >= TOPIC_IDS_SINCE
        wanted: Wanted = {}
        self._wanted = wanted
        count = 0
        for asked in self._request.topics:
            name: str | bytes = asked.topic_id if by_id else asked.topic
            topic = topics.by_id.get(asked.topic_id) if by_id else topics.by_name.get(asked.topic)
            count += 1
            if not count % READ_AT_ONCE:
                yield
            for each in asked.partitions:
                wanted[name, each.partition] = found = find_partition(name, topic, each)
                if found.partition is not None and found.partition.opened_log is None:
                    self._closed.append(found.partition)
                count += 1
                if not count % READ_AT_ONCE:
                    yield

    def _new_read(self) -> Read:
        request, logs = self._request, self._broker.logs
        max_bytes = min(request.max_bytes, self._broker.most_fetched_bytes())
        min_bytes, max_wait_ms = request.min_bytes, request.max_wait_ms
        if isinstance(logs, LedLogs):
            version, isolation = self._connection.version, request.isolation_level
            return ReadOfReplicas(logs, version, max_bytes, min_bytes, max_wait_ms, isolation)
        return Read(max_bytes, min_bytes, max_wait_ms, request.isolation_level)

    def _fill(self) -> Iterable[None]:
        """Read the partitions."""
        read = self._read
        for count, wanted in enumerate(self._wanted.values(), 1):
            read.add(wanted, read.read_partition(wanted))
            if not count % self._read_at_once:
                yield

    def _watchers(self) -> list[Watchers]:
        """Return the watchers of the partitions whose appends end the wait."""
        found = (each.partition for each in self._wanted.values())
        return [partition.watchers for partition in found if partition is not None]

    def _render(self) -> Iterable[None]:
        """Make the response of what was found."""
        self._response = response = FetchResponse(responses=self._read.topics)
        if self._read.answer_now and self._connection.version >= LEADERS_SINCE:
            self._add_leaders(response)
        return ()

    def _add_leaders(self, response: FetchResponse) -> None:
        """Name the leader of partitions that the client looks for at another one (KIP-951)."""
        image, leaders = self._broker.image, set()
        for wanted, found in self._read.found:
            if found.error_code in _MOVED and wanted.partition is not None:
                where = image.placement(wanted.partition)
                leaders.add(where.leader_id)
                found.current_leader = FetchResponseCurrentLeader(
                    leader_id=where.leader_id, leader_epoch=where.leader_epoch
                )
        response.node_endpoints = endpoints_of(
            leaders, self._broker, self._connection, FetchResponseNodeEndpoint
        )


class CheckedFetch(Fetch):
    """A fetch of a client that may not read everything."""

    __slots__ = ("_refuse",)

    def __init__(
        self, refuse: Refuse, broker: Services, request: FetchRequest, connection: Exchange
    ) -> None:
        """Begin nothing yet.

        Args:
            refuse: refuses some of the partitions once they are looked up, in steps.
            broker: the broker.
            request: the request.
            connection: where it came from.
        """
        self._refuse = refuse
        super().__init__(broker, request, connection)

    def _look_up(self) -> Iterable[None]:
        yield from super()._look_up()
        yield from self._refuse(self._wanted)


def named_entries(request: FetchRequest) -> int:
    """Return how many topics and partitions a request names."""
    entries = len(request.topics)
    for asked in request.topics:
        entries += len(asked.partitions)
    return entries


def find_partition(
    name: str | bytes, topic: Topic | None, asked: FetchRequestPartition
) -> FetchPartition:
    """Look up a partition of the topic with this name or id; the topic is None if there is none."""
    partition = None if topic is None else topic.partition(asked.partition)
    error = ErrorCode.NONE
    if partition is None:
        unknown_id = topic is None and isinstance(name, bytes)
        error = ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return FetchPartition(
        name,
        asked.partition,
        partition,
        error,
        asked.fetch_offset,
        asked.partition_max_bytes,
        asked.current_leader_epoch,
        asked.last_fetched_epoch,
    )


def refused_as_a_whole(request: FetchRequest, version: int) -> FetchResponse:
    """Return the response to a request with a field that Kafka fails at.

    These are an isolation level that does not exist, with a partition to read
    [data-plane/isolation], and a session id that has no place in its tables
    [data-plane/session-errors].
    """
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    # Later clients read the error of the whole response.
    topics = request.topics if version < TOPIC_IDS_SINCE else []
    responses = [
        FetchResponseTopic(
            topic=asked.topic,
            topic_id=asked.topic_id,
            partitions=[
                refused_partition(each.partition, error, has_list=True) for each in asked.partitions
            ],
        )
        for asked in topics
    ]
    return FetchResponse(error_code=error, session_id=request.session_id, responses=responses)
