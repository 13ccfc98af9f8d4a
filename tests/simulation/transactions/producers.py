"""Producers in transactions, as generators: they yield requests and are sent the answers.

An answer is None if the broker was killed before it came. Two producers have each transactional
id, so one is a zombie as soon as the other one has begun.
"""

import random
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
)
from coterie.protocol.messages.end_txn import EndTxnRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.unit.server.produced import batch, produce_request

TOPIC, PARTITIONS = "t", 3
TIMEOUT_MS = 3_000

# A request and its version, or None to do nothing for some time.
Step = tuple[Any, int] | None
Steps = Generator[Step, Any, bool]

# Clients try again after these.
AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


@dataclass
class Transaction:
    """What a producer knows of one of its transactions.

    Attributes:
        wanted: whether it asked for a commit; None if it has not asked for an end.
        outcome: whether it was committed, as the broker has answered; None if that is not known.
        acknowledged: the values of the records that were acknowledged.
    """

    wanted: bool | None = None
    outcome: bool | None = None
    acknowledged: list[bytes] = field(default_factory=list)


class TransactionalProducer:
    """A producer.

    Attributes:
        transactions: its transactions.
    """

    def __init__(self, number: int, transactional_id: str, chance: random.Random) -> None:
        self._number = number
        self._transactional_id = transactional_id
        self._chance = chance
        # Whether it speaks the protocol of level 2 [transactions/levels].
        self._adds = chance.random() < 0.6
        self._id = self._epoch = -1
        self._sequences: dict[int, int] = {}
        self.transactions: list[Transaction] = []

    def steps(self) -> Iterator[Any]:
        """Begin again and again: every error that is not passing ends the producer's life."""
        while True:
            if (yield from self._begin()):
                lives = self._chance.randint(1, 6)
                while lives and (yield from self._transaction()):
                    lives -= 1
            for _ in range(self._chance.randint(0, 20)):
                yield None

    def _begin(self) -> Steps:
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id, transaction_timeout_ms=TIMEOUT_MS
        )
        answer = yield from self._until_answered(request, 5)
        if answer.error_code:
            return False
        self._id, self._epoch = answer.producer_id, answer.producer_epoch
        self._sequences = {}
        return True

    def _transaction(self) -> Steps:
        """Write some records and end; return whether the producer may go on."""
        transaction = Transaction()
        self.transactions.append(transaction)
        added: set[int] = set()
        for count in range(self._chance.randint(1, 5)):
            partition = self._chance.randrange(PARTITIONS)
            if not self._adds and partition not in added:
                if not (yield from self._add(partition)):
                    return False
                added.add(partition)
            value = b"%d/%d/%d" % (self._number, len(self.transactions), count)
            if not (yield from self._write(partition, value)):
                return False
            transaction.acknowledged.append(value)
        if not (yield from self._commit_offsets()):
            return False
        if self._chance.random() < 0.1:
            # The transaction stays open until its timeout, or until the id is used again.
            return False
        transaction.wanted = self._chance.random() < 0.6
        return (yield from self._end(transaction, commit=transaction.wanted))

    def _add(self, partition: int) -> Steps:
        request = AddPartitionsToTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._id,
            producer_epoch=self._epoch,
            topics=[AddPartitionsToTxnRequestTopic(name=TOPIC, partitions=[partition])],
        )
        while True:
            answer = yield request, 3
            if answer is not None:
                error = answer.results_by_topic[0].results_by_partition[0].partition_error_code
                if error not in AGAIN:
                    return not error
            yield None

    def _write(self, partition: int, value: bytes) -> Steps:
        sequence = self._sequences.get(partition, 0)
        data = batch(value, producer=(self._id, self._epoch, sequence), transactional=True)
        request = produce_request(data, TOPIC, partition)
        request.transactional_id = self._transactional_id
        while True:
            answer = yield request, 12 if self._adds else 11
            if answer is not None:
                error = answer.responses[0].partition_responses[0].error_code
                if error not in AGAIN:
                    self._sequences[partition] = sequence + 1
                    return not error
            yield None

    def _commit_offsets(self) -> Steps:
        """Send offsets with the transaction, which this producer does not."""
        yield from ()
        return True

    def _end(self, transaction: Transaction, *, commit: bool) -> Steps:
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=commit,
        )
        answer = yield from self._until_answered(request, 5 if self._adds else 4)
        if answer.error_code:
            return False
        transaction.outcome = commit
        if self._adds:
            self._id, self._epoch = answer.producer_id, answer.producer_epoch
            self._sequences = {}
        return True

    def _until_answered(self, request: Any, version: int) -> Generator[Step, Any, Any]:
        while True:
            answer = yield request, version
            if answer is not None and answer.error_code not in AGAIN:
                return answer
            yield None
