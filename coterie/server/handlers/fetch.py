"""Fetch: read record batches; wait up to `max_wait_ms` for `min_bytes` [data-plane/long-poll].

A request stands alone, opens a fetch session, or continues one [data-plane/fetch-sessions].
"""

from collections.abc import Generator

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import FetchRequest, FetchResponse, FetchResponseTopic
from coterie.server.handlers.closed_logs import must_wait
from coterie.server.handlers.fetch_partitions import (
    READ_AT_ONCE,
    TOPIC_IDS_SINCE,
    FetchResult,
    WantedTopic,
    look_up,
    look_up_topic,
    may_be_sent,
    named_entries,
    parts,
    read,
    refused_as_a_whole,
    watchers_of,
)
from coterie.server.handlers.session_fetch import (
    SessionFetch,
    leaves_no_partition,
    open_session,
)
from coterie.server.handlers.stepped_fetch import SteppedFetch, wait_for_records
from coterie.server.logs.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    may_be_session,
)
from coterie.server.logs.fetching import ISOLATION_LEVELS, FetchPartition, Watchers
from coterie.server.logs.partition import Partition
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.sliced_response import run_now
from coterie.server.services import Services


def handle(broker: Services, request: FetchRequest, connection: Exchange) -> FetchResponse | None:
    """Answer with the records there are, or wait for more."""
    if not may_be_session(request.session_id):
        return refused_as_a_whole(request, connection.version)
    epoch = request.session_epoch
    if epoch != FINAL_EPOCH and epoch != INITIAL_EPOCH:
        found = broker.fetch_sessions.find(
            request.session_id, epoch, uses_topic_ids=connection.version >= TOPIC_IDS_SINCE
        )
        if isinstance(found, ErrorCode):
            return FetchResponse(error_code=found, responses=[])
        if not leaves_no_partition(found, request):
            return SessionFetch(broker, request, connection, found).answer()
        # The session ends, and what the request names is read without one.
        epoch = request.session_epoch = FINAL_EPOCH
    if request.session_id != NO_SESSION:
        broker.fetch_sessions.close(request.session_id)
    if named_entries(request) > READ_AT_ONCE:
        LargeFetch(broker, request, connection).begin()
        return None
    closed: list[Partition] = []
    version = connection.version
    wanted = look_up(broker, request, closed, by_id=version >= TOPIC_IDS_SINCE)
    if request.isolation_level not in ISOLATION_LEVELS and watchers_of(wanted):
        return refused_as_a_whole(request, version)
    if closed and must_wait(broker, closed, request, connection):
        return None
    result = read(broker, request, wanted, connection)
    if may_be_sent(broker, request, result) or not (watched := watchers_of(wanted)):
        if epoch == FINAL_EPOCH:
            return result.response
        return run_now(open_session(broker, connection, wanted, result.response))
    delayed = DelayedResponse(connection)

    def answer() -> None:
        response = read(broker, request, wanted, connection).response
        if epoch == INITIAL_EPOCH:
            run_now(open_session(broker, connection, wanted, response))
        delayed.send(response)

    wait_for_records(broker, request, watched, result.size_bytes, delayed, answer)
    connection.delay_and_mute(delayed)
    return None


class LargeFetch(SteppedFetch):
    """A fetch that names its many partitions.

    Attributes:
        wanted: the partitions, looked up.
    """

    def __init__(self, broker: Services, request: FetchRequest, connection: Exchange) -> None:
        """Begin nothing yet."""
        super().__init__(broker, request, connection)
        self.wanted: list[WantedTopic] = []

    def _look_up(self) -> Generator[None, None, list[Partition]]:
        closed: list[Partition] = []
        by_id = self._connection.version >= TOPIC_IDS_SINCE
        for asked in self._request.topics:
            partitions: dict[int, FetchPartition] = {}
            for part in parts(asked.partitions):
                partitions |= look_up_topic(self._broker, asked, part, closed, by_id=by_id)
                yield
            self.wanted.append((asked, list(partitions.values())))
            yield
        return closed

    def _read(self) -> Generator[None, None, FetchResult]:
        response = FetchResponse(responses=[])
        size_bytes, answer_now = 0, False
        for asked, partitions in self.wanted:
            answered = FetchResponseTopic(topic=asked.topic, topic_id=asked.topic_id, partitions=[])
            response.responses.append(answered)
            for part in parts(partitions):
                wanted = [(asked, part)]
                found = read(self._broker, self._request, wanted, self._connection, size_bytes)
                size_bytes, answer_now = found.size_bytes, answer_now or found.answer_now
                answered.partitions += found.response.responses[0].partitions
                response.node_endpoints = found.response.node_endpoints or response.node_endpoints
                yield
            yield
        return FetchResult(response, size_bytes, answer_now)

    def _complete(self, result: FetchResult) -> Generator[None, None, FetchResponse]:
        response = result.response
        if self._request.session_epoch == INITIAL_EPOCH:
            yield from open_session(self._broker, self._connection, self.wanted, response)
        return response

    def _watched(self) -> list[Watchers]:
        return watchers_of(self.wanted)
