"""The snapshots of the producers in a partition's directory: `<offset>.snapshot`.

A snapshot has the state of the producers before its offset. One is written when a segment is begun,
when a log is closed, and after a recovery, so that a start reads the newest one and the batches
behind it, and never the whole log [recovery/producer-snapshots].

The format is Kafka's: version (int16), CRC-32C of everything behind it (uint32), the number of
entries (int32), the entries.
"""

import contextlib
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable

from coterie.protocol import checksum
from coterie.storage.filesystem import FileSystem
from coterie.storage.producer_state import ENTRY_BYTES, ProducerState
from coterie.storage.segment_files import parse_segment_file, segment_stem

_VERSION = 1
_PREFIX = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRIES_AT = _PREFIX.size + _COUNT.size


def encode_snapshot(state: ProducerState) -> bytes:
    """Return the contents of a snapshot."""
    assert len(state.entries) == len(state) * ENTRY_BYTES, "a snapshot has each producer once"
    body = _COUNT.pack(len(state)) + state.entries
    return _PREFIX.pack(_VERSION, checksum.crc32c(body)) + body


def decode_snapshot(data: bytes) -> bytes | None:
    """Return the entries of a snapshot; None if the bytes are not one, or damaged."""
    if len(data) < _ENTRIES_AT:
        return None
    version, crc = _PREFIX.unpack_from(data)
    (count,) = _COUNT.unpack_from(data, _PREFIX.size)
    if (
        version != _VERSION
        or len(data) != _ENTRIES_AT + count * ENTRY_BYTES
        or checksum.crc32c(data[_PREFIX.size :]) != crc
    ):
        return None
    return data[_ENTRIES_AT:]


class ProducerSnapshots:
    """The snapshots of one log.

    Attributes:
        offsets: their offsets, ascending.
    """

    __slots__ = ("_directory", "_durable", "_filesystem", "offsets")

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        """No snapshot is known yet."""
        self.offsets: list[int] = []
        self._filesystem = filesystem
        self._directory = directory
        # The one that is known to survive a loss of power; -1 if there is none.
        self._durable = -1

    def find(self, names: Iterable[str]) -> None:
        """Find the snapshots among the names of the directory."""
        assert not self.offsets, "the snapshots of a log are found once"
        files = (parse_segment_file(name) for name in names)
        self.offsets = sorted(
            file.base_offset for file in files if file and file[1:] == ("snapshot", "")
        )

    def read(
        self, at_most: int, seen_after_ms: int, now_ms: int
    ) -> tuple[int, ProducerState] | None:
        """Return offset and state of the newest usable snapshot; None if there is none.

        Snapshots that turn out to be damaged are removed.

        Args:
            at_most: the greatest offset that the snapshot may have.
            seen_after_ms, now_ms: see `ProducerState.restore`.

        Raises:
            OSError: a snapshot could not be read or removed.
        """
        for offset in self._from_newest(0, at_most):
            entries = self._entries(offset, sync=False)
            state = ProducerState()
            if entries is not None and state.restore(entries, offset, seen_after_ms, now_ms):
                return offset, state
            self._remove(offset)
        return None

    def write(self, offset: int, state: ProducerState) -> bool:
        """Write a snapshot, unless there is one at or behind `offset`.

        Returns:
            False if the disk refuses. That is no failure of the log: the next start reads more.
        """
        try:
            self.write_now(offset, state)
        except OSError:
            # What is there of it does not have the checksum.
            return False
        return True

    def write_now(self, offset: int, state: ProducerState) -> None:
        """Write a snapshot, unless there is one at or behind `offset`.

        Raises:
            OSError: it could not be written.
        """
        assert offset >= 0, "a snapshot stands at an offset of the log"
        if self.offsets and self.offsets[-1] >= offset:
            return
        unstable = state.first_unstable_offset
        assert unstable is None or unstable < offset, "a snapshot is behind what it tells of"
        file = self._filesystem.create(self._path(offset))
        try:
            file.write(0, encode_snapshot(state))
        finally:
            file.close()
        self.offsets.append(offset)

    def keep_durable(self, first: int, last: int) -> bool:
        """Let the newest usable snapshot between two offsets survive a loss of power.

        After that a start finds one there, because `prune` spares it until there is a later one.

        Returns:
            Whether there is one.

        Raises:
            OSError: it could not be read or synced, or a damaged one could not be removed.
        """
        for offset in self._from_newest(first, last):
            if offset != self._durable:
                if self._entries(offset, sync=True) is None:
                    self._remove(offset)
                    continue
                self._filesystem.sync_directory(self._directory)
                self._durable = offset
            assert first <= self._durable <= last, "it is one of those that were asked for"
            return True
        return False

    def remove_after(self, offset: int) -> None:
        """Remove the snapshots behind `offset`, which are ahead of the log.

        They must not come back: the log will have other records at those offsets.

        Raises:
            OSError: one could not be removed.
        """
        ahead = self.offsets[bisect_right(self.offsets, offset) :]
        for each in ahead:
            self._remove(each)
        assert not self.offsets or self.offsets[-1] <= offset, "no snapshot is ahead of the log"
        if ahead:
            self._filesystem.sync_directory(self._directory)

    def surplus(self, base_offsets: Collection[int]) -> list[int]:
        """Return the snapshots that `prune` may remove, perhaps later."""
        # A loss of power may take the newest one.
        return [each for each in self.offsets[:-2] if each not in base_offsets]

    def prune(self, base_offsets: Collection[int], *, durable: bool) -> None:
        """Remove snapshots, except those at the base offsets of segments and the newest.

        Args:
            base_offsets: of the segments of the log.
            durable: whether a loss of power must leave a usable one. Then those before the one that
                `keep_durable` has found are removed, and those within the last segment.
        """
        last_base = max(base_offsets, default=0)
        newest = self.offsets[-2:]
        for offset in self.surplus(base_offsets):
            if not durable or offset < self._durable or offset > last_base:
                # What cannot be removed now is removed after the next start.
                with contextlib.suppress(OSError):
                    self._remove(offset)
        assert self.offsets[-2:] == newest, "the newest snapshots stay"

    def _from_newest(self, first: int, last: int) -> list[int]:
        """Return the offsets of the snapshots between two offsets, descending."""
        offsets = self.offsets
        return offsets[bisect_left(offsets, first) : bisect_right(offsets, last)][::-1]

    def _entries(self, offset: int, *, sync: bool) -> bytes | None:
        """Return the entries of a snapshot, None if it is damaged; sync it if it is not."""
        file = self._filesystem.open(self._path(offset))
        try:
            entries = decode_snapshot(file.read(0, file.size()))
            if sync and entries is not None:
                file.sync()
        finally:
            file.close()
        return entries

    def _remove(self, offset: int) -> None:
        self.offsets.remove(offset)
        if offset == self._durable:
            self._durable = -1
        assert self._durable < 0 or self.offsets, "the durable snapshot is one of those that exist"
        self._filesystem.remove(self._path(offset))

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{segment_stem(offset)}.snapshot"
