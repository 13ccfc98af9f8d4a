"""WriteTxnMarkers: end transactions in partitions, also by force [transactions/write-txn-markers].

Between brokers this is how a transaction coordinator ends a transaction. Here the coordinator calls
`MarkerWriter` itself, and the request comes from administrators who abort a hanging transaction.
"""

from collections.abc import Generator

from coterie.protocol.control_records import TransactionMarkers
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponsePartition,
    WriteTxnMarkersResponseTopic,
)
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.sliced_response import (
    answer_in_slices,
    made_in_steps,
    run_in_slices,
    send_in_slices,
)
from coterie.server.services import Services

# No batch can have it, and it spoils the whole request.
_NO_EPOCH = -1
# What the group coordinator answers while it cannot write: a transaction coordinator expects
# NOT_LEADER_OR_FOLLOWER instead.
_NOT_READY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def handle(
    broker: Services, request: WriteTxnMarkersRequest, connection: Exchange
) -> WriteTxnMarkersResponse | None:
    """Append the markers in steps, and answer when all of them are durable."""
    if not request.markers:
        return WriteTxnMarkersResponse(markers=[])
    if any(asked.producer_epoch == _NO_EPOCH for asked in request.markers):
        return answer_in_slices(broker, connection, _refused(request))
    delayed = DelayedResponse(connection)
    connection.delay_and_mute(delayed)
    writing = _Writing(broker, request, delayed)
    run_in_slices(broker, connection, writing.steps(), writing.end)
    return None


class _Writing:
    """The markers of one request."""

    def __init__(
        self, broker: Services, request: WriteTxnMarkersRequest, delayed: DelayedResponse
    ) -> None:
        self._broker = broker
        self._request = request
        self._delayed = delayed
        # By producer, topic and partition. As in Kafka, a partition that is named twice has one
        # result.
        self._results: dict[int, dict[str, dict[int, ErrorCode]]] = {}
        # How many results are missing, counting the steps as one.
        self._left = 1

    def steps(self) -> Generator[None, None, None]:
        """Append the markers, one at each step."""
        for asked in self._request.markers:
            yield
            for topic in asked.topics:
                yield
                for index in topic.partition_indexes:
                    self._write(asked, topic.name, index)
                    yield

    def _write(
        self,
        asked: WriteTxnMarkersRequestMarker,
        name: str,
        index: int,
    ) -> None:
        markers = TransactionMarkers(
            log_partition=-1,
            transactional_id="",
            producer_id=asked.producer_id,
            producer_epoch=asked.producer_epoch,
            coordinator_epoch=asked.coordinator_epoch,
            commit=asked.transaction_result,
            transaction_version=asked.transaction_version,
            partitions=((name, index),),
        )
        results = self._results.setdefault(asked.producer_id, {}).setdefault(name, {})
        results[index] = ErrorCode.NONE
        self._left += 1

        def answered(error: ErrorCode) -> None:
            results[index] = ErrorCode.NOT_LEADER_OR_FOLLOWER if error in _NOT_READY else error
            self._one_done()

        self._broker.markers.write_one(markers, name, index, answered)

    def end(self, _result: None) -> None:
        """Answer when the last marker is durable: all steps are done."""
        self._one_done()

    def _one_done(self) -> None:
        self._left -= 1
        assert self._left >= 0, "each marker has one result"
        if not self._left:
            send_in_slices(self._broker, self._delayed, _response(self._results))


def _refused(
    request: WriteTxnMarkersRequest,
) -> Generator[None, None, WriteTxnMarkersResponse]:
    results: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for asked in request.markers:
        topics = results.setdefault(asked.producer_id, {})
        for topic in asked.topics:
            partitions = topics.setdefault(topic.name, {})
            partitions.update(
                dict.fromkeys(topic.partition_indexes, ErrorCode.UNKNOWN_SERVER_ERROR)
            )
    return (yield from _response(results))


def _response(
    results: dict[int, dict[str, dict[int, ErrorCode]]],
) -> Generator[None, None, WriteTxnMarkersResponse]:
    markers = []
    for producer_id, by_topic in results.items():
        topics = []
        for name, by_index in by_topic.items():
            yield
            partitions = yield from made_in_steps(_partition, by_index.items())
            topics.append(WriteTxnMarkersResponseTopic(name=name, partitions=partitions))
        markers.append(WriteTxnMarkersResponseMarker(producer_id=producer_id, topics=topics))
    return WriteTxnMarkersResponse(markers=markers)


def _partition(answered: tuple[int, ErrorCode]) -> WriteTxnMarkersResponsePartition:
    index, error = answered
    return WriteTxnMarkersResponsePartition(partition_index=index, error_code=error)
