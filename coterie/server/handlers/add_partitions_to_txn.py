"""AddPartitionsToTxn: add partitions to transactions, or verify them (KIP-98, KIP-890).

Producers send versions 0 to 3, for one transaction; the newer ones are for brokers, and answered to
everybody, as Kafka does without an authorizer [transactions/add-partitions].
"""

from collections.abc import Generator, Sequence

from coterie.coordinator.transactions.responses import error_of_version
from coterie.coordinator.transactions.transaction import TopicPartition
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
from coterie.server.metadata.topic_rules import INTERNAL_TOPICS
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.sliced_response import (
    MADE_AT_ONCE,
    made_in_steps,
    run_for_a_slice,
    run_in_slices,
    run_now,
    send_in_slices,
)
from coterie.server.services import Services
from coterie.server.transactions.use import TransactionUse

# From this version on a request has several transactions.
_SEVERAL_SINCE = 4
# The level of those who send these versions [transactions/levels].
_LEVEL_OF_PRODUCERS = 0
_LEVEL_OF_BROKERS = 2

_Topics = Sequence[AddPartitionsToTxnRequestTopic]
# The error of each partition, in the order of the request.
_Errors = Sequence[ErrorCode]


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
        return _Answer(broker, connection, [asked], is_of_producer=True).begin()
    if not request.transactions:
        # Kafka answers with the last transaction, so never [transactions/add-partitions].
        connection.delay_and_mute(DelayedResponse(connection))
        return None
    return _Answer(broker, connection, request.transactions, is_of_producer=False).begin()


class _Answer:
    """A response that is complete when the coordinator has answered for every transaction."""

    def __init__(
        self,
        broker: Services,
        connection: Exchange,
        asked: Sequence[AddPartitionsToTxnRequestTransaction],
        *,
        is_of_producer: bool,
    ) -> None:
        self._broker = broker
        self._connection = connection
        self._asked = asked
        self._is_of_producer = is_of_producer
        self._version = connection.version
        # The errors of each transaction; empty while they are not known.
        self._errors: list[_Errors] = [()] * len(asked)
        # How many transactions have no answer, counting the questions as one.
        self._left = 1
        self._is_large = False
        self._delayed: DelayedResponse | None = None

    def begin(self) -> AddPartitionsToTxnResponse | None:
        """Ask the coordinator for every transaction; return the response, or None if it is late.

        Each transaction is an operation of its own, so many are added in slices, between which
        other requests are handled. Such a request mutes its connection: its producers' next ones
        need what it adds.
        """
        broker, connection = self._broker, self._connection
        steps = self._steps()
        made = run_for_a_slice(steps, broker.environment.slice_clock_s)
        if made is not None and made[0] is not None:
            return made[0]
        self._delayed = DelayedResponse(connection)
        if made is not None:
            connection.delay(self._delayed)
            return None
        self._is_large = True
        connection.delay_and_mute(self._delayed)
        run_in_slices(broker, connection, steps, self._made)
        return None

    def _steps(self) -> Generator[None, None, AddPartitionsToTxnResponse | None]:
        """Ask for each transaction; return the response, or None if an answer is missing.

        A request about one transaction with few partitions has a single step.
        """
        for index, asked in enumerate(self._asked):
            if index:
                yield
            yield from self._ask(index, asked)
        self._left -= 1
        return None if self._left else (yield from self._response())

    def _made(self, response: AddPartitionsToTxnResponse | None) -> None:
        """Send the response of a large request, unless the last answer will."""
        assert self._delayed is not None, "a large request is delayed"
        if response is not None:
            self._delayed.send(response)

    def _one_done(self) -> None:
        self._left -= 1
        assert self._left >= 0, "each transaction is answered once"
        if self._left:
            return
        assert self._delayed is not None, "a response that is not delayed was returned"
        if self._is_large:
            send_in_slices(self._broker, self._delayed, self._response())
        else:
            self._delayed.send(run_now(self._response()))

    def _ask(
        self, index: int, asked: AddPartitionsToTxnRequestTransaction
    ) -> Generator[None, None, None]:
        """Ask for a transaction, and note the errors of its partitions, or that they are missing.

        The time of a request that is verified or refused is in its partitions.
        """
        partitions = [(topic.name, each) for topic in asked.topics for each in topic.partitions]
        refused = yield from self._refusals(partitions)
        if any(refused):
            self._errors[index] = [each or ErrorCode.OPERATION_NOT_ATTEMPTED for each in refused]
        elif asked.verify_only:
            # Each partition has an answer of its own, which is known at once.
            self._errors[index] = yield from made_in_steps(
                lambda each: self._use(index, asked, (each,)) or ErrorCode.NONE, partitions
            )
        else:
            error = self._use(index, asked, tuple(dict.fromkeys(partitions)))
            if error is None:
                self._left += 1
            else:
                self._errors[index] = [error] * len(partitions)

    def _refusals(
        self, partitions: Sequence[TopicPartition]
    ) -> Generator[None, None, list[ErrorCode]]:
        """Return for each partition why it cannot be in the transaction, or NONE."""
        has_partition = self._broker.topics.has_partition
        prohibited = INTERNAL_TOPICS if self._is_of_producer else ()
        errors = []
        for count, (name, index) in enumerate(partitions, 1):
            if name in prohibited:
                errors.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif has_partition(name, index):
                errors.append(ErrorCode.NONE)
            else:
                errors.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if not count % MADE_AT_ONCE:
                yield
        return errors

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
            client_transaction_version=(
                _LEVEL_OF_PRODUCERS if self._is_of_producer else _LEVEL_OF_BROKERS
            ),
        )

        def done(error: ErrorCode) -> None:
            count = sum(len(topic.partitions) for topic in asked.topics)
            self._errors[index] = [error] * count
            self._one_done()

        return self._broker.transaction_runtime.use_partitions(use, done)

    def _response(self) -> Generator[None, None, AddPartitionsToTxnResponse]:
        results: list[list[AddPartitionsToTxnResponseTopic]] = []
        for asked, errors in zip(self._asked, self._errors, strict=True):
            if ErrorCode.UNSUPPORTED_VERSION in errors:
                # It is the error of the whole request [transactions/levels].
                return AddPartitionsToTxnResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            if results:
                yield
            results.append((yield from self._results(asked.topics, errors)))
        if self._is_of_producer:
            return AddPartitionsToTxnResponse(results_by_topic=results[0])
        transactions = [
            AddPartitionsToTxnResponseTransaction(
                transactional_id=asked.transactional_id, topic_results=result
            )
            for asked, result in zip(self._asked, results, strict=True)
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=transactions)

    def _results(
        self, topics: _Topics, errors: _Errors
    ) -> Generator[None, None, list[AddPartitionsToTxnResponseTopic]]:
        codes = iter(errors)
        results: list[AddPartitionsToTxnResponseTopic] = []
        count = 0
        for topic in topics:
            partitions = []
            for index in topic.partitions:
                code = error_of_version(next(codes), ApiKey.ADD_PARTITIONS_TO_TXN, self._version)
                partitions.append(
                    AddPartitionsToTxnResponsePartition(
                        partition_index=index, partition_error_code=code
                    )
                )
                count += 1
                if not count % MADE_AT_ONCE:
                    yield
            results.append(
                AddPartitionsToTxnResponseTopic(name=topic.name, results_by_partition=partitions)
            )
            count += 1
            if not count % MADE_AT_ONCE:
                yield
        return results
