"""The APIs of the share coordinator, about any number of share partitions of one group.

InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState, DeleteShareGroupState and
ReadShareGroupStateSummary [share-partitions/state-requests]. Brokers of this process ask each
other's coordinators without them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from coterie.coordinator.share_state.requests import (
    Delete,
    Initialize,
    Read,
    ReadSummary,
    ShareKey,
    StateRequest,
    StateResult,
    Write,
)
from coterie.coordinator.share_state.share_state import from_wire, to_wire
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateResponse,
    DeleteStatePartition,
    DeleteStatePartitionResult,
    DeleteStateTopicResult,
)
from coterie.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateResponse,
    InitializeStatePartition,
    InitializeStatePartitionResult,
    InitializeStateTopicResult,
)
from coterie.protocol.messages.read_share_group_state import (
    ReadShareGroupStateResponse,
    ReadStatePartition,
    ReadStatePartitionResult,
    ReadStateTopicResult,
)
from coterie.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryPartition,
    ReadStateSummaryPartitionResult,
    ReadStateSummaryTopicResult,
)
from coterie.protocol.messages.write_share_group_state import (
    WriteShareGroupStateResponse,
    WriteStatePartition,
    WriteStatePartitionResult,
    WriteStateTopicResult,
)
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.services import Services


class _Api(NamedTuple):
    """What differs between the APIs.

    Attributes:
        request: makes the request about one share partition.
        result: makes the part of the response about one.
        topic, response: the classes of what these are collected in.
    """

    request: Callable[[ShareKey, Any], StateRequest]
    result: Callable[[int, StateResult], Any]
    topic: Callable[..., Any]
    response: Callable[..., Any]


def _initialize(key: ShareKey, asked: InitializeStatePartition) -> StateRequest:
    return Initialize(key, asked.state_epoch, asked.start_offset)


def _read(key: ShareKey, asked: ReadStatePartition) -> StateRequest:
    return Read(key, asked.leader_epoch)


def _write(key: ShareKey, asked: WriteStatePartition) -> StateRequest:
    return Write(
        key,
        asked.state_epoch,
        asked.leader_epoch,
        asked.start_offset,
        asked.delivery_complete_count,
        from_wire(asked.state_batches),
    )


def _delete(key: ShareKey, _asked: DeleteStatePartition) -> StateRequest:
    return Delete(key)


def _read_summary(key: ShareKey, asked: ReadStateSummaryPartition) -> StateRequest:
    return ReadSummary(key, asked.leader_epoch)


def _read_result(partition: int, result: StateResult) -> ReadStatePartitionResult:
    return ReadStatePartitionResult(
        partition=partition,
        error_code=result.error,
        error_message=result.message,
        state_epoch=result.state_epoch,
        start_offset=0 if result.error else result.start_offset,
        state_batches=to_wire(result.batches),
    )


def _summary_result(partition: int, result: StateResult) -> ReadStateSummaryPartitionResult:
    return ReadStateSummaryPartitionResult(
        partition=partition,
        error_code=result.error,
        error_message=result.message,
        state_epoch=result.state_epoch,
        leader_epoch=result.leader_epoch,
        start_offset=0 if result.error else result.start_offset,
        delivery_complete_count=result.delivery_complete_count,
    )


def _plain(cls: Callable[..., Any]) -> Callable[[int, StateResult], Any]:
    """Return what makes the part of a response that has only an error."""

    def result(partition: int, result: StateResult) -> Any:
        return cls(partition=partition, error_code=result.error, error_message=result.message)

    return result


_APIS = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _Api(
        _initialize,
        _plain(InitializeStatePartitionResult),
        InitializeStateTopicResult,
        InitializeShareGroupStateResponse,
    ),
    ApiKey.READ_SHARE_GROUP_STATE: _Api(
        _read, _read_result, ReadStateTopicResult, ReadShareGroupStateResponse
    ),
    ApiKey.WRITE_SHARE_GROUP_STATE: _Api(
        _write,
        _plain(WriteStatePartitionResult),
        WriteStateTopicResult,
        WriteShareGroupStateResponse,
    ),
    ApiKey.DELETE_SHARE_GROUP_STATE: _Api(
        _delete,
        _plain(DeleteStatePartitionResult),
        DeleteStateTopicResult,
        DeleteShareGroupStateResponse,
    ),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _Api(
        _read_summary,
        _summary_result,
        ReadStateSummaryTopicResult,
        ReadShareGroupStateSummaryResponse,
    ),
}


def handle(broker: Services, request: Any, connection: Exchange) -> Any:
    """Ask about each share partition, and answer when all answers are there."""
    api = _APIS[connection.route.api]
    asking = _Asking(broker, request, api)
    response = asking.begin()
    if response is not None:
        return response
    delayed = DelayedResponse(connection)
    connection.delay_and_mute(delayed)
    asking.done = delayed.send
    return None


HANDLERS = dict.fromkeys(_APIS, handle)


class _Asking:
    """The questions of one request.

    Attributes:
        done: called with the response, if it is not there at once.
    """

    def __init__(self, broker: Services, request: Any, api: _Api) -> None:
        self.done: Callable[[Any], None] | None = None
        self._broker = broker
        self._request = request
        self._api = api
        self._left = 1

    def begin(self) -> Any:
        """Ask all questions; return the response if it is there at once."""
        topics = [] if not self._request.group_id else self._request.topics
        results = [
            self._api.topic(topic_id=topic.topic_id, partitions=[None] * len(topic.partitions))
            for topic in topics
        ]
        self._response = self._api.response(results=results)
        for topic, result in zip(topics, results, strict=True):
            for place, asked in enumerate(topic.partitions):
                self._ask(topic.topic_id, asked, result.partitions, place)
        self._left -= 1
        return None if self._left else self._response

    def _ask(self, topic_id: bytes, asked: Any, parts: list[Any], place: int) -> None:
        self._left += 1

        def answered(result: StateResult) -> None:
            parts[place] = self._api.result(asked.partition, result)
            self._left -= 1
            if not self._left and self.done is not None:
                self.done(self._response)

        key = ShareKey(self._request.group_id, topic_id, asked.partition)
        try:
            request = self._api.request(key, asked)
        except MalformedFrame:
            answered(StateResult(ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        self._broker.share_state.ask(request, answered)
