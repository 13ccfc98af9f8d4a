"""The aborted transactions of a segment, and their file: `<base offset>.txnindex`.

Readers at isolation level READ_COMMITTED get the aborted transactions that overlap what they read,
and drop the records of those [data-plane/aborted-transactions]. An entry is added when an ABORT
marker is appended, to the index of the segment that holds the marker [log/transaction-index].

The format is Kafka's: entries of 34 bytes, ascending by the offset of the marker.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from coterie.storage.errors import CorruptLog
from coterie.storage.open_files import OpenFiles
from coterie.storage.producer_state import CompletedTransaction

_VERSION = 0
# Version, producer id, first offset, last offset, last stable offset.
_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size

# An entry, see CompletedTransaction.
AbortedTransaction = CompletedTransaction


class TransactionIndex:
    """The aborted transactions of one segment.

    Attributes:
        path: the file. It exists only if there is an entry.
    """

    __slots__ = ("_base_offset", "_entries", "_files", "_is_synced", "path")

    def __init__(self, files: OpenFiles, path: str, base_offset: int) -> None:
        """Nothing is read yet.

        Args:
            files: the open files of the file system.
            path: the file.
            base_offset: of the segment.
        """
        self.path = path
        # Whether the file is known to survive a loss of power as it is.
        self._is_synced = False
        self._files = files
        self._base_offset = base_offset
        # The contents of the file; None if it was not read.
        self._entries: bytearray | None = None

    def use(self, files: OpenFiles) -> None:
        """Use other open files from now on; the handle among the old ones is closed."""
        self._files.drop(self.path)
        self._files = files

    def begin(self) -> None:
        """Take note that the segment is new and has no entries."""
        assert not self._entries, "a new segment has no aborted transactions"
        self._entries = bytearray()
        self._is_synced = True

    def __len__(self) -> int:
        return len(self._load()) // ENTRY_BYTES

    def __bool__(self) -> bool:
        # An index without entries must not be taken for a missing one.
        return True

    def add(self, transaction: AbortedTransaction) -> None:
        """Add the transaction that an ABORT marker has ended.

        Raises:
            OSError: it could not be written.
        """
        entries = self._load()
        assert transaction.last_offset >= self._base_offset, "the marker is in this segment"
        assert transaction.first_offset <= transaction.last_offset, "a marker ends what began"
        latest = self._last_offset(len(self) - 1) if entries else -1
        assert latest < transaction.last_offset, "entries are in the order of their markers"
        entry = _ENTRY.pack(_VERSION, *transaction)
        file = self._files.get(self.path) if entries else self._files.create(self.path)
        file.write(len(entries), entry)
        entries += entry
        assert len(entries) % ENTRY_BYTES == 0, "the file has whole entries"
        self._is_synced = False

    def replace(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Replace all entries, after the segment was read.

        Raises:
            OSError: the file could not be read or written.
        """
        listed = list(transactions)
        markers = [each.last_offset for each in listed]
        assert markers == sorted(set(markers)), "entries are in the order of their markers"
        entries = b"".join(_ENTRY.pack(_VERSION, *each) for each in listed)
        existing = self._read()
        self._entries = bytearray(entries)
        # An earlier process may have written the file without a sync.
        self._is_synced = not (entries or existing)
        if entries == existing:
            return
        if entries:
            self._files.create(self.path).write(0, entries)
        else:
            self._files.drop(self.path)
            self._files.filesystem.remove(self.path)

    def repair(self, transactions: Iterable[AbortedTransaction], end_offset: int) -> None:
        """Complete the entries, after the segment was read without all that lies before it.

        Where the file has an entry, that counts: the transaction may have begun before.

        Args:
            transactions: what was found.
            end_offset: the end of the segment, which may have been cut.

        Raises:
            OSError: the file could not be read or written.
        """
        assert end_offset >= self._base_offset, "a segment does not end before it begins"
        found = {each.last_offset: each for each in transactions}
        entries, _ = decode_entries(self._read(), self._base_offset)
        for entry in entries:
            if entry.last_offset < end_offset:
                found[entry.last_offset] = entry
        self.replace(found[offset] for offset in sorted(found))

    def sync(self) -> None:
        """Let the entries survive a loss of power.

        Raises:
            OSError: they could not be synced.
        """
        if self._is_synced:
            return
        filesystem = self._files.filesystem
        is_unread = self._entries is None and filesystem.exists(self.path)
        if is_unread or self._entries:
            self._files.get(self.path).sync()
        if is_unread or self._entries is not None:
            directory, _, _ = self.path.rpartition("/")
            filesystem.sync_directory(directory)
        self._is_synced = True

    def rename(self, path: str) -> bool:
        """Give the file another name; return whether there is one.

        Raises:
            OSError: it could not be renamed.
        """
        assert path != self.path, "a renamed file gets another name"
        has_entries = len(self) > 0
        self._files.drop(self.path)
        if has_entries:
            self._files.filesystem.rename(self.path, path)
        self.path = path
        return has_entries

    def from_offset(self, offset: int) -> Iterator[AbortedTransaction]:
        """Yield the transactions whose markers are at `offset` or behind it.

        Raises:
            CorruptLog: the file is damaged.
        """
        entries = self._load()
        numbers = range(len(entries) // ENTRY_BYTES)
        for number in numbers[bisect_left(numbers, offset, key=self._last_offset) :]:
            _, *fields = _ENTRY.unpack_from(entries, number * ENTRY_BYTES)
            yield AbortedTransaction(*fields)

    def _last_offset(self, number: int) -> int:
        _, _, _, last_offset, _ = _ENTRY.unpack_from(self._load(), number * ENTRY_BYTES)
        return int(last_offset)

    def _load(self) -> bytearray:
        if self._entries is None:
            data = self._read()
            entries, reason = decode_entries(data, self._base_offset)
            if reason:
                raise CorruptLog(self.path, len(entries) * ENTRY_BYTES, reason)
            assert len(data) % ENTRY_BYTES == 0, "a file with a part of an entry was refused"
            self._entries = bytearray(data)
        return self._entries

    def _read(self) -> bytes:
        if not self._files.filesystem.exists(self.path):
            return b""
        file = self._files.get(self.path)
        return file.read(0, file.size())


def decode_entries(data: bytes, base_offset: int) -> tuple[list[AbortedTransaction], str]:
    """Return the entries in front of a file that are possible, and why the next one is not.

    Args:
        data: the contents of the file.
        base_offset: of the segment.
    """
    found: list[AbortedTransaction] = []
    last_marker = base_offset - 1
    whole = len(data) - len(data) % ENTRY_BYTES
    for version, *fields in _ENTRY.iter_unpack(data[:whole]):
        entry = AbortedTransaction(*fields)
        if (
            version != _VERSION
            or entry.last_offset <= last_marker
            or not 0 <= entry.first_offset <= entry.last_offset
            or entry.last_stable_offset < 0
        ):
            return found, "this is no transaction"
        last_marker = entry.last_offset
        found.append(entry)
    return found, "the last entry is incomplete" if whole < len(data) else ""


def overlapping(
    indexes: Iterable[TransactionIndex], offset: int, end_offset: int
) -> Iterator[AbortedTransaction]:
    """Yield the aborted transactions that a read must know [data-plane/aborted-transactions].

    One whose marker is before `offset` is not among them: clients would drop the next transaction
    of its producer.

    Args:
        indexes: of the segment that holds `offset`, and of all behind it.
        offset: where the read begins.
        end_offset: where it ends.

    Raises:
        CorruptLog: an index is damaged.
    """
    for index in indexes:
        for transaction in index.from_offset(offset):
            if transaction.first_offset < end_offset:
                yield transaction
            if transaction.last_stable_offset >= end_offset:
                # Every transaction that began before has been ended by then.
                return


def is_aborted(indexes: Iterable[TransactionIndex], producer_id: int, offset: int) -> bool:
    """Return whether a batch belongs to an aborted transaction.

    Args:
        indexes: of the segment that holds the batch, and of all behind it.
        producer_id: of the batch, which is transactional.
        offset: of the batch.

    Raises:
        CorruptLog: an index is damaged.
    """
    return any(
        transaction.producer_id == producer_id
        for transaction in overlapping(indexes, offset, offset + 1)
    )


def aborted_at(indexes: Iterable[TransactionIndex], offset: int) -> AbortedTransaction | None:
    """Return the aborted transaction whose marker is at `offset`, None if there is none.

    Args:
        indexes: as for `is_aborted`.
        offset: of the marker.

    Raises:
        CorruptLog: an index is damaged.
    """
    for index in indexes:
        found = next(index.from_offset(offset), None)
        return found if found is not None and found.last_offset == offset else None
    return None
