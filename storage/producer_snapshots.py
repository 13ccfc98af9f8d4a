"""The snapshots of the producers in a partition's directory: `<offset>.snapshot`.

A snapshot has the state of the producers before its offset. One is written when a segment is begun,
when a log is closed, and after a recovery, so that a start reads the newest one and the batches
behind it, and never the whole log [recovery/producer-snapshots].

The format is Kafka's: version (int16), CRC-32C of everything behind it (uint32), the number of
entries (int32), the entries.
"""

import contextlib
import struct
from bisect import bisect_right
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
        or checksum.crc32c(memoryview(data)[_PREFIX.size :]) != crc
    ):
        return None
    return data[_ENTRIES_AT:]


class ProducerSnapshots:
    """The snapshots of one log.

    Attributes:
        offsets: their offsets, ascending.
    """

    __slots__ = ("_directory", "_filesystem", "_is_synced", "offsets")

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        """No snapshot is known yet."""
        self.offsets: list[int] = []
        self._filesystem = filesystem
        self._directory = directory
        # Whether the newest one was synced.
        self._is_synced = False

    def find(self, names: Iterable[str]) -> None:
        """Find the snapshots among the names of the directory."""
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
        for offset in reversed(self.offsets[: bisect_right(self.offsets, at_most)]):
            file = self._filesystem.open(self._path(offset))
            try:
                data = file.read(0, file.size())
            finally:
                file.close()
            entries = decode_snapshot(data)
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
        if self.offsets and self.offsets[-1] >= offset:
            return
        file = self._filesystem.create(self._path(offset))
        try:
            file.write(0, encode_snapshot(state))
        finally:
            file.close()
        self.offsets.append(offset)
        self._is_synced = False

    def sync(self) -> None:
        """Let the newest snapshot survive a loss of power.

        Raises:
            OSError: it could not be synced.
        """
        if self._is_synced or not self.offsets:
            return
        file = self._filesystem.open(self._path(self.offsets[-1]))
        try:
            file.sync()
        finally:
            file.close()
        self._filesystem.sync_directory(self._directory)
        self._is_synced = True

    def remove_after(self, offset: int) -> None:
        """Remove the snapshots behind `offset`, which are ahead of the log.

        They must not come back: the log will have other records at those offsets.

        Raises:
            OSError: one could not be removed.
        """
        ahead = self.offsets[bisect_right(self.offsets, offset) :]
        for each in ahead:
            self._remove(each)
        if ahead:
            self._filesystem.sync_directory(self._directory)

    def prune(self, base_offsets: Collection[int]) -> None:
        """Remove snapshots, except those at the base offsets of segments and the newest."""
        # A loss of power may take the newest one, if it was not synced.
        for offset in self.offsets[: -1 if self._is_synced else -2]:
            if offset not in base_offsets:
                # What cannot be removed now is removed after the next start.
                with contextlib.suppress(OSError):
                    self._remove(offset)

    def _remove(self, offset: int) -> None:
        self.offsets.remove(offset)
        self._filesystem.remove(self._path(offset))

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{segment_stem(offset)}.snapshot"
