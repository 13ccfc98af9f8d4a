"""Reduces the log of a partition of `__share_group_state`, while it is read, to what counts.

For each share partition that is its latest snapshot and the updates behind it. The log is not
compacted, so that is a part of it only; what is older is dropped while reading.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from coterie.coordinator.kernel.append import Pair
from coterie.coordinator.kernel.loading import NO_KEY
from coterie.coordinator.kernel.machine import OpenRecord
from coterie.protocol.messages.share_state_records import SHARE_STATE_RECORDS
from coterie.protocol.newest_records import PairLayouts
from coterie.protocol.primitives import PREFIX_BYTES, read_prefix

# The type of an update.
_UPDATE = b"\0\1"


class _Kept:
    """The records that count so far, by their key without its type."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        """Start without records."""
        self._kept: dict[bytes, list[Pair]] = {}

    def __setitem__(self, key: bytes, value: bytes) -> None:
        """Take a snapshot or an update."""
        share_key = key[PREFIX_BYTES:]
        if not key.startswith(_UPDATE):
            self._kept[share_key] = [(key, value)]
            return
        kept = self._kept.get(share_key)
        # Without a snapshot it belongs to a state that was deleted.
        if kept is not None:
            kept.append((key, value))

    def update(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """Take several."""
        for key, value in pairs:
            self[key] = value

    def remove(self, key: bytes) -> None:
        """Take the tombstone of a state; there are none of updates."""
        if not key.startswith(_UPDATE):
            self._kept.pop(key[PREFIX_BYTES:], None)

    def take(self) -> Iterator[Pair]:
        """Yield what is there, and forget it."""
        kept, self._kept = self._kept, {}
        for pairs in kept.values():
            yield from pairs


class ShareStateReader:
    """The latest snapshot of each share partition and its updates.

    Attributes:
        skipped: the number of records of each unknown type.
    """

    def __init__(self) -> None:
        """Start with nothing read."""
        self.skipped: Counter[int] = Counter()
        self._kept = _Kept()
        # Most batches look like an earlier one: they are read in a fourth of the time.
        self._layouts = PairLayouts(frozenset(SHARE_STATE_RECORDS.stored_prefixes))

    @property
    def records(self) -> int:
        """The number of records that were read."""
        return self._layouts.records

    def add_batches(self, data: bytes) -> None:
        """Add whole batches; see `LogReader`."""
        # Batches of known layouts, nearly all, go into `_kept` without passing through here.
        for header, pairs in self._layouts.take_newest(data, self._kept):
            if header is None or not header.is_control:
                for key, value in pairs:
                    self._add(key, value)

    def _add(self, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            self.skipped[NO_KEY] += 1
        elif key[:PREFIX_BYTES] not in SHARE_STATE_RECORDS.stored_prefixes:
            self.skipped[read_prefix(key, "the type of a record key")] += 1
        elif value is None:
            self._kept.remove(key)
        else:
            self._kept[key] = value

    def survivors(self) -> Iterator[Pair]:
        """Yield what is to be replayed, and forget it."""
        return self._kept.take()

    def open_records(self) -> Iterator[OpenRecord]:
        """Yield nothing: no producer writes to this log."""
        return iter(())
