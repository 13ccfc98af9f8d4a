"""Fetches in steps: of many partitions, or of partitions whose logs have to be opened.

The connection is muted until the response is sent. Between two steps the event loop serves others,
and any topic may be created or deleted.
"""

from collections.abc import Callable, Generator

from coterie.protocol.messages.fetch import FetchRequest, FetchResponse
from coterie.server.handlers.fetch_partitions import (
    FetchResult,
    may_be_sent,
    min_bytes,
    refused_as_a_whole,
)
from coterie.server.logs.fetching import ISOLATION_LEVELS, DelayedFetch, Watchers
from coterie.server.logs.partition import Partition
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.sliced_response import run_in_slices, send_in_slices
from coterie.server.services import Services


def wait_for_records(
    broker: Services,
    request: FetchRequest,
    watched: list[Watchers],
    size_bytes: int,
    delayed: DelayedResponse,
    answer: Callable[[], None],
) -> None:
    """Wait until enough is appended to the partitions, or for `max_wait_ms`; then call `answer`.

    Args:
        broker: the broker.
        request: the request.
        watched: the watchers of its partitions.
        size_bytes: the size of the records that there are already.
        delayed: the response; the wait ends with its connection.
        answer: reads again and sends the response.
    """
    missing_bytes = min_bytes(broker, request) - size_bytes
    DelayedFetch(
        broker.loop,
        delayed,
        watched,
        missing_bytes,
        request.max_wait_ms,
        answer,
        request.isolation_level,
    )


class SteppedFetch:
    """A fetch in steps: look up, open logs, read, wait for more records, complete the response."""

    def __init__(self, broker: Services, request: FetchRequest, connection: Exchange) -> None:
        """Begin nothing yet."""
        self._broker = broker
        self._request = request
        self._connection = connection
        self._delayed = DelayedResponse(connection)

    # --- the steps --------------------------------------------------------------------------------

    def _look_up(self) -> Generator[None, None, list[Partition]]:
        """Look the partitions up, and return those whose logs are not open."""
        raise NotImplementedError

    def _read(self) -> Generator[None, None, FetchResult]:
        """Read the partitions."""
        raise NotImplementedError

    def _complete(self, result: FetchResult) -> Generator[None, None, FetchResponse]:
        """Return the response with what belongs to its session."""
        raise NotImplementedError

    def _watched(self) -> list[Watchers]:
        """Return the watchers of the partitions whose appends end the wait."""
        raise NotImplementedError

    def _is_refused(self) -> bool:
        """Return whether partitions were found, but cannot be read at the isolation level.

        Kafka looks at the level when it reads [data-plane/isolation].
        """
        return self._request.isolation_level not in ISOLATION_LEVELS and bool(self._watched())

    # --- their order ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Mute the connection and look the partitions up."""
        self._connection.delay_and_mute(self._delayed)
        run_in_slices(self._broker, self._connection, self._look_up(), self._open)

    def _open(self, closed: list[Partition]) -> None:
        """Open logs, then go on. The connection is muted."""
        if self._is_refused():
            self._delayed.send(refused_as_a_whole(self._request, self._connection.version))
            return
        self._broker.logs.opener.open(closed, lambda: self._read_then(self._send_or_wait))

    def _read_then(self, then: Callable[[FetchResult], None]) -> None:
        run_in_slices(self._broker, self._connection, self._read(), then)

    def _send_or_wait(self, result: FetchResult) -> None:
        watched = self._watched()
        if not watched or may_be_sent(self._broker, self._request, result):
            self._send(result)
        elif not self._connection.closed:
            self._wait(result, watched)

    def _wait(self, result: FetchResult, watched: list[Watchers]) -> None:
        wait_for_records(
            self._broker, self._request, watched, result.size_bytes, self._delayed, self._answer
        )

    def _answer(self) -> None:
        """Read again and send the response; the wait is over."""
        self._read_then(self._send)

    def _send(self, result: FetchResult) -> None:
        send_in_slices(self._broker, self._delayed, self._complete(result))
