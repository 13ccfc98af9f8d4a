"""Walking over the batches of a segment file in bounded memory.

`scan` believes nothing: framing, checksum and offsets of each batch are checked, because the CRC of
a batch covers neither its base offset nor its magic nor its length. `steps` only steps from batch
to batch over what has been scanned before, or where an index pointed. Both stop with `BadBatch` at
the first batch that can't be. Both run over every batch of a log at start or over many for one
read, so they take the few fields they need out of the header and make no object of it.
"""

import struct
from collections.abc import Iterator

from coterie.protocol import checksum
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.records import check_crc, read_header
from coterie.storage.filesystem import File
from coterie.storage.leader_epochs import FILE_NAME, LeaderEpochs
from coterie.storage.placing import BatchFacts

# What one read brings: its cost vanishes beside the walk, and its memory does not matter.
CHUNK_BYTES = 1 << 20
# Stepping looks at the few batches around an index entry.
_STEPS_BYTES = 8 << 10
# No batch is longer: Kafka's socket.request.max.bytes is 100 MiB, ours is less. It bounds what is
# read on the word of a damaged length.
MAX_BATCH_BYTES = 256 << 20
# A header of magic 2, and from where on the CRC covers the batch.
_HEADER_BYTES = 61
_CRC_START = 21
_PREFIX_BYTES = 12
# Base offset, length, magic, CRC, last offset delta, maximum timestamp of a header of magic 2.
_FIELDS = struct.Struct(">qi4xbI2xi8xq")
_FIELDS_BYTES = _FIELDS.size
# Above every int64.
_BEYOND_OFFSETS = 1 << 63


class BadBatch(Exception):  # noqa: N818 - says what was found
    """At `position` of the file stands no batch, or not the one that should."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"byte {position}: {reason}")
        self.position = position
        self.reason = reason


def scan(
    file: File,
    position: int,
    end: int,
    expected_offset: int | None,
    *,
    gaps: bool,
    epochs: LeaderEpochs | None = None,
) -> Iterator[BatchFacts]:
    """Each batch from `position` to `end`, checked.

    Args:
        file: the segment's log file.
        position: where a batch begins.
        end: where the last one ends.
        expected_offset: the base offset that the first batch has, or with gaps the least it may
            have; None where it is not known.
        gaps: whether offsets may be missing between batches, as in a compacted log.
        epochs: the log's leader epochs, if the batches are to be held against them.

    Raises:
        BadBatch: the first batch that fails a check.
    """
    wanted = CHUNK_BYTES
    # The epoch that batches below an offset must have, as its four bytes.
    epoch, epoch_until = b"", _BEYOND_OFFSETS if epochs is None else 0
    fields, crc32c = _FIELDS.unpack_from, checksum.bound() if position < end else checksum.crc32c
    while position < end:
        asked = min(wanted, end - position)
        buffer = _read(file, position, asked, end)
        wanted, view, at = CHUNK_BYTES, memoryview(buffer), 0
        while at < asked:
            if asked - at < _HEADER_BYTES and position + asked < end:
                break
            # Nearly every batch is of magic 2, whole in the buffer and where it is expected: it is
            # checked in line, for a log has millions. All others are told apart below.
            if asked - at >= _HEADER_BYTES and buffer[at + 16] == 2:
                base_offset, length, _, crc, delta, max_timestamp_ms = fields(buffer, at)
                stop = at + _PREFIX_BYTES + length
                if (
                    base_offset == expected_offset
                    and at + _HEADER_BYTES <= stop <= asked
                    and delta >= 0
                    and base_offset < epoch_until
                    and (buffer[at + 12 : at + 16] == epoch or epochs is None)
                    and crc32c(view[at + _CRC_START : stop]) == crc
                ):
                    last_offset = base_offset + delta
                    yield position + at, stop - at, base_offset, last_offset, max_timestamp_ms
                    expected_offset = last_offset + 1
                    at = stop
                    continue
            facts = _facts(buffer, at, position, end)
            _, length_bytes, base_offset, last_offset, _ = facts
            stop = at + length_bytes
            if stop > asked:
                wanted = max(CHUNK_BYTES, length_bytes)
                break
            _check_crc(buffer, at, stop, position + at)
            if base_offset != expected_offset and expected_offset is not None:
                _check_expected(buffer, at, facts, expected_offset, gaps=gaps)
            if epochs is not None and (
                base_offset >= epoch_until or buffer[at + 12 : at + 16] != epoch
            ):
                epoch, epoch_until = _check_epoch(buffer, at, facts, epochs)
            yield facts
            expected_offset = last_offset + 1
            at = stop
        position += at


def _read(file: File, position: int, length: int, end: int) -> bytes:
    buffer = file.read(position, length)
    if len(buffer) < length:
        raise BadBatch(position + len(buffer), f"the file ends here and not at byte {end}")
    return buffer


def steps(file: File, position: int, end: int) -> Iterator[BatchFacts]:
    """Each batch from `position` to `end`, by its header alone; records are stepped over.

    Raises:
        BadBatch: there is no batch where one should begin.
    """
    start, buffer = position, b""
    while position < end:
        at = position - start
        if at + _HEADER_BYTES > len(buffer):
            start, at = position, 0
            buffer = file.read(position, min(_STEPS_BYTES, end - position))
        facts = _facts(buffer, at, start, end)
        yield facts
        position += facts[1]


def _facts(buffer: bytes, at: int, start: int, end: int) -> BatchFacts:
    """The facts of the batch at `at` of a buffer, which begins at byte `start` of its file.

    Raises:
        BadBatch: no batch can begin so, or it would end behind the file.
    """
    left = end - start - at
    if len(buffer) - at >= _FIELDS_BYTES and buffer[at + 16] == 2:
        base_offset, length, _, _, last_offset_delta, max_timestamp_ms = _FIELDS.unpack_from(
            buffer, at
        )
        length += _PREFIX_BYTES
        # Damaged lengths are told apart below.
        if _HEADER_BYTES <= length <= left and length <= MAX_BATCH_BYTES:
            last_offset = base_offset + last_offset_delta
            if last_offset < base_offset or base_offset < 0:
                raise BadBatch(start + at, f"offsets {base_offset} to {last_offset}")
            return start + at, length, base_offset, last_offset, max_timestamp_ms
    try:
        header = read_header(buffer, at)
    except MalformedFrame:
        raise BadBatch(start + at, "no header of a known kind begins here") from None
    if header.length_bytes > left or header.length_bytes > MAX_BATCH_BYTES:
        raise BadBatch(start + at, f"{header.length_bytes} bytes are claimed where {left} are left")
    if header.base_offset < 0:
        raise BadBatch(start + at, f"offset {header.base_offset}")
    length = header.length_bytes
    return start + at, length, header.base_offset, header.last_offset, header.max_timestamp_ms


def _check_crc(buffer: bytes, at: int, stop: int, position: int) -> None:
    if buffer[at + 16] == 2:
        crc = _FIELDS.unpack_from(buffer, at)[3]
        right = checksum.crc32c(memoryview(buffer)[at + _CRC_START : stop]) == crc
    else:
        header = read_header(buffer, at)
        crc, right = header.crc, check_crc(buffer, header, at)
    if not right:
        raise BadBatch(position, f"the checksum is not {crc:#010x}")


def _check_epoch(
    buffer: bytes, at: int, facts: BatchFacts, epochs: LeaderEpochs
) -> tuple[bytes, int]:
    """The epoch of a batch, and the offset up to which the next ones have to have it."""
    position, _, base_offset, _, _ = facts
    if buffer[at + 16] < 2:
        return b"", 0
    raw = buffer[at + _PREFIX_BYTES : at + 16]
    epoch = int.from_bytes(raw, "big", signed=True)
    until = epochs.until(epoch, base_offset)
    if until is None:
        raise BadBatch(
            position,
            f"leader epoch {epoch} at offset {base_offset}, where {FILE_NAME} has another",
        )
    return raw, until


def _check_expected(
    buffer: bytes, at: int, facts: BatchFacts, expected_offset: int, *, gaps: bool
) -> None:
    position, _, base_offset, _, _ = facts
    # Before magic 2 a compressed entry tells the offset of its last record and not of its first.
    hidden = buffer[at + 16] < 2 and read_header(buffer, at).compression
    if base_offset < expected_offset or not (gaps or hidden):
        raise BadBatch(position, f"offset {base_offset} where {expected_offset} follows")
