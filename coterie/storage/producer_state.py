"""The producers of a partition: sequences, epochs, transactions (Kafka's ProducerStateManager).

One object serves the produce path, which recognizes retries and refuses batches out of order; reads
at isolation level READ_COMMITTED, which end at the last stable offset; the opening of a log; and
the cleaner, which keeps the last batch of each producer. `producer_snapshots.py` has the files.

The entries of all producers are one array of bytes, in the format of a snapshot. So a snapshot of
100,000 producers is written within milliseconds, and an entry takes about 250 bytes in memory.

Invariants: `_places` is in the order of the last activity, which `_seen_ms` has; `_ongoing` is in
the order of the first offsets, and every entry in it belongs to a producer whose
`current_txn_first_offset` it is.
"""

import struct
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from coterie.protocol.errors import ErrorCode
from coterie.protocol.record_batch import BatchHeader
from coterie.protocol.record_batch_layout import NO_PRODUCER_EPOCH, NO_SEQUENCE

# A producer has at most five requests in flight, so a retry is one of its last five batches
# (KIP-98; ProducerStateEntry.NUM_BATCHES_TO_RETAIN).
BATCHES_KEPT = 5

# The most producers of one partition, about 50 MiB. The one that was silent longest is forgotten
# first [data-plane/producer-expiration]. Kafka has no limit; every start of a producer adds one.
MAX_PRODUCERS = 200_000

NO_OFFSET = -1
NO_COORDINATOR_EPOCH = -1

# An entry as it is in a snapshot: see ProducerEntry.
ENTRY = struct.Struct(">qhiqiqiq")
ENTRY_BYTES = ENTRY.size
_PRODUCER_ID = struct.Struct(">q")
_EPOCH = struct.Struct(">h")
_EPOCH_AT = _PRODUCER_ID.size
# One of the earlier batches: last sequence, last offset, offset delta, timestamp.
_BATCH = struct.Struct(">iqiq")
_OLDER_BYTES = _BATCH.size * (BATCHES_KEPT - 1)

_SEQUENCES = 1 << 31
_NO_EPOCH = -1
# A marker cannot have a greater epoch than this.
_MAX_EPOCH = (1 << 15) - 1


class ProducerEntry(NamedTuple):
    """What is known of one producer (Kafka's ProducerStateEntry).

    Attributes:
        producer_id: its id.
        epoch: its highest epoch.
        last_sequence, last_offset, offset_delta: of its last batch with data; -1, -1 and 0 if its
            epoch has none.
        timestamp_ms: of its last batch or marker.
        coordinator_epoch: of its last marker; -1 if it has none.
        current_txn_first_offset: where its open transaction begins; -1 if none is open.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    current_txn_first_offset: int


class StoredBatch(NamedTuple):
    """The batch that a retry repeats (Kafka's BatchMetadata)."""

    base_offset: int
    timestamp_ms: int


class CompletedTransaction(NamedTuple):
    """A transaction that a marker ended.

    Attributes:
        producer_id: the producer's id.
        first_offset: the offset of its first record.
        last_offset: the offset of the marker.
        last_stable_offset: the first offset of the oldest transaction that was still open, or the
            offset after the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerState:
    """The producers of one partition."""

    __slots__ = ("_entries", "_older", "_ongoing", "_places", "_seen_ms")

    def __init__(self) -> None:
        """No producer is known."""
        # The entries, one behind the other.
        self._entries = bytearray()
        # By producer id: where its entry begins. The producer that was silent longest is the first.
        self._places: dict[int, int] = {}
        # In the order of the entries: the batches before the last one, the oldest first.
        self._older: list[bytes] = []
        # In the order of the entries: when the producer was last active.
        self._seen_ms = array("q")
        # By producer id: where the open transaction begins.
        self._ongoing: OrderedDict[int, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._places)

    def __bool__(self) -> bool:
        # A state without producers must not be taken for a missing one.
        return True

    def __iter__(self) -> Iterator[ProducerEntry]:
        for fields in ENTRY.iter_unpack(self._entries):
            yield ProducerEntry(*fields)

    def get(self, producer_id: int) -> ProducerEntry | None:
        """Return what is known of a producer; None if it is unknown."""
        place = self._places.get(producer_id)
        if place is None:
            return None
        # The constructor of the class takes each field as an argument, at twice the cost.
        return tuple.__new__(ProducerEntry, ENTRY.unpack_from(self._entries, place))

    # --- produce ----------------------------------------------------------------------------------

    def check(self, header: BatchHeader) -> tuple[ErrorCode, StoredBatch | None]:
        """Check whether a batch of a client may be appended, in Kafka's order of checks.

        Args:
            header: of a batch with a producer id and a base sequence.

        Returns:
            NONE and None if it may be appended, NONE and the stored batch for a retry, or the error
            for which it is refused [data-plane/duplicate-batch] [data-plane/sequence-numbers].
        """
        assert header.producer_id >= 0, "only batches with a producer id have a sequence"
        assert header.base_sequence >= 0, "a batch without a sequence was refused before"
        place = self._places.get(header.producer_id)
        epoch = header.producer_epoch
        if place is None:
            # Any first sequence is accepted of an unknown producer.
            is_known_epoch = epoch >= NO_PRODUCER_EPOCH
            return ErrorCode.NONE if is_known_epoch else ErrorCode.INVALID_PRODUCER_EPOCH, None
        _, known_epoch, last_sequence, last_offset, offset_delta, timestamp_ms, _, first_offset = (
            ENTRY.unpack_from(self._entries, place)
        )
        base = header.base_sequence
        if epoch == known_epoch:
            delta = header.last_offset_delta
            if last_offset >= 0:
                if base == (last_sequence - offset_delta) % _SEQUENCES and delta == offset_delta:
                    return ErrorCode.NONE, StoredBatch(last_offset - offset_delta, timestamp_ms)
                stored = self._find_older(place, base, delta)
                if stored is not None:
                    return ErrorCode.NONE, stored
            is_next = base == (last_sequence + 1) % _SEQUENCES or epoch == NO_PRODUCER_EPOCH
        elif epoch < known_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, None
        else:
            is_next = base == 0 or known_epoch == NO_PRODUCER_EPOCH
        if not is_next:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None
        if first_offset >= 0 and not header.is_transactional:
            return ErrorCode.INVALID_TXN_STATE, None
        return ErrorCode.NONE, None

    def _find_older(self, place: int, base_sequence: int, delta: int) -> StoredBatch | None:
        for last_sequence, last_offset, offset_delta, timestamp_ms in _BATCH.iter_unpack(
            self._older[place // ENTRY_BYTES]
        ):
            if delta == offset_delta and base_sequence == (last_sequence - delta) % _SEQUENCES:
                return StoredBatch(last_offset - delta, timestamp_ms)
        return None

    def add(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        delta: int,
        base_offset: int,
        timestamp_ms: int,
        seen_ms: int,
        *,
        is_transactional: bool,
    ) -> None:
        """Note a batch with data that was appended, or that was found in the log.

        Args:
            producer_id, epoch, base_sequence, delta, base_offset, timestamp_ms, is_transactional:
                the fields of its header; `delta` is that of the last offset.
            seen_ms: the time from which the producer's expiration counts.
        """
        assert producer_id >= 0, "only batches with a producer id are noted"
        coordinator_epoch, first_offset = NO_COORDINATOR_EPOCH, NO_OFFSET
        place = self._places.pop(producer_id, None)
        if place is None:
            place = self._new_place()
        else:
            _, known_epoch, *last, coordinator_epoch, first_offset = ENTRY.unpack_from(
                self._entries, place
            )
            number = place // ENTRY_BYTES
            if epoch != known_epoch or last[1] < 0:
                self._older[number] = b""
            else:
                self._older[number] = (self._older[number] + _BATCH.pack(*last))[-_OLDER_BYTES:]
        if first_offset < 0 and is_transactional:
            first_offset = self._ongoing[producer_id] = base_offset
        ENTRY.pack_into(
            self._entries, place,
            producer_id, epoch, (base_sequence + delta) % _SEQUENCES, base_offset + delta, delta,
            timestamp_ms, coordinator_epoch, first_offset,
        )  # fmt: skip
        self._seen_ms[place // ENTRY_BYTES] = seen_ms
        self._places[producer_id] = place

    # --- transactions -----------------------------------------------------------------------------

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether a producer has begun a transaction here that no marker has ended."""
        if producer_id not in self._ongoing:
            return False
        (known_epoch,) = _EPOCH.unpack_from(self._entries, self._places[producer_id] + _EPOCH_AT)
        return bool(epoch == known_epoch)

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, *, raises_epoch: bool = False
    ) -> ErrorCode:
        """Check whether a marker may be appended [data-plane/markers].

        Args:
            producer_id, epoch: of the producer whose transaction ends.
            coordinator_epoch: of the coordinator that decided it.
            raises_epoch: whether the epoch of the marker is above that of the transaction's records
                [transactions/levels].
        """
        if producer_id < 0:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        entry = self.get(producer_id)
        if entry is None:
            if epoch < _NO_EPOCH:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            is_late = coordinator_epoch < NO_COORDINATOR_EPOCH
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED if is_late else ErrorCode.NONE
        is_open = entry.current_txn_first_offset >= 0
        is_too_low = raises_epoch and is_open and epoch == entry.epoch < _MAX_EPOCH
        if epoch < entry.epoch or is_too_low:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < entry.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def end_transaction(
        self, header: BatchHeader, coordinator_epoch: int, seen_ms: int
    ) -> CompletedTransaction | None:
        """Note a marker that was appended, or that was found in the log.

        Args:
            header: of the control batch.
            coordinator_epoch: of the marker.
            seen_ms: the time from which the producer's expiration counts.

        Returns:
            The transaction that it ends; None if the transaction has no data in this partition.
        """
        producer_id = header.producer_id
        assert producer_id >= 0, "a marker belongs to a producer"
        last, first_offset = (NO_SEQUENCE, NO_OFFSET, 0), NO_OFFSET
        place = self._places.pop(producer_id, None)
        if place is None:
            place = self._new_place()
        else:
            _, known_epoch, last_sequence, last_offset, offset_delta, _, _, first_offset = (
                ENTRY.unpack_from(self._entries, place)
            )
            if known_epoch == header.producer_epoch:
                last = (last_sequence, last_offset, offset_delta)
            else:
                # The next batch of the new epoch begins at sequence 0.
                self._older[place // ENTRY_BYTES] = b""
        ENTRY.pack_into(
            self._entries, place,
            producer_id, header.producer_epoch, *last,
            header.max_timestamp_ms, coordinator_epoch, NO_OFFSET,
        )  # fmt: skip
        self._seen_ms[place // ENTRY_BYTES] = seen_ms
        self._places[producer_id] = place
        if first_offset < 0:
            assert producer_id not in self._ongoing, "only an open transaction is listed"
            return None
        offset = header.base_offset
        assert self._ongoing[producer_id] == first_offset, "an open transaction is listed"
        del self._ongoing[producer_id]
        last_stable_offset = self.first_unstable_offset
        if last_stable_offset is None:
            last_stable_offset = offset + 1
        return CompletedTransaction(producer_id, first_offset, offset, last_stable_offset)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None if none is open."""
        return next(iter(self._ongoing.values()), None)

    # --- expiry -----------------------------------------------------------------------------------

    def expire(self, now_ms: int, expiration_ms: int, at_most: int) -> int:
        """Forget producers that were silent for too long [data-plane/producer-expiration].

        Args:
            now_ms: epoch milliseconds.
            expiration_ms: producer.id.expiration.ms.
            at_most: how many to forget in this call.

        Returns:
            How many were forgotten.
        """
        assert at_most > 0, "a call forgets at least one producer"
        expired: list[int] = []
        for producer_id, place in self._places.items():
            if now_ms - self._seen_ms[place // ENTRY_BYTES] < expiration_ms:
                break
            if producer_id not in self._ongoing:
                expired.append(producer_id)
                if len(expired) == at_most:
                    break
        assert len(expired) <= at_most, "the event loop has other work"
        for producer_id in expired:
            self._forget(producer_id)
        if expired and len(expired) < at_most:
            # A dictionary keeps the memory of removed keys.
            self._places = dict(self._places)
        return len(expired)

    def _new_place(self) -> int:
        """Return the place of an entry that is added at the end."""
        if len(self._places) >= MAX_PRODUCERS:
            silent = next((each for each in self._places if each not in self._ongoing), None)
            if silent is not None:
                self._forget(silent)
        place = len(self._entries)
        self._entries += bytes(ENTRY_BYTES)
        self._older.append(b"")
        self._seen_ms.append(0)
        assert len(self._older) == len(self._seen_ms) == place // ENTRY_BYTES + 1, "tables agree"
        assert place % ENTRY_BYTES == 0, "entries lie side by side"
        return place

    def _forget(self, producer_id: int) -> None:
        """Remove an entry; the last one takes its place."""
        assert producer_id not in self._ongoing, "an open transaction is never forgotten"
        assert self._entries, "a producer that is listed has an entry"
        place = self._places.pop(producer_id)
        last_place = len(self._entries) - ENTRY_BYTES
        older, seen_ms = self._older.pop(), self._seen_ms.pop()
        if place != last_place:
            self._entries[place : place + ENTRY_BYTES] = self._entries[last_place:]
            number = place // ENTRY_BYTES
            self._older[number], self._seen_ms[number] = older, seen_ms
            (moved,) = _PRODUCER_ID.unpack_from(self._entries, place)
            # A key that exists keeps its position in the order.
            self._places[moved] = place
        del self._entries[last_place:]
        assert len(self._places) == len(self._older) == len(self._seen_ms), "tables agree"
        assert len(self._entries) == len(self._older) * ENTRY_BYTES, "entries lie side by side"
        assert producer_id not in self._places, "a forgotten producer has no entry"

    # --- snapshots --------------------------------------------------------------------------------

    @property
    def entries(self) -> bytearray:
        """All entries as a snapshot has them. Not to be changed."""
        return self._entries

    def restore(self, entries: bytes, offset: int, seen_after_ms: int, now_ms: int) -> bool:
        """Take over the entries of a snapshot.

        Args:
            entries: the entries.
            offset: the offset of the snapshot.
            seen_after_ms, now_ms: a producer counts as active at the time of its last batch, but
                not before the first nor after the second [data-plane/producer-expiration].

        Returns:
            False if they cannot be those of a snapshot at `offset`. The state is useless then.
        """
        assert not self._places, "a snapshot comes first"
        assert not self._ongoing, "no transaction is open before a snapshot is read"
        assert len(entries) % ENTRY_BYTES == 0, "a snapshot that was decoded has whole entries"
        self._entries[:] = entries
        seen_ms = self._seen_ms
        ongoing: list[tuple[int, int]] = []
        places: dict[int, int] = {}
        for place, fields in zip(
            range(0, len(entries), ENTRY_BYTES), ENTRY.iter_unpack(entries), strict=True
        ):
            producer_id, _, _, last_offset, _, timestamp_ms, _, first_offset = fields
            if last_offset >= offset or first_offset >= offset or producer_id < 0:
                return False
            places[producer_id] = place
            seen_ms.append(min(max(timestamp_ms, seen_after_ms), now_ms))
            if first_offset >= 0:
                ongoing.append((first_offset, producer_id))
        self._older = [b""] * len(seen_ms)
        self._places = places
        for first_offset, producer_id in sorted(ongoing):
            self._ongoing[producer_id] = first_offset
        assert len(self._ongoing) <= len(places), "an open transaction belongs to a producer"
        return len(places) == len(seen_ms)

    def sort(self) -> None:
        """Bring the producers into the order of their activity, after a log was read."""
        seen_ms = self._seen_ms
        self._places = dict(
            sorted(self._places.items(), key=lambda item: seen_ms[item[1] // ENTRY_BYTES])
        )
        assert len(self._places) == len(seen_ms), "a new order keeps every producer"
