"""Batches of transactions in a Produce [data-plane/transactional-batches].

A partition must have been added to the transaction before its first batch. Since version 12 the
Produce itself adds it, which takes as long as the record of the transaction needs to be durable;
the request waits meanwhile, and mutes its connection. Older versions are verified only.

The coordinator is asked again at the append of each such batch, because the transaction may have
ended meanwhile: no record may be appended behind the marker that ends its transaction
[data-plane/transactional-batches].
"""

import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.produce import ProduceRequest
from coterie.protocol.record_batch import BatchHeader, read_header
from coterie.protocol.record_batch_layout import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    MAGIC_AT,
    TRANSACTIONAL,
    header_format,
)
from coterie.server.logs.first_sequences import FirstSequences
from coterie.server.logs.partition import OPEN, Partition
from coterie.server.logs.received_batches import RefusedBatch
from coterie.server.services import Services
from coterie.server.transactions.adding import add_partitions
from coterie.server.transactions.use import TransactionUse
from coterie.storage.errors import StorageError

# From this version on a Produce adds its partitions to the transaction (KIP-890).
ADDS_SINCE = 12
# From this version on the answer to an unknown partition is TRANSACTION_ABORTABLE.
_ABORTABLE_SINCE = 11
# The levels of the protocol that these versions belong to [transactions/levels].
_ADDS_LEVEL, _VERIFIES_LEVEL = 2, 0

_NEWEST_MAGIC = 2
_PRODUCER = struct.Struct(header_format("producer_id", "producer_epoch"))

_NOT_ADDED = "Partition was not added to the transaction"
_NOT_VERIFIED = (
    "Unable to verify the partition has been added to the transaction. Underlying error: "
)
# The coordinator cannot answer now. Kafka names an error that makes clients of all ages try again.
_NOT_NOW = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class TransactionCheck:
    """The batches of transactions in one request with a transactional id."""

    def __init__(self, broker: Services, transactional_id: str, version: int) -> None:
        """Check nothing yet.

        Args:
            broker: the broker.
            transactional_id: of the request.
            version: of the request.
        """
        self._broker = broker
        self._transactional_id = transactional_id
        self._version = version
        # Why partitions could not be added.
        self._error = ErrorCode.NONE

    # --- adding partitions ------------------------------------------------------------------------

    def must_wait(self, request: ProduceRequest, go_on: Callable[[], None]) -> bool:
        """Add the partitions of a request to the transaction, if its version does so.

        Returns:
            Whether `go_on` is called later; until then the connection has to be muted.
        """
        if self._version < ADDS_SINCE:
            return False
        use = self._partitions_to_add(request)
        if use is None:
            return False
        error = add_partitions(self._broker, use, partial(self._added, go_on))
        if error is None:
            return True
        self._error = error
        return False

    def _added(self, go_on: Callable[[], None], error: ErrorCode) -> None:
        self._error = error
        go_on()

    def _partitions_to_add(self, request: ProduceRequest) -> TransactionUse | None:
        """Return the partitions that the producer has not written to in this transaction."""
        led = self._broker.logs.led
        producer_id = epoch = -1
        found: list[tuple[str, int]] = []
        for asked in request.topic_data:
            for each in asked.partition_data:
                records = each.records
                if records is None or not _is_transactional(records):
                    continue
                # `refused_transaction` has checked that all batches have the same.
                producer_id, epoch = _PRODUCER.unpack_from(records)
                partition = led(asked.name or asked.topic_id, each.index)
                if (
                    producer_id >= 0
                    and isinstance(partition, Partition)
                    and _may_begin(partition, producer_id, epoch)
                ):
                    found.append((partition.topic.name, each.index))
        if not found:
            return None
        return self._use(producer_id, epoch, tuple(found), add=True)

    def _use(
        self, producer_id: int, epoch: int, partitions: tuple[tuple[str, int], ...], *, add: bool
    ) -> TransactionUse:
        level = _ADDS_LEVEL if self._version >= ADDS_SINCE else _VERIFIES_LEVEL
        return TransactionUse(self._transactional_id, producer_id, epoch, partitions, add, level)

    # --- one batch --------------------------------------------------------------------------------

    def verify(self, partition: Partition, header: BatchHeader) -> None:
        """Check that a batch may be appended as far as its transaction is concerned.

        Raises:
            RefusedBatch: the partition does not belong to the open transaction.
            StorageError: the log is damaged.
        """
        producer_id, epoch = header.producer_id, header.producer_epoch
        if producer_id < 0:
            # No transaction begins with it.
            return
        producers = partition.log.producers
        if producers.has_open_transaction(producer_id, epoch):
            return
        known = producers.get(producer_id)
        if known is not None and epoch < known.epoch:
            raise RefusedBatch(ErrorCode.INVALID_PRODUCER_EPOCH, in_log=False)
        if partition.first_sequences is None:
            partition.first_sequences = FirstSequences()
        partition.first_sequences.note(producer_id, epoch, header.base_sequence)
        adds = self._version >= ADDS_SINCE
        if adds or self._broker.config.get_bool("transaction.partition.verification.enable"):
            where = ((partition.topic.name, partition.index),)
            use = self._use(producer_id, epoch, where, add=False)
            error = self._error or self._broker.transactions.use_partitions(use, _never)
            assert error is not None, "a verification is answered at once"
            if error:
                raise self._refusal(error)
        if adds and known is None and header.base_sequence > 0:
            raise RefusedBatch(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    def _refusal(self, error: ErrorCode) -> RefusedBatch:
        """Return the answer for a partition that the coordinator refuses.

        [data-plane/transactional-errors]
        """
        text = None
        if error == ErrorCode.PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        elif error == ErrorCode.TRANSACTION_ABORTABLE and self._version < _ABORTABLE_SINCE:
            error, text = ErrorCode.INVALID_TXN_STATE, _NOT_ADDED
        elif error == ErrorCode.INVALID_TXN_STATE:
            text = _NOT_ADDED
        elif error in _NOT_NOW or (
            error == ErrorCode.CONCURRENT_TRANSACTIONS and self._version < ADDS_SINCE
        ):
            error, text = ErrorCode.NOT_ENOUGH_REPLICAS, _NOT_VERIFIED + error.name
        return RefusedBatch(error, text, in_log=False)


def _is_transactional(records: bytes) -> bool:
    """Return whether a batch of a request has the attribute."""
    return (
        len(records) >= HEADER_BYTES
        # The second byte of the attributes has the bit.
        and records[ATTRIBUTES_AT + 1] & TRANSACTIONAL != 0
        and records[MAGIC_AT] == _NEWEST_MAGIC
    )


def has_transactional_batch(request: ProduceRequest) -> bool:
    """Return whether a batch of a request belongs to a transaction."""
    return any(
        each.records is not None and _is_transactional(each.records)
        for asked in request.topic_data
        for each in asked.partition_data
    )


def _may_begin(partition: Partition, producer_id: int, epoch: int) -> bool:
    """Return whether a batch of a producer may be the first of a transaction in a partition."""
    topic = partition.topic
    if topic.is_own or topic.is_internal or partition.state is not OPEN:
        return False
    with suppress(StorageError):
        producers = partition.log.producers
        if producers.has_open_transaction(producer_id, epoch):
            return False
        known = producers.get(producer_id)
        return known is None or epoch >= known.epoch
    return False


def refused_transaction(request: ProduceRequest) -> RefusedBatch | None:
    """Return why no partition of a request may be appended to."""
    producers = set()
    for asked in request.topic_data:
        for each in asked.partition_data:
            records = each.records
            # Most batches do not have the attribute.
            if records is not None and _is_transactional(records):
                # A batch whose header cannot be read is refused by itself, later.
                with suppress(MalformedFrame):
                    header = read_header(records, 0)
                    producers.add((header.producer_id, header.producer_epoch))
    if producers and request.transactional_id is None:
        return RefusedBatch(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, in_log=False)
    if len({each for each in producers if each[0] >= 0}) > 1:
        text = "Transactional records contained more than one producer ID"
        return RefusedBatch(ErrorCode.INVALID_PRODUCER_ID_MAPPING, text, in_log=False)
    return None


def _never(_error: ErrorCode) -> None:
    raise AssertionError("a verification writes nothing")
