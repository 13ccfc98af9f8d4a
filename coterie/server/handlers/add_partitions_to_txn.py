"""AddPartitionsToTxn: add partitions to transactions, or verify them (KIP-98, KIP-890).

Producers send versions 0 to 3, for one transaction; the newer ones are for brokers, and answered to
everybody, as Kafka does without an authorizer [transactions/add-partitions].
"""

from collections.abc import Sequence

from coterie.coordinator.transactions.responses import error_of_version
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartition,
    AddPartitionsToTxnResponseTopic,
    AddPartitionsToTxnResponseTransaction,
)
from coterie.server.logs.topic_rules import INTERNAL_TOPICS
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.services import Services
from coterie.server.transactions.use import TransactionUse

# From this version on a request has several transactions.
_SEVERAL_SINCE = 4
# The level of those who send these versions [transactions/levels].
_LEVEL_OF_PRODUCERS = 0
_LEVEL_OF_BROKERS = 2

_Topics = Sequence[AddPartitionsToTxnRequestTopic]
# The error of each partition, in the order of the request.
_Errors = list[ErrorCode]


def handle(
    broker: Services, request: AddPartitionsToTxnRequest, connection: Exchange
) -> AddPartitionsToTxnResponse | None:
    """Add or verify the partitions of each transaction."""
    if connection.version < _SEVERAL_SINCE:
        asked = AddPartitionsToTxnRequestTransaction(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            topics=request.topics,
        )
        return _Answer(broker, connection, [asked], _LEVEL_OF_PRODUCERS).begin()
    return _Answer(broker, connection, request.transactions, _LEVEL_OF_BROKERS).begin()


class _Answer:
    """A response that is complete when the coordinator has answered for every transaction."""

    def __init__(
        self,
        broker: Services,
        connection: Exchange,
        asked: Sequence[AddPartitionsToTxnRequestTransaction],
        level: int,
    ) -> None:
        self._broker = broker
        self._connection = connection
        self._asked = asked
        self._level = level
        self._version = connection.version
        # The errors of each transaction; None while they are not known.
        self._errors: list[_Errors | None] = [None] * len(asked)
        self._delayed: DelayedResponse | None = None

    def begin(self) -> AddPartitionsToTxnResponse | None:
        """Ask the coordinator for every transaction; return the response, or None if it is late."""
        for index, asked in enumerate(self._asked):
            self._errors[index] = self._ask(index, asked)
        if None not in self._errors:
            return self._response()
        self._delayed = DelayedResponse(self._connection)
        self._connection.delay(self._delayed)
        return None

    def _ask(self, index: int, asked: AddPartitionsToTxnRequestTransaction) -> _Errors | None:
        partitions = [(topic.name, each) for topic in asked.topics for each in topic.partitions]
        is_producer = self._version < _SEVERAL_SINCE
        refused = [self._refusal(*each, is_producer=is_producer) for each in partitions]
        if any(refused):
            return [each or ErrorCode.OPERATION_NOT_ATTEMPTED for each in refused]
        if asked.verify_only:
            # Each partition has an answer of its own, which is known at once.
            return [self._use(index, asked, (each,)) or ErrorCode.NONE for each in partitions]
        error = self._use(index, asked, tuple(dict.fromkeys(partitions)))
        return None if error is None else [error] * len(partitions)

    def _refusal(self, name: str, index: int, *, is_producer: bool) -> ErrorCode:
        if is_producer and name in INTERNAL_TOPICS:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        topic = self._broker.topics.by_name.get(name)
        if topic is None or topic.partition(index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    def _use(
        self,
        index: int,
        asked: AddPartitionsToTxnRequestTransaction,
        partitions: tuple[tuple[str, int], ...],
    ) -> ErrorCode | None:
        use = TransactionUse(
            asked.transactional_id,
            asked.producer_id,
            asked.producer_epoch,
            partitions,
            add=not asked.verify_only,
            client_transaction_version=self._level,
        )

        def done(error: ErrorCode) -> None:
            count = sum(len(topic.partitions) for topic in asked.topics)
            self._errors[index] = [error] * count
            if None not in self._errors and self._delayed is not None:
                self._delayed.send(self._response())

        return self._broker.transactions.use_partitions(use, done)

    def _response(self) -> AddPartitionsToTxnResponse:
        unsupported = ErrorCode.UNSUPPORTED_VERSION
        if any(unsupported in (errors or ()) for errors in self._errors):
            # It is the error of the whole request [transactions/levels].
            return AddPartitionsToTxnResponse(error_code=unsupported)
        results = [
            self._results(asked.topics, errors or [])
            for asked, errors in zip(self._asked, self._errors, strict=True)
        ]
        if self._version < _SEVERAL_SINCE:
            return AddPartitionsToTxnResponse(results_by_topic=results[0])
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResponseTransaction(
                    transactional_id=asked.transactional_id, topic_results=result
                )
                for asked, result in zip(self._asked, results, strict=True)
            ]
        )

    def _results(self, topics: _Topics, errors: _Errors) -> list[AddPartitionsToTxnResponseTopic]:
        codes = iter(errors)
        return [
            AddPartitionsToTxnResponseTopic(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnResponsePartition(
                        partition_index=each,
                        partition_error_code=error_of_version(
                            next(codes), ApiKey.ADD_PARTITIONS_TO_TXN, self._version
                        ),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in topics
        ]
