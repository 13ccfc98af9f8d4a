"""A transactional id: its producer, the state of its transaction, and the record of both.

A change is made in memory at once and written to the log behind all earlier ones, so the log has
the changes in their order [transactions/memory-first]. `enter` is the only way to another state.
"""

from collections.abc import Hashable, Iterable

from coterie.coordinator.kernel.append import Record
from coterie.coordinator.transactions.states import (
    CLOSED_STATES,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ENDING_STATES,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREVIOUS_STATES,
    TransactionState,
    logged_state,
)
from coterie.protocol.messages.transaction_records import (
    TransactionLogKey,
    TransactionLogTopic,
    TransactionLogValue,
)

NO_ID = -1
NO_EPOCH = -1
NO_TIME = -1
# A timeout that never passes.
NO_TIMEOUT_MS = 2**31 - 1
# The last epoch that a client gets. The one behind it is left for the markers of an abort.
LAST_EPOCH = 2**15 - 2
# The level of the protocol at which the end of a transaction raises the epoch.
BUMPING_LEVEL = 2

TopicPartition = tuple[str, int]


def can_be_logged(client_level: int, server_level: int) -> bool:
    """Return whether a change by a producer of a level has a record at the level of the server.

    The records of level 0 have no field for the level of the producer [transactions/levels].
    """
    return server_level > 0 or client_level < BUMPING_LEVEL


class WaitingEnd:
    """An EndTxn whose response waits for the markers.

    Attributes:
        to: its reply address.
        version: the version of the request.
    """

    __slots__ = ("to", "version")

    def __init__(self, to: Hashable, version: int) -> None:
        self.to = to
        self.version = version


class Transaction:
    """A transactional id and its transaction.

    Attributes:
        transactional_id: the id.
        producer_id, epoch: the producer that may use the id.
        previous_id: the producer id before the last change, if that has replaced it; otherwise -1.
        next_id: the producer id from the end of the transaction on; -1 to keep the present one.
        last_epoch: the epoch before the present one, whose owner may ask again for the present one;
            -1 if there is none. It is not in the log.
        timeout_ms: how long a transaction may be open.
        state: the state.
        partitions: the partitions of the transaction, in the order in which they were added.
        started_ms: when the transaction began; -1 before the first one.
        updated_ms: when the state was entered.
        client_level: the level of the protocol that the producer has used.
        waiting_end: the EndTxn that is answered when the markers are written.
    """

    __slots__ = (
        "client_level",
        "epoch",
        "last_epoch",
        "next_id",
        "partitions",
        "previous_id",
        "producer_id",
        "started_ms",
        "state",
        "timeout_ms",
        "transactional_id",
        "updated_ms",
        "waiting_end",
    )

    def __init__(self, transactional_id: str, producer_id: int, now_ms: int) -> None:
        """Start Empty, without an epoch."""
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.epoch = NO_EPOCH
        self.previous_id = NO_ID
        self.next_id = NO_ID
        self.last_epoch = NO_EPOCH
        self.timeout_ms = 0
        self.state: TransactionState = EMPTY
        self.partitions: dict[TopicPartition, None] = {}
        self.started_ms = NO_TIME
        self.updated_ms = now_ms
        self.client_level = 0
        self.waiting_end: WaitingEnd | None = None

    def __repr__(self) -> str:
        producer = f"{self.producer_id}/{self.epoch}"
        return f"Transaction({self.transactional_id!r}, {self.state.kafka_name}, {producer})"

    @property
    def is_exhausted(self) -> bool:
        """Whether the next epoch needs another producer id [transactions/epoch-exhaustion]."""
        return self.epoch >= LAST_EPOCH

    @property
    def is_ending(self) -> bool:
        """Whether the transaction is decided and its markers are not all written."""
        return self.state in ENDING_STATES

    @property
    def commits(self) -> bool:
        """Whether the decided transaction is committed; otherwise it is aborted."""
        assert self.state in ENDING_STATES, f"{self} is not decided"
        return self.state is PREPARE_COMMIT

    @property
    def is_closed(self) -> bool:
        """Whether no transaction is open."""
        return self.state in CLOSED_STATES

    def has_all(self, partitions: Iterable[TopicPartition]) -> bool:
        """Return whether partitions take part in the open transaction."""
        return self.state is ONGOING and all(map(self.partitions.__contains__, partitions))

    # -- changes -----------------------------------------------------------------------------------

    def draft(self) -> "Transaction":
        """Return a copy, for a change that may be refused."""
        other = Transaction(self.transactional_id, self.producer_id, self.updated_ms)
        other.epoch, other.last_epoch = self.epoch, self.last_epoch
        other.previous_id, other.next_id = self.previous_id, self.next_id
        other.timeout_ms, other.started_ms = self.timeout_ms, self.started_ms
        other.state, other.partitions = self.state, dict(self.partitions)
        other.client_level, other.waiting_end = self.client_level, self.waiting_end
        return other

    def enter(self, state: TransactionState, now_ms: int) -> None:
        """Enter a state."""
        assert self.state in PREVIOUS_STATES[state], f"{self} cannot become {state.kafka_name}"
        self.state = state
        self.updated_ms = now_ms
        # A new producer id is the previous one's successor only until the next change.
        self.previous_id = NO_ID

    def raise_epoch(self, *, last_epoch: int) -> None:
        """Take the next epoch; the owner of `last_epoch` may ask for it again."""
        assert self.epoch <= LAST_EPOCH, f"{self} has no epoch left"
        assert last_epoch in (NO_EPOCH, self.epoch), f"{last_epoch} is not the epoch of {self}"
        self.epoch += 1
        self.last_epoch = last_epoch

    def replace_producer(self, producer_id: int, *, last_epoch: int) -> None:
        """Continue with another producer id, from epoch 0 on [transactions/epoch-exhaustion]."""
        assert producer_id not in (NO_ID, self.producer_id), f"{self} gets an id of its own"
        self.previous_id, self.producer_id = self.producer_id, producer_id
        self.next_id = NO_ID
        self.epoch, self.last_epoch = 0, last_epoch

    def add(self, partitions: Iterable[TopicPartition], level: int, now_ms: int) -> None:
        """Add partitions, and begin the transaction if it has not begun."""
        assert self.state not in ENDING_STATES, f"{self} is decided"
        assert self.waiting_end is None, f"an EndTxn waits for {self}"
        if self.state is not ONGOING:
            self.started_ms = now_ms
            self.partitions = {}
        self.enter(ONGOING, now_ms)
        self.partitions.update(dict.fromkeys(partitions))
        self.client_level = level

    def prepare(self, *, commit: bool, level: int, next_id: int, now_ms: int) -> None:
        """Decide the end of the transaction.

        Args:
            commit: whether it is committed.
            level: the protocol of the producer, or that of the server if this is its decision.
            next_id: the producer id to go on with, if the present one is exhausted; otherwise -1.
            now_ms: the time.
        """
        assert self.state not in ENDING_STATES, f"{self} is decided"
        assert self.waiting_end is None, f"an EndTxn waits for {self}"
        assert next_id == NO_ID or level >= BUMPING_LEVEL, f"level {level} keeps the producer id"
        if self.is_closed:
            self.started_ms = now_ms
            self.partitions = {}
        self.enter(PREPARE_COMMIT if commit else PREPARE_ABORT, now_ms)
        self.client_level = level
        if level >= BUMPING_LEVEL:
            self.raise_epoch(last_epoch=self.epoch)
            self.next_id = next_id
            assert self.epoch <= LAST_EPOCH or next_id != NO_ID, f"{self} goes on with another id"

    def complete(self, now_ms: int) -> None:
        """End the transaction, whose markers are written."""
        self.enter(COMPLETE_COMMIT if self.commits else COMPLETE_ABORT, now_ms)
        self.partitions = {}
        if self.next_id != NO_ID:
            self.replace_producer(self.next_id, last_epoch=self.last_epoch)

    # -- the log -----------------------------------------------------------------------------------

    def record(self) -> Record:
        """Return the record of the present state [transactions/log-records]."""
        topics: list[TransactionLogTopic] | None = None
        if self.state is not EMPTY:
            topics = [
                TransactionLogTopic.of(topic, indexes) for topic, indexes in self.by_topic().items()
            ]
        value = TransactionLogValue.of(
            self.producer_id,
            self.epoch,
            self.timeout_ms,
            self.state,
            topics,
            self.updated_ms,
            self.started_ms,
            # Kafka writes the present id if there is no previous one.
            self.producer_id if self.previous_id == NO_ID else self.previous_id,
            self.next_id,
            self.client_level,
        )
        return TransactionLogKey.of(self.transactional_id), value

    def tombstone(self) -> Record:
        """Return the record by which the id is forgotten."""
        return TransactionLogKey(transactional_id=self.transactional_id), None

    def by_topic(self) -> dict[str, list[int]]:
        """Return the numbers of the partitions by topic."""
        topics: dict[str, list[int]] = {}
        for topic, index in self.partitions:
            topics.setdefault(topic, []).append(index)
        return topics

    @classmethod
    def restored(cls, transactional_id: str, value: TransactionLogValue) -> "Transaction":
        """Return what a record describes.

        Raises:
            MalformedFrame: its state does not exist.
        """
        self = cls(transactional_id, value.producer_id, value.transaction_last_update_timestamp_ms)
        self.epoch = value.producer_epoch
        if value.previous_producer_id != value.producer_id:
            self.previous_id = value.previous_producer_id
        self.next_id = value.next_producer_id
        self.timeout_ms = value.transaction_timeout_ms
        self.state = logged_state(value.transaction_status)
        for topic in value.transaction_partitions or ():
            self.partitions.update(
                dict.fromkeys((topic.topic, index) for index in topic.partition_ids)
            )
        self.started_ms = value.transaction_start_timestamp_ms
        self.client_level = value.client_transaction_version
        return self
