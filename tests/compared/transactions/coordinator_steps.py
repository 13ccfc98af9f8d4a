"""Requests to the transaction coordinator."""

from dataclasses import dataclass
from typing import Any

from coterie.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
)
from coterie.protocol.messages.describe_transactions import DescribeTransactionsRequest
from coterie.protocol.messages.end_txn import EndTxnRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.protocol.messages.list_transactions import ListTransactionsRequest
from tests.compared.transactions.side import Side, Who
from tests.compared.transactions.step import Partitions, Step, by_topic

# The first version of AddPartitionsToTxn that has several transactions.
_SEVERAL = 4


@dataclass(frozen=True)
class InitProducer(Step):
    """InitProducerId, with or without what the producer had."""

    who: Who
    transactional_id: str | None
    timeout_ms: int = 60_000
    names: str = "nothing"

    def request(self, side: Side) -> Any:
        identity = side.identity(self.who)
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=identity.id if self.names in ("both", "id") else -1,
            producer_epoch=identity.epoch if self.names in ("both", "epoch") else -1,
        )

    def learn(self, side: Side, answer: Any) -> None:
        side.learn_identity(self.who.name, answer)

    @property
    def ends(self) -> tuple[str, ...]:
        return (self.who.name,)


@dataclass(frozen=True)
class AddPartitions(Step):
    """AddPartitionsToTxn of one transaction, or of several from version 4 on."""

    whos: tuple[Who, ...]
    partitions: Partitions
    verify: bool = False

    def request(self, side: Side) -> Any:
        topics = [
            AddPartitionsToTxnRequestTopic(name=topic, partitions=numbers)
            for topic, numbers in by_topic(self.partitions).items()
        ]
        identities = [side.identity(who) for who in self.whos]
        if self.version < _SEVERAL:
            return AddPartitionsToTxnRequest(
                transactional_id=self.whos[0].name,
                producer_id=identities[0].id,
                producer_epoch=identities[0].epoch,
                topics=topics,
            )
        transactions = [
            AddPartitionsToTxnRequestTransaction(
                transactional_id=who.name,
                producer_id=identity.id,
                producer_epoch=identity.epoch,
                verify_only=self.verify,
                topics=topics,
            )
            for who, identity in zip(self.whos, identities, strict=True)
        ]
        return AddPartitionsToTxnRequest(transactions=transactions)


@dataclass(frozen=True)
class AddOffsets(Step):
    """AddOffsetsToTxn."""

    who: Who
    group: str

    def request(self, side: Side) -> Any:
        identity = side.identity(self.who)
        return AddOffsetsToTxnRequest(
            transactional_id=self.who.name,
            producer_id=identity.id,
            producer_epoch=identity.epoch,
            group_id=self.group,
        )


@dataclass(frozen=True)
class End(Step):
    """EndTxn."""

    who: Who
    commit: bool

    def request(self, side: Side) -> Any:
        identity = side.identity(self.who)
        return EndTxnRequest(
            transactional_id=self.who.name,
            producer_id=identity.id,
            producer_epoch=identity.epoch,
            committed=self.commit,
        )

    def learn(self, side: Side, answer: Any) -> None:
        side.learn_identity(self.who.name, answer)

    @property
    def ends(self) -> tuple[str, ...]:
        return (self.who.name,)


@dataclass(frozen=True)
class DescribeTransactions(Step):
    """DescribeTransactions."""

    transactional_ids: tuple[str, ...]

    def request(self, side: Side) -> Any:
        return DescribeTransactionsRequest(transactional_ids=list(self.transactional_ids))


@dataclass(frozen=True)
class ListTransactions(Step):
    """ListTransactions, of the ids of one conversation: others are there, too."""

    whos: tuple[Who, ...]
    states: tuple[str, ...] = ()
    pattern: str | None = None
    duration_ms: int = -1

    def request(self, side: Side) -> Any:
        return ListTransactionsRequest(
            state_filters=list(self.states),
            producer_id_filters=[side.identity(who).id for who in self.whos],
            duration_filter=self.duration_ms,
            transactional_id_pattern=self.pattern,
        )
