"""The bytes of a write-ahead file: frames, one behind the other [recovery/write-ahead].

A frame is what one turn of the event loop appended to several logs, written with one write. It is
valid only with the id of its file, the number of its place in it, and a right checksum. So neither
what an older file has left on the disk nor records that imitate a frame are taken for one.

An entry names its segment by what the segment held, not by its offset alone
[recovery/write-ahead-replay]. Files of the first format do not, and are still read.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from coterie.protocol import checksum
from coterie.protocol.fields import ZERO_UUID

FILE_PREFIX = "coterie-wal."
ID_BYTES = 8
# A sector: what follows a frame never shares one with it, so writing it cannot tear the frame.
BLOCK_BYTES = 512

_MAGIC = b"CotrWal2"
# Entries of the first format have no digest.
_FIRST_MAGIC = b"CotrWal1"
# Magic, id of the file, CRC-32C of everything behind it, length of the body, number of the frame.
_FRAME_HEADER = Struct(">8s8sIIQ")
_CRC_END = 20
# Topic id, partition, base offset of the segment, position in its file, length of the data, digest.
_ENTRY_HEADER = Struct(">16siqqII")
_FIRST_ENTRY_HEADER = Struct(">16siqqI")


class PartitionId(NamedTuple):
    """A partition. A topic of the same name that is created later has another id."""

    topic_id: bytes
    partition: int


class Entry(NamedTuple):
    """Bytes that were appended to a segment.

    Attributes:
        partition_id: the partition.
        base_offset: of the segment.
        position: where the bytes begin in its file.
        data: the bytes, which are whole batches.
        digest: of the batches before them in the segment (`segment_digests.link`), None in files
            of the first format.
    """

    partition_id: PartitionId
    base_offset: int
    position: int
    data: bytes
    digest: int | None


class DamagedFrame(Exception):  # noqa: N818 - says what was found
    """There is no valid frame at `position`, although one behind it is valid."""

    def __init__(self, position: int) -> None:
        super().__init__(f"byte {position}")
        self.position = position


def file_name(file_id: bytes) -> str:
    """Return the name of a write-ahead file."""
    assert len(file_id) == ID_BYTES, "the id is part of each frame"
    return FILE_PREFIX + file_id.hex()


def parse_file_name(name: str) -> bytes | None:
    """Return the id in the name of a write-ahead file, None if it is not one's name."""
    digits = name.removeprefix(FILE_PREFIX)
    if digits == name or len(digits) != 2 * ID_BYTES:
        return None
    try:
        return bytes.fromhex(digits)
    except ValueError:
        return None


def encode_frame(file_id: bytes, number: int, entries: Sequence[Entry]) -> bytes:
    """Return the bytes of a frame, up to the end of a block."""
    assert entries, "a frame has a reason"
    pieces: list[bytes] = []
    for (topic_id, partition), base_offset, position, data, digest in entries:
        assert digest is not None, "what is written names its segment"
        assert len(topic_id) == len(ZERO_UUID), "a topic id has 16 bytes"
        fields = topic_id, partition, base_offset, position, len(data), digest
        pieces += (_ENTRY_HEADER.pack(*fields), data)
    length = sum(map(len, pieces))
    header = _FRAME_HEADER.pack(_MAGIC, file_id, 0, length, number)
    # The padding is checked too, so that every byte of a frame is.
    padding = bytes(-(len(header) + length) % BLOCK_BYTES)
    checked = b"".join((header[_CRC_END:], *pieces, padding))
    crc = checksum.crc32c(checked)
    frame = b"".join((_MAGIC, file_id, crc.to_bytes(4, "big"), checked))
    assert len(frame) % BLOCK_BYTES == 0, "a frame ends with a block"
    return frame


def decode_frames(file_id: bytes, data: bytes) -> list[Entry]:
    """Return the entries of all frames up to the first one that is not valid.

    Raises:
        DamagedFrame: a valid frame follows the first that is not. It was written after the first
            one was synced, so no loss of power explains that [recovery/write-ahead-replay].
    """
    entries: list[Entry] = []
    position = number = 0
    while (end := _frame_end(file_id, data, position, number)) is not None:
        assert end > position, "a frame has bytes"
        assert end % BLOCK_BYTES == 0, "a frame ends with a block"
        magic, _, _, length, _ = _FRAME_HEADER.unpack_from(data, position)
        start = position + _FRAME_HEADER.size
        entries += _entries(data[start : start + length], has_digests=magic == _MAGIC)
        position, number = end, number + 1
    for magic in (_MAGIC, _FIRST_MAGIC):
        later = position - 1
        while (later := data.find(magic + file_id, later + 1)) >= 0:
            if not later % BLOCK_BYTES and _frame_end(file_id, data, later, None) is not None:
                raise DamagedFrame(position)
    return entries


def _frame_end(file_id: bytes, data: bytes, position: int, number: int | None) -> int | None:
    """Return where the frame at a position ends; None if there is none, or of another number."""
    body = position + _FRAME_HEADER.size
    if body > len(data):
        return None
    magic, found_id, crc, length, found_number = _FRAME_HEADER.unpack_from(data, position)
    end = body + length + -(body + length) % BLOCK_BYTES
    if magic not in (_MAGIC, _FIRST_MAGIC) or found_id != file_id or end > len(data):
        return None
    if number is not None and found_number != number:
        return None
    checked = data[position + _CRC_END : end]
    return end if checksum.crc32c(checked) == crc else None


def _entries(body: bytes, *, has_digests: bool) -> list[Entry]:
    layout = _ENTRY_HEADER if has_digests else _FIRST_ENTRY_HEADER
    entries = []
    at = 0
    while at < len(body):
        topic_id, partition, base_offset, position, length, *digest = layout.unpack_from(body, at)
        at += layout.size
        data = body[at : at + length]
        partition_id = PartitionId(topic_id, partition)
        known = digest[0] if digest else None
        entries.append(Entry(partition_id, base_offset, position, data, known))
        at += length
    assert at == len(body), "the checksum of the frame is right"
    return entries
