"""Which record of each key is the last one: what Kafka's cleaner calls its offset map.

The dirty part's batches are known by their places: its bytes, all segments in a row. The map has
the place of the batch with the last record of each key. `seal` turns that round: a byte for each 64
bytes of log tells whether a batch to be looked at again begins there, and where exactly (batches
are longer than that), so that the second half of a cleaning reads nothing else of the dirty part.

Memory is bounded by `max_bytes`, whatever the keys. A key is held as it is up to 63 bytes, and as
its digest of 64 bytes (BLAKE2b) beyond, which no whole key can be taken for. What an entry takes,
measured with CPython 3.11: the key's object (33 bytes and its length, in steps of 16), a number of
32, and its share of the table: up to 60 bytes after the table has doubled, and 30 more while the
old one is being copied. With the byte for each 64 of log that is

    bytes = sum(33 + min(len(key), 64) + 15) + 122 * keys + dirty bytes / 64

about 210 bytes for a key of 40: 32 MiB hold 120,000 keys of 512 MiB of log. One slice of plain
batches is mapped beyond the bound at most: 32 KiB with records of 11 bytes, 3,000 keys, 0.5 MiB.
"""

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain, islice, repeat
from sys import getsizeof

from coterie.protocol.layouts import MAX_KEY_BYTES

# Keys up to this length are stored as they are; so the keys of runs never need a digest.
MAX_WHOLE_KEY_BYTES = MAX_KEY_BYTES
_DIGEST_BYTES = 64
# The number, and the share of the table: see above.
_ENTRY_BYTES = 122
# An object takes up whole steps of 16 bytes.
_ROUNDING_BYTES = 15
# What any one entry can take.
MAX_ENTRY_BYTES = 33 + _DIGEST_BYTES + _ROUNDING_BYTES + _ENTRY_BYTES
# Places marked in one step: about half a millisecond.
_MARKED_AT_ONCE = 5000
# A batch with a record in it has at least 61 + 7 bytes, so no two begin in one cell.
_CELL_SHIFT = 6
_CELL_BYTES = 1 << _CELL_SHIFT
_MARKED = re.compile(rb"[^\0]")


def map_key(key: bytes) -> bytes:
    """What stands for a key in the map."""
    if len(key) <= MAX_WHOLE_KEY_BYTES:
        return key
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


class OffsetMap:
    """Fed with the keys of the dirty part in order; asked about all of the log when sealed."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        # Key -> place of the batch with its last record.
        self.last: dict[bytes, int] = {}
        self._cells = bytearray()
        self._keys_bytes = 0
        self._measured = 0

    def __len__(self) -> int:
        return len(self.last)

    @property
    def used_bytes(self) -> int:
        """What the map takes up; the module tells the formula."""
        new = len(self.last) - self._measured
        if new:
            self._keys_bytes += sum(map(getsizeof, islice(reversed(self.last), new)))
            self._keys_bytes += new * (_ROUNDING_BYTES + _ENTRY_BYTES)
            self._measured += new
        return self._keys_bytes + len(self._cells)

    @property
    def full(self) -> bool:
        """Whether the cleaning has to end with what has been mapped."""
        return self.used_bytes >= self.max_bytes

    def room(self) -> int:
        """How many more keys surely fit."""
        return max(self.max_bytes - self.used_bytes, 0) // MAX_ENTRY_BYTES

    def reach(self, place: int) -> None:
        """Make room for marks up to a place."""
        missing = (place >> _CELL_SHIFT) + 1 - len(self._cells)
        if missing > 0:
            self._cells.extend(bytes(missing))

    def add(self, keys: Iterable[bytes | None], place: int) -> None:
        """Take in the keys of the next batch. A record without one is the last of nothing."""
        self.last.update(dict.fromkeys([map_key(key) for key in keys if key is not None], place))

    def add_run(self, keys: list[bytes], place: int, batch_bytes: int, batch_records: int) -> None:
        """Take in the keys, none above 63 bytes, of batches that are alike, from `place` on."""
        places = range(place, place + len(keys) // batch_records * batch_bytes, batch_bytes)
        if batch_records == 1:
            self.last.update(zip(keys, places, strict=True))
        else:
            many = chain.from_iterable(map(repeat, places, repeat(batch_records)))
            self.last.update(zip(keys, many, strict=True))

    def mark(self, place: int) -> None:
        """Have the batch at a place looked at again, whatever is in it."""
        self._cells[place >> _CELL_SHIFT] = (place & _CELL_BYTES - 1) + 1

    def seal(self) -> Iterator[int]:
        """Mark the batches with last records, in steps; each tells how many."""
        cells = self._cells
        places = iter(self.last.values())
        while True:
            some = list(islice(places, _MARKED_AT_ONCE))
            if not some:
                return
            for place in some:
                cells[place >> _CELL_SHIFT] = (place & _CELL_BYTES - 1) + 1
            yield len(some)

    def is_marked(self, place: int) -> bool:
        """Whether the batch at a place is to be looked at again."""
        return self._cells[place >> _CELL_SHIFT] == (place & _CELL_BYTES - 1) + 1

    def next_marked(self, place: int, end: int) -> int:
        """The first marked place from `place`, where a batch begins, to before `end`; or `end`."""
        found = _MARKED.search(self._cells, place >> _CELL_SHIFT, (end >> _CELL_SHIFT) + 1)
        if found is None:
            return end
        cell = found.start()
        marked = (cell << _CELL_SHIFT) + self._cells[cell] - 1
        if marked < place:
            # A batch that began before, in the same cell.
            return self.next_marked((cell + 1) << _CELL_SHIFT, end)
        return min(marked, end)
