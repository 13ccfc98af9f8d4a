"""Reduces the log of a partition of `__share_group_state`, while it is read, to what counts.

For each share partition that is its latest snapshot and the updates behind it. The log is not
compacted, so that is a part of it only; what is older is dropped while reading.
"""

from collections import Counter
from collections.abc import Iterator

from coterie.coordinator.kernel.append import Pair
from coterie.coordinator.kernel.loading import NO_KEY
from coterie.coordinator.kernel.machine import OpenRecord
from coterie.protocol.messages.share_state_records import SHARE_STATE_RECORDS
from coterie.protocol.primitives import PREFIX_BYTES, read_prefix
from coterie.protocol.records import decode_pairs, iterate_batches

# The type of an update.
_UPDATE = b"\0\1"


class ShareStateReader:
    """The latest snapshot of each share partition and its updates.

    Attributes:
        records: how many records were read.
        skipped: the number of records of each unknown type.
    """

    def __init__(self) -> None:
        """Start with nothing read."""
        self.records = 0
        self.skipped: Counter[int] = Counter()
        # By the key without its type.
        self._kept: dict[bytes, list[Pair]] = {}

    def add_batches(self, data: bytes) -> None:
        """Add whole batches; see `LogReader`."""
        for position, header in iterate_batches(data):
            if not header.is_control:
                for key, value in decode_pairs(data, header, position):
                    self._add(key, value)

    def _add(self, key: bytes | None, value: bytes | None) -> None:
        self.records += 1
        if key is None:
            self.skipped[NO_KEY] += 1
            return
        prefix = key[:PREFIX_BYTES]
        if prefix not in SHARE_STATE_RECORDS.stored_prefixes:
            self.skipped[read_prefix(key, "the type of a record key")] += 1
            return
        share_key = key[PREFIX_BYTES:]
        if prefix == _UPDATE:
            kept = self._kept.get(share_key)
            # Without a snapshot it belongs to a state that was deleted.
            if kept is not None and value is not None:
                kept.append((key, value))
        elif value is None:
            self._kept.pop(share_key, None)
        else:
            self._kept[share_key] = [(key, value)]

    def survivors(self) -> Iterator[Pair]:
        """Yield what is to be replayed, and forget it."""
        kept, self._kept = self._kept, {}
        for pairs in kept.values():
            yield from pairs

    def open_records(self) -> Iterator[OpenRecord]:
        """Yield nothing: no producer writes to this log."""
        return iter(())
