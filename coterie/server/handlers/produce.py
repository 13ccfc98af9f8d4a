"""Produce: append one batch to each of some partitions.

With `--flush commit` the response waits until the appended batches are durable, whatever `acks`
asks for, because every acknowledgement promises that [data-plane/required-acks]. With acks=0
there is no response; as in Kafka, an error then closes the connection.
"""

from collections.abc import Callable, Generator
from functools import partial

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponseTopic,
)
from coterie.protocol.refusals import refusal
from coterie.server.handlers.closed_logs import must_wait
from coterie.server.handlers.moved_leaders import name_leaders
from coterie.server.handlers.produce_partitions import (
    append_to,
)
from coterie.server.handlers.transactional_produce import TransactionCheck, refused_transaction
from coterie.server.logs.partition import Partition
from coterie.server.logs.received_batches import RefusedBatch
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.route import Route
from coterie.server.network.sliced_response import answer_at_once, run_in_slices, run_now
from coterie.server.services import Services
from coterie.storage.log import Log

_TOPIC_IDS_SINCE = 13
_NO_ACKS = 0
# How many partitions are appended to in one turn of the event loop. The first batch of a log syncs
# its leader epoch.
_APPENDED_AT_ONCE = 32


def handle(
    broker: Services, request: ProduceRequest, connection: Exchange
) -> ProduceResponse | None:
    """Append the batches that can be appended, and answer for each partition."""
    by_id = connection.version >= _TOPIC_IDS_SINCE
    topics = broker.topics
    for asked in request.topic_data:
        topic = topics.by_id.get(asked.topic_id) if by_id else topics.by_name.get(asked.name)
        # Before anything is appended, because the request is handled again as a whole.
        if topic is not None and topic.unopened and _must_wait(broker, request, connection):
            return None
    is_large, check = False, None
    if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
        _drop_repeated(request)
        refused = refused_transaction(request)
        if refused is not None:
            return _refuse_all(request, refused, connection)
        is_large = _is_large(request)
    if request.transactional_id is not None:
        check = TransactionCheck(broker, request.transactional_id, connection.version)
    if (is_large or check is not None) and _is_delayed(broker, request, connection, check):
        return None
    appended: list[Log] = []
    responses = []
    for asked in request.topic_data:
        name = asked.topic_id if by_id else asked.name
        partitions = [
            append_to(broker, name, each, request, connection, appended, check)
            for each in asked.partition_data
        ]
        responses.append(
            ProduceResponseTopic(
                name=asked.name, topic_id=asked.topic_id, partition_responses=partitions
            )
        )
    response = ProduceResponse(responses=responses)
    if broker.leadership is not None:
        name_leaders(broker, response, connection)
    if request.acks == _NO_ACKS:
        _close_on_error(response, connection)
    elif appended and broker.flusher.commit:
        _answer_when_durable(broker, response, connection, appended)
        return None
    for log in appended:
        broker.flusher.appended(log)
    return None if request.acks == _NO_ACKS else response


def _refuse_all(
    request: ProduceRequest, refused: RefusedBatch, connection: Exchange
) -> ProduceResponse | None:
    response: ProduceResponse = refusal(
        request, refused.error, connection.version, error_message=refused.text
    )
    if request.acks == _NO_ACKS:
        _close_on_error(response, connection)
        return None
    return answer_at_once(connection, response)


def _is_large(request: ProduceRequest) -> bool:
    topics = request.topic_data
    return len(topics) + sum(len(each.partition_data) for each in topics) > _APPENDED_AT_ONCE


def _is_delayed(
    broker: Services, request: ProduceRequest, connection: Exchange, check: TransactionCheck | None
) -> bool:
    """Append later, if the request is large or adds partitions to its transaction."""
    delayed = DelayedResponse(connection)
    if check is not None:
        go_on = partial(_append_later, broker, request, connection, delayed, check)
        if check.must_wait(request, go_on):
            connection.delay_and_mute(delayed)
            return True
    if request.acks == _NO_ACKS or not _is_large(request):
        return False
    connection.delay_and_mute(delayed)
    _append_in_slices(broker, request, connection, delayed, check)
    return True


def _append_later(
    broker: Services,
    request: ProduceRequest,
    connection: Exchange,
    delayed: DelayedResponse,
    check: TransactionCheck,
) -> None:
    """Handle a request whose partitions were added to its transaction; it has waited for that.

    The appends are made at once, before the transaction can end.
    """
    if request.acks == _NO_ACKS:
        delayed.route = _without_response(delayed.route)
    elif _is_large(request):
        _append_in_slices(broker, request, connection, delayed, check)
        return
    durable = _DurableResponse(broker, delayed)
    try:
        response = run_now(_append_each(broker, request, connection, durable.add, check))
        if request.acks == _NO_ACKS:
            _close_on_error(response, connection)
        durable.send(response)
    except Exception as error:  # noqa: BLE001 - the caller is the transaction coordinator
        connection.fail_request(error)


def _without_response(route: Route) -> Route:
    """Return the route of a request that has no response: its place in the queue is given up."""
    return Route(
        route.api, route.version, route.handle, route.decoder, _no_frame, flexible=route.flexible
    )


def _no_frame(_response: object, _correlation_id: int) -> bytes:
    return b""


def _append_in_slices(
    broker: Services,
    request: ProduceRequest,
    connection: Exchange,
    delayed: DelayedResponse,
    check: TransactionCheck | None,
) -> None:
    """Handle a request for many partitions; each may be the first batch of its log."""
    durable = _DurableResponse(broker, delayed)
    steps = _append_each(broker, request, connection, durable.add, check)
    run_in_slices(broker, connection, steps, durable.send)


def _append_each(
    broker: Services,
    request: ProduceRequest,
    connection: Exchange,
    note: Callable[[Log], None],
    check: TransactionCheck | None,
) -> Generator[None, None, ProduceResponse]:
    """Append in steps; `note` is called with each log that was appended to."""
    by_id = connection.version >= _TOPIC_IDS_SINCE
    response = ProduceResponse(responses=[])
    for asked in request.topic_data:
        name = asked.topic_id if by_id else asked.name
        answered = ProduceResponseTopic(
            name=asked.name, topic_id=asked.topic_id, partition_responses=[]
        )
        response.responses.append(answered)
        for each in asked.partition_data:
            # Looked up each time, because the topic may be deleted between two steps.
            appended: list[Log] = []
            answered.partition_responses.append(
                append_to(broker, name, each, request, connection, appended, check)
            )
            for log in appended:
                note(log)
            yield
    if broker.leadership is not None:
        name_leaders(broker, response, connection)
    return response


class _DurableResponse:
    """A response that is sent when all logs that were appended to are durable."""

    def __init__(self, broker: Services, delayed: DelayedResponse) -> None:
        self._flusher = broker.flusher
        self._delayed = delayed
        self._response: ProduceResponse | None = None
        self._unsynced = 0
        self._failed = False

    def add(self, log: Log) -> None:
        """Wait for a log, if the broker syncs before it answers."""
        if not self._flusher.commit:
            self._flusher.appended(log)
            return
        self._unsynced += 1
        self._flusher.appended(log, self._synced)

    def _synced(self, error: Exception | None) -> None:
        self._unsynced -= 1
        assert self._unsynced >= 0, "each log is synced once"
        self._failed = self._failed or error is not None
        self._send_if_durable()

    def send(self, response: ProduceResponse) -> None:
        """Send the response when it may be sent."""
        self._response = response
        self._send_if_durable()

    def _send_if_durable(self) -> None:
        if self._response is not None and not self._unsynced:
            if self._failed:
                _fail_appended(self._response)
            self._delayed.send(self._response)


def _drop_repeated(request: ProduceRequest) -> None:
    """Drop all but the last entry of each partition, and topics without one.

    [data-plane/repeated-partitions]
    """
    topics: dict[tuple[str, bytes], ProduceRequestTopic] = {}
    for asked in request.topic_data:
        first = topics.setdefault((asked.name, asked.topic_id), asked)
        entries = {each.index: each for each in first.partition_data}
        if first is not asked:
            entries.update((each.index, each) for each in asked.partition_data)
        first.partition_data = list(entries.values())
    request.topic_data = [each for each in topics.values() if each.partition_data]


def _must_wait(broker: Services, request: ProduceRequest, connection: Exchange) -> bool:
    """Return whether the request waits for partitions to be opened."""
    found = (
        broker.logs.led(asked.name or asked.topic_id, each.index)
        for asked in request.topic_data
        for each in asked.partition_data
    )
    partitions = [each for each in found if isinstance(each, Partition) and not each.topic.is_own]
    return must_wait(broker, partitions, request, connection)


def _close_on_error(response: ProduceResponse, connection: Exchange) -> None:
    for topic in response.responses:
        for each in topic.partition_responses:
            if each.error_code:
                name = ErrorCode(each.error_code).name
                reason = f"Produce with acks=0 to {topic.name or topic.topic_id.hex()}-{each.index}"
                connection.close(name, reason)
                return


def _answer_when_durable(
    broker: Services, response: ProduceResponse, connection: Exchange, appended: list[Log]
) -> None:
    """Send the response when all logs have been synced."""
    delayed = DelayedResponse(connection)
    connection.delay(delayed)
    left = len(appended)

    def synced(error: Exception | None) -> None:
        nonlocal left
        left -= 1
        assert left >= 0, "each log is synced once"
        if error is not None:
            _fail_appended(response)
        if not left:
            delayed.send(response)

    for log in appended:
        broker.flusher.appended(log, synced)


def _fail_appended(response: ProduceResponse) -> None:
    """Set an error for all partitions: a failed sync does not show which batches are lost."""
    for topic in response.responses:
        for each in topic.partition_responses:
            if not each.error_code:
                each.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                each.base_offset = -1
