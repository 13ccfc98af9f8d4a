"""Which batch has the newest record of each key: Kafka's cleaner calls this its offset map.

The batches of the dirty part are identified by their places: their positions in the dirty part, as
if all its segments were one file. The map has, for each key, the place of the batch with its newest
record. `seal` turns that round: for each 64 bytes of log there is one byte that says whether a
batch to be read again begins there, and at which byte (a batch is longer than that). So the second
pass of a cleaning reads nothing else of the dirty part.

The memory is bounded by `max_bytes`, whatever the keys are [compaction/two-passes]. A key of up to
63 bytes is stored as it is, a longer one as its digest of 64 bytes (BLAKE2b), which therefore
equals no stored key. An entry takes, as measured with CPython 3.11: the key object (33 bytes and
its length, in steps of 16), a number of 32 bytes, and its share of the table, which is up to 60
bytes after the table has doubled, and 30 more while the old table is copied. With the byte for each
64 of log that is

    bytes = sum(33 + min(len(key), 64) + 15) + 122 * keys + dirty bytes / 64

or about 210 bytes for a key of 40: 32 MiB hold 120,000 keys of 512 MiB of log. Free-threaded Python
needs 16 more for a key object and 16 more for a number. At most one slice of runs is mapped beyond
the bound: 32 KiB with records of 11 bytes, or 3,000 keys and 0.5 MiB.
"""

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain, islice, repeat
from sys import getsizeof

from coterie.protocol.layouts import MAX_KEY_BYTES

# Keys up to this length are stored as they are, so the keys of runs never need a digest.
MAX_WHOLE_KEY_BYTES = MAX_KEY_BYTES
_DIGEST_BYTES = 64
# What precedes the bytes of a key in its object, and a zero: 33, or 49 in free-threaded Python.
_KEY_HEADER_BYTES = getsizeof(b"")
# The number, and the share of the table: 122; see above. Both objects have the same header.
_ENTRY_BYTES = 90 + _KEY_HEADER_BYTES - 1
# The size of an object is a multiple of 16.
_ROUNDING_BYTES = 15
# The most that an entry can take.
MAX_ENTRY_BYTES = _KEY_HEADER_BYTES + _DIGEST_BYTES + _ROUNDING_BYTES + _ENTRY_BYTES
# Places that are marked in one step, which takes about half a millisecond.
_MARKED_AT_ONCE = 5000
# A batch with a record has at least 61 + 7 bytes, so no two batches begin in one cell.
_CELL_SHIFT = 6
_CELL_BYTES = 1 << _CELL_SHIFT
_MARKED = re.compile(rb"[^\0]")


def map_key(key: bytes) -> bytes:
    """Return what represents a key in the map."""
    if len(key) <= MAX_WHOLE_KEY_BYTES:
        return key
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


class OffsetMap:
    """The map. First add the keys of the dirty part in order, then `seal` it.

    Attributes:
        max_bytes: the bound of the memory.
        last: the place of the batch with the newest record, by key or digest.
    """

    def __init__(self, max_bytes: int) -> None:
        """The map is empty."""
        self.max_bytes = max_bytes
        self.last: dict[bytes, int] = {}
        # For each cell 0, or the byte of the cell at which a marked batch begins, counted from 1.
        self._cells = bytearray()
        self._keys_bytes = 0
        self._measured = 0

    def __len__(self) -> int:
        return len(self.last)

    @property
    def used_bytes(self) -> int:
        """The memory in use, by the formula above."""
        new = len(self.last) - self._measured
        assert new >= 0, "no key leaves the map"
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
        """Return how many more keys fit in any case."""
        return max(self.max_bytes - self.used_bytes, 0) // MAX_ENTRY_BYTES

    def reach(self, place: int) -> None:
        """Make the table of cells long enough to have a cell for a place."""
        missing = (place >> _CELL_SHIFT) + 1 - len(self._cells)
        if missing > 0:
            self._cells.extend(bytes(missing))

    def add(self, keys: Iterable[bytes | None], place: int) -> None:
        """Add the keys of the next batch. Records without a key are left out."""
        assert place >> _CELL_SHIFT < len(self._cells), "each batch has its cell"
        self.last.update(dict.fromkeys([map_key(key) for key in keys if key is not None], place))

    def add_run(self, keys: list[bytes], place: int, batch_bytes: int, batch_records: int) -> None:
        """Add the keys of a run.

        Args:
            keys: of all records, none above 63 bytes.
            place: of the first batch.
            batch_bytes: the length of each batch.
            batch_records: the number of records in each batch.
        """
        assert len(keys) % batch_records == 0, "a run has whole batches"
        places = range(place, place + len(keys) // batch_records * batch_bytes, batch_bytes)
        assert places[-1] >> _CELL_SHIFT < len(self._cells), "each batch has its cell"
        if batch_records == 1:
            self.last.update(zip(keys, places, strict=True))
        else:
            many = chain.from_iterable(map(repeat, places, repeat(batch_records)))
            self.last.update(zip(keys, many, strict=True))

    def mark(self, place: int) -> None:
        """Mark the batch at a place, so that it is read again whatever it holds."""
        assert place >= 0, "a batch that was mapped has a place"
        self._cells[place >> _CELL_SHIFT] = (place & _CELL_BYTES - 1) + 1

    def seal(self) -> Iterator[int]:
        """Mark the batches with newest records, in steps; yield the number of each step."""
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
        """Return whether the batch at a place is marked."""
        return self._cells[place >> _CELL_SHIFT] == (place & _CELL_BYTES - 1) + 1

    def next_marked(self, place: int, end: int) -> int:
        """Return the first marked place from `place` to before `end`, or else `end`.

        A batch begins at `place`.
        """
        found = _MARKED.search(self._cells, place >> _CELL_SHIFT, (end >> _CELL_SHIFT) + 1)
        if found is None:
            return end
        cell = found.start()
        marked = (cell << _CELL_SHIFT) + self._cells[cell] - 1
        if marked < place:
            # An earlier batch begins in the same cell.
            return self.next_marked((cell + 1) << _CELL_SHIFT, end)
        return min(marked, end)
