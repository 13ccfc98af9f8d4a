"""Reading the log of a coordinator in bulk: collect by key first, decode what is left.

A log of a million records may have some thousand keys. Raw bytes are collected by key, and only the
last value of each key is decoded and replayed [group-log/replay]. A value that was overwritten is
never decoded, not even its version: otherwise it would depend on the cleaner whether a log can be
loaded. Records of unknown types are skipped and counted [group-log/unknown-types].

Records of a transaction count from its commit marker on [group-log/transactions]. The record with
the largest offset decides for its key, as in compaction: a transaction that commits after a newer
record of the same key changes nothing there. What is left of transactions without a marker is
yielded apart: they are still open, and their markers will follow.

Invariant: memory is bounded by the live keys and the open transactions, whatever the size of the
log.
"""

from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

from coterie.coordinator.kernel.machine import OpenRecord
from coterie.protocol.control_records import read_marker
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.record_types import RecordTypes
from coterie.protocol.newest_records import PairLayouts
from coterie.protocol.primitives import PREFIX_BYTES
from coterie.protocol.record_batch import BatchHeader, Record

# The type under which records without a key are counted. Kafka writes no such records.
NO_KEY = -1

Pair = tuple[bytes | None, bytes | None]

# Python has one object each for all bytes of length 0, and for all equal ones of length 1. Their
# identity does not show whether a value was replaced by an equal one.
_SHARED_BYTES = 2


class _UniqueBytes(bytes):
    """A short value as an object of its own."""


class _PendingRecord(NamedTuple):
    """A record of a transaction that has not ended.

    Attributes:
        value: None for a tombstone.
        offset, producer_epoch: of its batch.
        before: the value of the key when the record was read; compared by identity, to detect that
            a later record has replaced it.
    """

    value: bytes | None
    offset: int
    producer_epoch: int
    before: bytes | None


class NewestRecords:
    """The last value of every key of a log that is being read.

    Attributes:
        skipped: the number of records of each unknown type.
    """

    __slots__ = ("_committed", "_layouts", "_newest", "_open_transactions", "_prefixes", "skipped")

    def __init__(self, types: RecordTypes) -> None:
        """Start with nothing read.

        Args:
            types: the record types of the log; records of others are skipped.
        """
        self.skipped: Counter[int] = Counter()
        self._newest: dict[bytes, bytes] = {}
        # The prefix of each type, and that under which its records are stored.
        self._prefixes = types.stored_prefixes
        unchanged = {each for each, stored in self._prefixes.items() if each == stored}
        self._layouts = PairLayouts(frozenset(unchanged))
        # By producer id, then by key.
        self._open_transactions: dict[int, dict[bytes, _PendingRecord]] = {}
        # The records in `_newest` that a transaction has committed; they need their offset.
        self._committed: dict[bytes, _PendingRecord] = {}

    def __len__(self) -> int:
        """Return the number of live keys."""
        return len(self._newest)

    @property
    def records(self) -> int:
        """The number of records that were read."""
        return self._layouts.records

    def add_batches(self, data: bytes) -> None:
        """Add whole batches, in the order of the log.

        Raises:
            MalformedFrame: the bytes are no batches, or a key is too short to have a type.
        """
        newest = self._newest
        # Batches of known layouts, nearly all, go into `newest` without passing through here.
        for header, pairs in self._layouts.take_newest(data, newest):
            if header is not None and header.is_control:
                self._end_transaction(header, pairs)
            elif header is not None and header.is_transactional:
                self._add_to_transaction(header, pairs)
            else:
                for raw_key, value in pairs:
                    key = self._stored_key(raw_key)
                    if key is None:
                        continue
                    if value is None:
                        self._remove(key, None)
                    else:
                        newest[key] = value

    def survivors(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield key and last value of every live key, to be replayed, and forget them.

        A key comes in the place of its first record since its last tombstone.
        """
        newest, self._newest = self._newest, {}
        self._committed.clear()
        for key in list(newest):
            yield key, newest.pop(key)

    def open_records(self) -> Iterator[OpenRecord]:
        """Yield the records of open transactions in the order of the log; before `survivors`."""
        found = [
            (pending.offset, producer_id, key, pending)
            for producer_id, records in self._open_transactions.items()
            for key, pending in records.items()
        ]
        for _, producer_id, key, pending in sorted(found, key=itemgetter(0)):
            overtaken = self._is_overtaken(key, pending)
            yield OpenRecord(producer_id, pending.producer_epoch, key, pending.value, overtaken)

    def _stored_key(self, key: bytes | None) -> bytes | None:
        """Return the key under which a record is stored; None for one that is skipped."""
        if key is None:
            self.skipped[NO_KEY] += 1
            return None
        prefix = key[:PREFIX_BYTES]
        stored = self._prefixes.get(prefix)
        if stored is not None:
            return key if stored == prefix else stored + key[PREFIX_BYTES:]
        if len(prefix) < PREFIX_BYTES:
            raise MalformedFrame(f"a record key of {len(key)} bytes has no room for its type")
        self.skipped[int.from_bytes(prefix, "big", signed=True)] += 1
        return None

    def _remove(self, key: bytes, offset: int | None) -> None:
        """Apply a tombstone.

        A tombstone leaves no value that could be compared with `before`. So it is applied to the
        records of open transactions here: older ones are dropped, newer ones follow an absent key.

        Args:
            key: the key to remove.
            offset: the offset of the tombstone if it is part of a transaction; None for the newest
                record of the log.
        """
        self._newest.pop(key, None)
        self._committed.pop(key, None)
        for records in self._open_transactions.values():
            pending = records.get(key)
            if pending is None:
                continue
            if offset is None or pending.offset < offset:
                del records[key]
            else:
                records[key] = pending._replace(before=None)

    # -- transactions ------------------------------------------------------------------------------

    def _add_to_transaction(self, header: BatchHeader, pairs: list[Pair]) -> None:
        """Keep the records of a transaction until its marker."""
        records = self._open_transactions.setdefault(header.producer_id, {})
        for raw_key, value in pairs:
            key = self._stored_key(raw_key)
            if key is not None:
                before = self._newest.get(key)
                if type(before) is bytes and len(before) < _SHARED_BYTES:
                    before = self._newest[key] = _UniqueBytes(before)
                records[key] = _PendingRecord(
                    value, header.base_offset, header.producer_epoch, before
                )

    def _end_transaction(self, header: BatchHeader, pairs: list[Pair]) -> None:
        """Apply the records of a transaction that was committed; drop those of an aborted one."""
        for key, value in pairs:
            record = Record(header.base_offset, header.base_timestamp_ms, key, value, ())
            marker = read_marker(record)
            if marker is None:
                continue
            for each, pending in self._open_transactions.pop(header.producer_id, {}).items():
                if marker.commit and not self._is_overtaken(each, pending):
                    if pending.value is None:
                        self._remove(each, pending.offset)
                    else:
                        self._newest[each] = pending.value
                        self._committed[each] = pending

    def _is_overtaken(self, key: bytes, pending: _PendingRecord) -> bool:
        """Return whether the present value of the key comes from a larger offset."""
        present = self._newest.get(key)
        if present is pending.before:
            return False
        committed = self._committed.get(key)
        if committed is not None and committed.value is present:
            return committed.offset > pending.offset
        return True
