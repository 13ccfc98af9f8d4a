"""Messages of the share coordinator about any number of share partitions of one group.

Each is taken apart into requests about one, and the answers are put together. Clients send such
messages, and the group coordinator makes them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
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


# Asks about one share partition; the function is called with the answer, now or later.
Ask = Callable[[StateRequest, Callable[[StateResult], None]], None]
# A question about one share partition, and what takes its answer.
Question = tuple[StateRequest, Callable[[StateResult], None]]


# Calls a function in a later turn of the event loop.
Later = Callable[[Callable[[], None]], object]
# How many share partitions are asked about in one turn: about two milliseconds.
_AT_ONCE = 64


def ask_all(api: ApiKey, message: Any, ask: Ask, done: Callable[[Any], None], later: Later) -> None:
    """Ask about each share partition of a message, of many in several turns.

    Args:
        api: the API of the message.
        message: the request.
        ask: asks about one.
        done: called with the response when all answers are there, now or later.
        later: goes on in a later turn of the event loop.
    """
    made = _APIS[api]
    topics = message.topics if message.group_id else []
    results = [
        made.topic(topic_id=topic.topic_id, partitions=[None] * len(topic.partitions))
        for topic in topics
    ]
    questions = _questions(made, message.group_id, topics, results)
    ask_each(questions, ask, lambda: done(made.response(results=results)), later)


def _questions(
    api: _Api, group_id: str, topics: list[Any], results: list[Any]
) -> Iterator[Question | None]:
    """Yield the questions of a message, whose answers go into `results`."""
    for topic, result in zip(topics, results, strict=True):
        for place, asked in enumerate(topic.partitions):
            take = partial(_take, api, result.partitions, place, asked.partition)
            try:
                yield api.request(ShareKey(group_id, topic.topic_id, asked.partition), asked), take
            except MalformedFrame:
                take(StateResult(ErrorCode.UNKNOWN_SERVER_ERROR))
                yield None


def _take(api: _Api, parts: list[Any], place: int, partition: int, result: StateResult) -> None:
    parts[place] = api.result(partition, result)


def ask_each(
    questions: Iterator[Question | None], ask: Ask, done: Callable[[], None], later: Later
) -> None:
    """Ask questions, of many in several turns.

    Args:
        questions: the questions; None stands for a piece of work without one.
        ask: asks about one share partition.
        done: called when all answers were taken, now or later.
        later: goes on in a later turn of the event loop.
    """
    _Asking(questions, ask, done, later).go_on()


class _Asking:
    """Questions that are asked one after the other, and answered in any order."""

    def __init__(
        self,
        questions: Iterator[Question | None],
        ask: Ask,
        done: Callable[[], None],
        later: Later,
    ) -> None:
        self._questions = questions
        self._ask = ask
        self._done = done
        self._later = later
        # The answers that are missing, counting the asking itself as one.
        self._left = 1

    def go_on(self) -> None:
        """Ask the next questions, and go on later if there are more."""
        questions = list(islice(self._questions, _AT_ONCE))
        for question in questions:
            if question is not None:
                self._left += 1
                self._ask(question[0], partial(self._answered, question[1]))
        if len(questions) == _AT_ONCE:
            self._later(self.go_on)
        else:
            self._one_done()

    def _answered(self, take: Callable[[StateResult], None], result: StateResult) -> None:
        take(result)
        self._one_done()

    def _one_done(self) -> None:
        self._left -= 1
        if not self._left:
            self._done()
