"""A broker in virtual time, producers with transactions, and a disk that records what it does.

The story has transactions of both protocols beside each other, offsets of a group, transactions
that stay open, segments that are rolled, a kill and a stop in order. The ledger says when each
request was sent and answered, counted in operations of the disk.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from coterie.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
)
from coterie.protocol.messages.end_txn import EndTxnRequest
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.crash.broker_run import ROLL_MS, BrokerRun
from tests.crash.disk import Disk, Operation
from tests.unit.server.produced import batch, produce_request

TOPIC, PARTITIONS, GROUP = "t", 2, "g"
TIMEOUT_MS = 60_000
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "5000"}
_IDS = ("a", "b", "c")


class Transaction:
    """One transaction, as its producer knows it.

    Attributes:
        records: the acknowledged records, as partition and value.
        offset: what it commits for the group; None for nothing.
        commits: whether its producer asked for a commit; None if it asked for no end.
        asked, ended: how many operations the disk had done when the end was asked for, and when it
            was answered; None for never.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.records: list[tuple[int, bytes]] = []
        self.offset: int | None = None
        self.commits: bool | None = None
        self.asked: int | None = None
        self.ended: int | None = None


class Given(NamedTuple):
    """A producer id that a client has got.

    Attributes:
        answered: how many operations the disk had done then.
        transactional_id: None without one.
        producer_id, epoch: what was answered.
    """

    answered: int
    transactional_id: str | None
    producer_id: int
    epoch: int


class Story(NamedTuple):
    """A story that was recorded.

    Attributes:
        flush: whether the broker synced before it answered.
        base: the disk before it.
        operations: what was done on the disk.
        transactions: the transactions, in the order of their ends.
        given: the producer ids.
        now_ms: when it ended.
    """

    flush: bool
    base: Disk
    operations: list[Operation]
    transactions: list[Transaction]
    given: list[Given]
    now_ms: float


class Producer:
    """A producer with a transactional id, which speaks the newer protocol or the older one."""

    def __init__(self, run: "_Run", transactional_id: str, *, newer: bool) -> None:
        self._run = run
        self._id = transactional_id
        self._newer = newer
        self._producer = (-1, -1)
        self._sequences: dict[int, int] = {}
        self.transaction = Transaction(transactional_id)

    def init(self) -> "Producer":
        """Take the id over."""
        answer = self._run.ask(
            InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=TIMEOUT_MS),
            5 if self._newer else 3,
        )
        self._take(answer)
        return self

    def _take(self, answer: Any) -> None:
        self._producer = answer.producer_id, answer.producer_epoch
        self._sequences = {}
        self._run.given.append(Given(self._run.done, self._id, *self._producer))

    def write(self, *partitions: int) -> "Producer":
        """Write a record to each of some partitions."""
        for partition in partitions:
            self._write(partition)
        return self

    def _write(self, partition: int) -> None:
        run = self._run
        producer_id, epoch = self._producer
        if not self._newer:
            answer = run.ask_all(
                AddPartitionsToTxnRequest(
                    transactional_id=self._id,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    topics=[AddPartitionsToTxnRequestTopic(name=TOPIC, partitions=[partition])],
                ),
                3,
            )
            (found,) = answer.results_by_topic[0].results_by_partition
            assert not found.partition_error_code, found
        value = b"%b-%d" % (self._id.encode(), run.next_number())
        sequence = self._sequences.get(partition, 0)
        data = batch(value, producer=(producer_id, epoch, sequence), transactional=True)
        request = produce_request(data, TOPIC, partition)
        request.transactional_id = self._id
        (found,) = run.ask_all(request, 12 if self._newer else 11).responses[0].partition_responses
        assert not found.error_code, found
        self._sequences[partition] = sequence + 1
        self.transaction.records.append((partition, value))

    def offset(self, offset: int) -> "Producer":
        """Commit an offset of the group in the transaction."""
        producer_id, epoch = self._producer
        fields: dict[str, Any] = {
            "transactional_id": self._id,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "group_id": GROUP,
        }
        if not self._newer:
            self._run.ask(AddOffsetsToTxnRequest(**fields), 3)
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
        request = TxnOffsetCommitRequest(**fields, topics=topics)
        (found,) = self._run.ask_all(request, 5 if self._newer else 4).topics[0].partitions
        assert not found.error_code, found
        self.transaction.offset = offset
        return self

    def end(self, *, commit: bool) -> "Producer":
        """End the transaction."""
        ended, self.transaction = self.transaction, Transaction(self._id)
        ended.commits, ended.asked = commit, self._run.done
        self._run.transactions.append(ended)
        producer_id, epoch = self._producer
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=commit,
        )
        answer = self._run.ask(request, 5 if self._newer else 4)
        ended.ended = self._run.done
        if self._newer:
            self._take(answer)
        return self

    def abandon(self) -> None:
        """Leave the transaction open for ever."""
        self._run.transactions.append(self.transaction)


class _Run(BrokerRun):
    """A story while it runs."""

    def __init__(self, *, flush: bool) -> None:
        super().__init__(SETTINGS, flush=flush)
        self.transactions: list[Transaction] = []
        self.given: list[Given] = []
        self._number = 0
        self.broker.controller.create(TOPIC, PARTITIONS, {})
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=list(_IDS))
        self.ask_all(request, 4)
        self.loop.advance(ROLL_MS)

    def next_number(self) -> int:
        """Return the number of the next record."""
        self._number += 1
        return self._number

    def plain_id(self) -> None:
        """Get a producer id without a transactional id."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        answer = self.ask(request, 4)
        self.given.append(Given(self.done, None, answer.producer_id, answer.producer_epoch))


def both_protocols(run: _Run) -> None:
    """Transactions of both protocols beside each other, over a kill and a stop."""
    a, b, c = (Producer(run, name, newer=name != "b").init() for name in _IDS)
    a.write(0, 1).offset(5)
    b.write(0)
    a.end(commit=True)
    c.write(1)
    b.offset(9).end(commit=False)
    run.roll()
    a.write(1, 0).offset(6).end(commit=True)
    c.write(0).end(commit=True)
    run.plain_id()
    b.write(0, 1).offset(7)
    run.die()
    a.write(0).end(commit=False)
    b.end(commit=True)
    c.write(1).offset(20)
    c.abandon()
    run.plain_id()
    run.stop()
    again = Producer(run, "c", newer=False).init()
    again.write(1).offset(8).end(commit=True)
    run.roll()
    b.write(0).abandon()
    a.write(0, 1).end(commit=True)


def aborts_and_segments(run: _Run) -> None:
    """Aborted transactions over several segments, and one that is open all the time."""
    open_one = Producer(run, "c", newer=True).init().write(0)
    a = Producer(run, "a", newer=False).init()
    for number in range(3):
        a.write(0, 1).offset(number).end(commit=False)
        run.roll()
        a.write(0).offset(10 + number).end(commit=True)
        a.write(0).end(commit=False)
    open_one.write(1)
    run.die()
    a.write(1).end(commit=False)
    open_one.offset(30).end(commit=True)


STORIES: dict[str, Callable[[_Run], None]] = {
    story.__name__: story for story in (both_protocols, aborts_and_segments)
}


def record_story(name: str, *, flush: bool) -> Story:
    """Run a story and return what it did."""
    run = _Run(flush=flush)
    base = run.filesystem.disk.copy()
    run.filesystem.operations.clear()
    STORIES[name](run)
    return Story(
        flush, base, run.filesystem.operations, run.transactions, run.given, run.loop.now_ms
    )
