"""Size and digest of each closed segment of a compacted log: `coterie-segments`.

A log that was never compacted has no gaps, so a missing batch is noticed by the offsets. In a
compacted log offsets may be missing, so a segment that was cut exactly between two batches, or a
batch with a greater offset, would look right. This file of ours tells them apart
[recovery/segment-digests]. It protects and is not needed: a segment without an entry is accepted.

An entry never contradicts a segment that is as it was written, whatever a crash or a loss of power
leaves: a segment gets its entry when it is closed, and before a cleaned segment takes the place of
another one, the file has the entries of both, or none if it had none of the other.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from coterie.storage.batches import BatchFacts
from coterie.storage.checkpoints import checkpoint_text, read_checkpoint, replace_file
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import FileSystem

FILE_NAME = "coterie-segments"
# Unlike that of other writes, because the cleaner's thread writes while the event loop may.
_SWAP_SUFFIX = ".swap.tmp"
# Length, base offset, last offset and greatest timestamp of a batch. The checksum of the batch
# covers the rest.
_pack_link = Struct(">iqqq").pack
_crc32 = crc32


class SegmentDigest(NamedTuple):
    """What is known of a closed segment.

    Attributes:
        size: the bytes of its log file.
        digest: of its batches, in their order; see `link`.
    """

    size: int
    digest: int


def link(digest: int, batches: Iterable[BatchFacts]) -> int:
    """Return the digest of a segment after some more batches; that of an empty segment is 0."""
    for facts in batches:
        digest = link_one(digest, facts)
    return digest


def link_one(digest: int, facts: BatchFacts) -> int:
    """Return the digest of a segment after one more batch, as `link` does."""
    return _crc32(_pack_link(facts[1], facts[2], facts[3], facts[4]), digest)


def remove_digests(filesystem: FileSystem, directories: Iterable[str]) -> bool:
    """Remove the files of some logs; return whether there were any. Raises OSError."""
    found = [each for each in directories if filesystem.exists(f"{each}/{FILE_NAME}")]
    for each in found:
        filesystem.remove(f"{each}/{FILE_NAME}")
        filesystem.sync_directory(each)
    return bool(found)


class SegmentDigests:
    """The entries of one log, and their file."""

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        """Nothing is read yet.

        Args:
            filesystem: where the directory is.
            directory: the partition's directory.
        """
        self._filesystem = filesystem
        self._path = f"{directory}/{FILE_NAME}"
        # Several if a cleaned segment takes the place of another one.
        self._entries: dict[int, tuple[SegmentDigest, ...]] = {}

    def read(self) -> None:
        """Take the entries of the file; none if it is missing, damaged, or not ours.

        Raises:
            OSError: it cannot be read.
        """
        with suppress(CorruptLog):
            found = read_checkpoint(self._filesystem, self._path, 3)
            for base, size, digest in found.entries if found.is_ours else ():
                self._add(int(base), SegmentDigest(int(size), int(digest)))

    def of(self, base_offset: int) -> tuple[SegmentDigest, ...]:
        """Return what the segment with this base offset may be; nothing if that is not known."""
        return self._entries.get(base_offset, ())

    def expected(self, base_offset: int, next_offset: int) -> tuple[SegmentDigest, ...]:
        """Return what the segment before another one may be; nothing if that is not known.

        While a cleaned segment takes the place of several, the first has two entries. The others
        are removed after that, so if they do not exist any more only the newer entry is right.
        """
        assert base_offset < next_offset, "segments are in the order of their offsets"
        entries = self.of(base_offset)
        if len(entries) > 1 and any(base_offset < each < next_offset for each in self._entries):
            return entries[-1:]
        return entries

    def keep(self, base_offsets: Collection[int]) -> None:
        """Forget all other segments, also in the file."""
        kept = {base: entries for base, entries in self._entries.items() if base in base_offsets}
        if len(kept) < len(self._entries):
            self._entries = kept
            self._write()

    def closed(self, base_offset: int, entry: SegmentDigest) -> None:
        """Note a segment that is not appended to any more."""
        assert base_offset not in self._entries, "a segment is closed once"
        self._entries[base_offset] = (entry,)
        self._write()

    def replacing(self, base_offset: int, entry: SegmentDigest) -> Callable[[], None]:
        """Note what is about to take the place of a segment.

        Of a segment without an entry nothing is noted yet: until it is replaced, the only entry
        would be a wrong one.

        Returns:
            What has to be called before, in any thread. It may raise OSError.
        """
        if not self.of(base_offset):
            return lambda: None
        self._add(base_offset, entry)
        assert self.of(base_offset)[-1] == entry, "the newest entry of a segment is the last"
        filesystem, path, text = self._filesystem, self._path, self._text()

        def write() -> None:
            try:
                replace_file(filesystem, path, text, durable=True, suffix=_SWAP_SUFFIX)
            except OSError:
                with suppress(OSError):
                    filesystem.remove(path + _SWAP_SUFFIX)
                raise

        return write

    def replaced(self, base_offsets: Iterable[int], entry: SegmentDigest) -> None:
        """Note that a segment takes the place of these, whatever happens; the first is its own."""
        first, *others = base_offsets
        assert all(each > first for each in others), "the name of the first segment stays"
        for each in others:
            self._entries.pop(each, None)
        self._entries[first] = (entry,)

    def swapped(self) -> None:
        """Write the file without the segments whose place others have taken."""
        self._write()

    def _add(self, base_offset: int, entry: SegmentDigest) -> None:
        before = (each for each in self.of(base_offset) if each != entry)
        self._entries[base_offset] = (*before, entry)

    def _text(self) -> str:
        return checkpoint_text(
            self._path,
            ((base, *entry) for base, each in sorted(self._entries.items()) for entry in each),
        )

    def _write(self) -> None:
        # Not synced: if the file is lost, the segments are accepted without it. For the same reason
        # an error is no failure of the log.
        with suppress(OSError):
            replace_file(self._filesystem, self._path, self._text(), durable=False)
