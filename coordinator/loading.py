"""What the log of one partition adds up to, before anything is decoded (spec section 14.3).

A load of a million records leaves some thousand keys: raw bytes are gathered by key, and only what
is left is decoded and replayed. Batches of a transaction count from their commit marker on; one
without a marker counts as aborted, for the log ends there.

The record with the greatest offset decides for its key, as it does when the log is compacted: a
transaction that commits behind a newer record of the same key changes nothing there. And what a
record says that was overwritten is never looked at, not even the version of its value: whether a
log can be loaded must not depend on whether the cleaner has been there. A record of a type that is
not known here is skipped and counted. One that survives and can't be read stops the load.

Invariant: memory is bounded by the keys that are alive and the transactions that are open, whatever
    the size of the log.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    OffsetCommitKey,
    encode_key,
)
from coterie.protocol.newest_records import PairLayouts
from coterie.protocol.record_batch import BatchHeader, Record
from coterie.protocol.record_reader import read_marker

# The two-byte record types in front of keys (spec section 14.1).
_OFFSET_PREFIX = encode_key(OffsetCommitKey(group="", topic="", partition=0))[:2]
_GROUP_PREFIX = encode_key(GroupMetadataKey(group=""))[:2]
# What Kafka 0.8.2 wrote for an offset: the same key as `_OFFSET_PREFIX` with the same body.
_LEGACY_OFFSET_PREFIX = b"\0\0"
_BULK_PREFIXES = frozenset({_OFFSET_PREFIX, _GROUP_PREFIX})
# The type under which records without a key are counted; Kafka writes none.
NO_KEY = -1

Pair = tuple[bytes | None, bytes | None]


class _Pending(NamedTuple):
    """A record of a transaction that has not ended.

    Attributes:
        value: None for a tombstone.
        offset: of its batch.
        before: the very object that stood for its key when it was written.
    """

    value: bytes | None
    offset: int
    before: bytes | None


class NewestRecords:
    """The surviving records of a log that is being read, and what was left out of it.

    Attributes:
        skipped: how many of each record type that is not known here.
    """

    __slots__ = ("_committed", "_layouts", "_newest", "_open", "skipped")

    def __init__(self) -> None:
        """Nothing has been read."""
        self.skipped: Counter[int] = Counter()
        self._newest: dict[bytes, bytes] = {}
        self._layouts = PairLayouts(_BULK_PREFIXES)
        self._open: dict[int, dict[bytes, _Pending]] = {}
        # Which value of a key came from a transaction, and the offset it was written at.
        self._committed: dict[bytes, _Pending] = {}

    def __len__(self) -> int:
        """How many keys are alive."""
        return len(self._newest)

    @property
    def records(self) -> int:
        """How many records were read."""
        return self._layouts.records

    def absorb(self, data: bytes) -> None:
        """Take whole batches, in the order of the log.

        Raises:
            MalformedFrame: they are no batches, or a key is too short to have a type.
        """
        newest = self._newest
        for header, pairs in self._layouts.take_newest(data, newest):
            if header is not None and header.is_control:
                self._end_transaction(header, pairs)
            elif header is not None and header.is_transactional:
                self._hold(header, pairs)
            else:
                for key, value in pairs:
                    known = self._known(key)
                    if known is None:
                        continue
                    if value is None:
                        self._remove(known, None)
                    else:
                        newest[known] = value

    def survivors(self) -> Iterator[tuple[bytes, bytes]]:
        """Key and value of what is left, to be replayed; they are let go on the way.

        The value of a key stands where its first record since the last tombstone stood.
        """
        newest, self._newest = self._newest, {}
        self._committed.clear()
        for key in list(newest):
            yield key, newest.pop(key)

    def _remove(self, key: bytes, offset: int | None) -> None:
        """A tombstone counts: of the transaction's batch at `offset`, or the log's newest record.

        No value is left to tell by that something happened, so open transactions are told.
        """
        self._newest.pop(key, None)
        self._committed.pop(key, None)
        for records in self._open.values():
            pending = records.get(key)
            if pending is None:
                continue
            if offset is None or pending.offset < offset:
                del records[key]
            else:
                records[key] = pending._replace(before=None)

    def _known(self, key: bytes | None) -> bytes | None:
        """The key under which a record is kept, or None if it is not: then it is counted."""
        if key is None:
            self.skipped[NO_KEY] += 1
            return None
        prefix = key[:2]
        if prefix in _BULK_PREFIXES:
            return key
        if prefix == _LEGACY_OFFSET_PREFIX:
            return _OFFSET_PREFIX + key[2:]
        if len(prefix) < len(_OFFSET_PREFIX):
            raise MalformedFrame(f"a record key of {len(key)} bytes has no room for its type")
        self.skipped[int.from_bytes(prefix, "big", signed=True)] += 1
        return None

    def _hold(self, header: BatchHeader, pairs: list[Pair]) -> None:
        """Keep records of a transaction until its marker."""
        pending = self._open.setdefault(header.producer_id, {})
        for key, value in pairs:
            known = self._known(key)
            if known is not None:
                before = self._newest.get(known)
                pending[known] = _Pending(value, header.base_offset, before)

    def _end_transaction(self, header: BatchHeader, pairs: list[Pair]) -> None:
        for key, value in pairs:
            record = Record(header.base_offset, header.base_timestamp_ms, key, value, ())
            marker = read_marker(record)
            if marker is None:
                continue
            for each, pending in self._open.pop(header.producer_id, {}).items():
                if marker.commit and not self._is_overtaken(each, pending):
                    if pending.value is None:
                        self._remove(each, pending.offset)
                    else:
                        self._newest[each] = pending.value
                        self._committed[each] = pending

    def _is_overtaken(self, key: bytes, pending: _Pending) -> bool:
        """Whether a record of a greater offset stands for the key by now."""
        now = self._newest.get(key)
        if now is pending.before:
            return False
        committed = self._committed.get(key)
        if committed is not None and committed.value is now:
            return committed.offset > pending.offset
        return True
