"""Producers that commit an offset with their transactions.

The offset of an id is a register that is written when its transaction commits: a read may return
the new value from the moment when the commit is asked for, and does so after it is acknowledged,
unless it is refused because the transaction has not ended in the partition of the group. The offset
of a transaction that is aborted, or never ended, is never seen (K4).
"""

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from coterie.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.simulation.brokers.registers import TOPIC
from tests.simulation.transactions.producers import (
    AGAIN,
    Steps,
    Transaction,
    TransactionalProducer,
)

if TYPE_CHECKING:
    from tests.simulation.brokers.world import World

_ADD_VERSION = 3
# The second one adds the group to the transaction [transactions/levels].
_COMMIT_VERSION, _ADDING_VERSION = 3, 5
# How often a transaction has an offset.
_HAS_OFFSET = 0.7


def group_of(transactional_id: str) -> str:
    """Return the group of an id; no two ids have the same."""
    return f"offsets-of-{transactional_id}"


class OffsetsProducer(TransactionalProducer):
    """A producer that commits offsets of a group of its transactional id."""

    def __init__(
        self,
        world: "World",
        number: int,
        transactional_id: str,
        chance: random.Random,
        values: Iterator[int],
    ) -> None:
        """Take the offsets from `values`, which no other producer of the id commits."""
        super().__init__(number, transactional_id, chance)
        self._world = world
        self._group_id = group_of(transactional_id)
        self._values = values
        # The offset of the present transaction.
        self._offset: int | None = None

    def _commit_offsets(self) -> Steps:
        self._offset = None
        if self._chance.random() >= _HAS_OFFSET:
            return True
        if not self._adds:
            request = AddOffsetsToTxnRequest(
                transactional_id=self._transactional_id,
                producer_id=self._id,
                producer_epoch=self._epoch,
                group_id=self._group_id,
            )
            if (yield from self._until_answered(request, _ADD_VERSION)).error_code:
                return False
        offset = next(self._values)
        version = _ADDING_VERSION if self._adds else _COMMIT_VERSION
        answer: Any = None
        while True:
            answer = yield self._offset_request(offset), version
            if answer is not None:
                error = answer.topics[0].partitions[0].error_code
                if error not in AGAIN:
                    break
            yield None
        if not error:
            self._offset = offset
        return not error

    def _offset_request(self, offset: int) -> TxnOffsetCommitRequest:
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        return TxnOffsetCommitRequest(
            transactional_id=self._transactional_id,
            group_id=self._group_id,
            producer_id=self._id,
            producer_epoch=self._epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )

    def _end(self, transaction: Transaction, *, commit: bool) -> Steps:
        world, offset = self._world, self._offset
        if offset is None or not commit:
            return (yield from super()._end(transaction, commit=commit))
        register = world.ledger.register(self._group_id)
        write = register.writes(offset, world.moment(), by_marker=True)
        done = yield from super()._end(transaction, commit=commit)
        write.answered(world.moment(), acknowledged=transaction.outcome is True)
        return done
