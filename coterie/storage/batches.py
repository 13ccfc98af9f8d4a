"""The batches of a segment file: giving them offsets, scanning them, stepping over them.

`place` prepares batches for an append. `scan` checks framing, checksum and offsets of each batch,
since the checksum covers neither the base offset nor the magic nor the length
[record-batch/checksum]. `steps` reads headers only, in files that were scanned before or from where
an index points. Both stop with `BadBatch` at the first batch that is impossible.

All of them run over many batches (at a start, over every batch of a log), so they unpack the few
fields that they need and make no header objects.
"""

from collections.abc import Callable, Iterator, Sequence

from coterie.protocol import checksum
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.record_batch_layout import (
    APPEND_FIELDS,
    BASE_OFFSET,
    CRC_START,
    HEADER_BYTES,
    LEADER_EPOCH,
    LEADER_EPOCH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    PRODUCER_ID_AT,
    SCAN_FIELDS,
)
from coterie.protocol.records import check_crc, iterate_batches, read_header
from coterie.storage.filesystem import File
from coterie.storage.leader_epochs import FILE_NAME, LeaderEpochs

# What the indexes and the end of a log need to know of a batch: its position in the file (or in the
# bytes of an append), its length in bytes, its first and last offset, and its greatest timestamp in
# milliseconds. A plain tuple, because one is made for every batch of a log at a start and for every
# batch that is appended.
BatchFacts = tuple[int, int, int, int, int]

# Called with the buffer and the position in it of each scanned batch that has a producer id.
ProducerBatchReader = Callable[[bytes, int], None]

_append_fields = APPEND_FIELDS.unpack_from

# The length of one read. Its cost vanishes beside the walk, and its memory does not matter.
CHUNK_BYTES = 1 << 20
# A step looks at the few batches behind an index entry.
_STEPS_BYTES = 8 << 10
# No batch is longer: Kafka's socket.request.max.bytes is 100 MiB, and ours is less. This bounds
# what is read because a damaged length claims it.
MAX_BATCH_BYTES = 256 << 20
# Above every int64.
_BEYOND_OFFSETS = 1 << 63


class BadBatch(Exception):  # noqa: N818 - says what was found
    """There is no batch at `position` of a file, or not the batch that should be there."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"byte {position}: {reason}")
        self.position = position
        self.reason = reason


def place(
    batches: bytes, next_offset: int, leader_epoch: int, made: int = 0, made_ms: int = 0
) -> tuple[bytes, BatchFacts, Sequence[BatchFacts], Sequence[int]]:
    """Give batches of magic 2 consecutive offsets and a leader epoch [data-plane/timestamps].

    Bytes that have the right offsets and epoch already, as those of the coordinator have, are not
    copied.

    Args:
        batches: one or more whole batches.
        next_offset: the base offset of the first.
        leader_epoch: of all.
        made: how many records the only batch has, if the broker has made it with this offset and
            epoch, and without a producer; its header is not read then. 0 for other batches.
        made_ms: the time of these records.

    Returns:
        The bytes to write, the facts about the last batch in them and about those before it, and
        the positions of the batches that have a producer id.
    """
    if made:
        (base_offset,) = BASE_OFFSET.unpack_from(batches)
        assert base_offset == next_offset, "a batch of the broker has the log's next offset"
        facts = 0, len(batches), next_offset, next_offset + made - 1, made_ms
        return batches, facts, (), ()
    stamped: bytearray | None = None
    placed: list[BatchFacts] = []
    produced: tuple[int, ...] = ()
    position, end = 0, len(batches)
    while position < end:
        base_offset, length, epoch, magic, last_offset_delta, max_timestamp_ms, producer_id = (
            _append_fields(batches, position)
        )
        assert magic == 2, "only batches of magic 2 are appended"
        if base_offset != next_offset or epoch != leader_epoch:
            if stamped is None:
                stamped = bytearray(batches)
            BASE_OFFSET.pack_into(stamped, position, next_offset)
            LEADER_EPOCH.pack_into(stamped, position + LEADER_EPOCH_AT, leader_epoch)
        length += LOG_OVERHEAD_BYTES
        last_offset = next_offset + last_offset_delta
        placed.append((position, length, next_offset, last_offset, max_timestamp_ms))
        if producer_id >= 0:
            produced += (position,)
        next_offset = last_offset + 1
        position += length
    assert position == end, "an append is whole batches"
    assert placed, "an append has at least one batch"
    last = placed.pop()
    return batches if stamped is None else bytes(stamped), last, placed, produced


def scan(
    file: File,
    position: int,
    end: int,
    expected_offset: int | None,
    *,
    gaps: bool,
    epochs: LeaderEpochs | None = None,
    producers: ProducerBatchReader | None = None,
) -> Iterator[BatchFacts]:
    """Check and yield each batch from `position` to `end`.

    Args:
        file: the segment's log file.
        position: where a batch begins.
        end: where the last batch ends.
        expected_offset: the base offset of the first batch (with `gaps` the least it may have), or
            None.
        gaps: whether offsets may be missing between batches [log/segments].
        epochs: to be compared with those of the batches [recovery/epoch-check].
        producers: called after each batch that has a producer id.

    Raises:
        BadBatch: the first batch that fails a check.
    """
    wanted = CHUNK_BYTES
    # The epoch that batches below an offset must have, as its four bytes.
    epoch, epoch_until = b"", _BEYOND_OFFSETS if epochs is None else 0
    fields = SCAN_FIELDS.unpack_from
    crc32c = checksum.crc32c
    while position < end:
        asked = min(wanted, end - position)
        buffer = _read(file, position, asked, end)
        wanted, at = CHUNK_BYTES, 0
        while at < asked:
            if asked - at < HEADER_BYTES and position + asked < end:
                break
            # Nearly every batch has magic 2, is whole in the buffer, and is the expected one. It is
            # checked in line, since a log has millions of them. Everything else is examined below.
            stop = 0
            if asked - at >= HEADER_BYTES and buffer[at + MAGIC_AT] == 2:
                base_offset, length, _, crc, delta, max_timestamp_ms = fields(buffer, at)
                last_offset = base_offset + delta
                if (
                    base_offset == expected_offset
                    and HEADER_BYTES <= length + LOG_OVERHEAD_BYTES <= asked - at
                    and delta >= 0
                    and base_offset < epoch_until
                    and (buffer[at + LEADER_EPOCH_AT : at + MAGIC_AT] == epoch or epochs is None)
                    and crc32c(buffer[at + CRC_START : at + LOG_OVERHEAD_BYTES + length]) == crc
                ):
                    stop = at + LOG_OVERHEAD_BYTES + length
            if not stop:
                facts = _facts(buffer, at, position, end)
                _, length, base_offset, last_offset, max_timestamp_ms = facts
                if at + length > asked:
                    wanted = max(CHUNK_BYTES, length)
                    break
                stop = at + length
                _check(buffer, at, facts, expected_offset, gaps=gaps)
                is_same = buffer[at + LEADER_EPOCH_AT : at + MAGIC_AT] == epoch
                if epochs is not None and (base_offset >= epoch_until or not is_same):
                    epoch, epoch_until = _check_epoch(buffer, at, facts, epochs)
            yield position + at, stop - at, base_offset, last_offset, max_timestamp_ms
            if producers is not None and _has_producer(buffer, at):
                producers(buffer, at)
            expected_offset = last_offset + 1
            at = stop
        position += at


def until(batches: bytes, end_offset: int) -> tuple[bytes, int]:
    """Return the batches that begin before `end_offset`, and the offset after them.

    Args:
        batches: whole batches, at least one of which begins before `end_offset`.
        end_offset: the offset.
    """
    next_offset = 0
    for position, header in iterate_batches(batches):
        if header.base_offset >= end_offset:
            return batches[:position], next_offset
        next_offset = header.next_offset
    return batches, next_offset


def steps(file: File, position: int, end: int) -> Iterator[BatchFacts]:
    """Yield each batch from `position` to `end`, by its header alone.

    Raises:
        BadBatch: there is no batch where one should begin.
    """
    start, buffer = position, b""
    while position < end:
        at = position - start
        if at + HEADER_BYTES > len(buffer):
            start, at = position, 0
            buffer = file.read(position, min(_STEPS_BYTES, end - position))
        facts = _facts(buffer, at, start, end)
        yield facts
        _, length_bytes, _, _, _ = facts
        position += length_bytes


def _read(file: File, position: int, length: int, end: int) -> bytes:
    buffer = file.read(position, length)
    if len(buffer) < length:
        raise BadBatch(position + len(buffer), f"the file ends here and not at byte {end}")
    return buffer


def _facts(buffer: bytes, at: int, start: int, end: int) -> BatchFacts:
    """Return the facts of the batch at `at` of a buffer that begins at byte `start` of its file.

    Raises:
        BadBatch: no batch can begin there, or the batch would end behind byte `end` of the file.
    """
    left = end - start - at
    if len(buffer) - at >= SCAN_FIELDS.size and buffer[at + MAGIC_AT] == 2:
        base_offset, length, _, _, last_offset_delta, max_timestamp_ms = SCAN_FIELDS.unpack_from(
            buffer, at
        )
        length += LOG_OVERHEAD_BYTES
        # Impossible lengths are reported below.
        if HEADER_BYTES <= length <= left and length <= MAX_BATCH_BYTES:
            last_offset = base_offset + last_offset_delta
            if last_offset < base_offset or base_offset < 0:
                raise BadBatch(start + at, f"its offsets are {base_offset} to {last_offset}")
            return start + at, length, base_offset, last_offset, max_timestamp_ms
    try:
        header = read_header(buffer, at)
    except MalformedFrame:
        raise BadBatch(start + at, "no header of a known format begins here") from None
    if header.length_bytes > left or header.length_bytes > MAX_BATCH_BYTES:
        raise BadBatch(start + at, f"{header.length_bytes} bytes are claimed where {left} are left")
    if header.base_offset < 0:
        raise BadBatch(start + at, f"its offset is {header.base_offset}")
    length = header.length_bytes
    return start + at, length, header.base_offset, header.last_offset, header.max_timestamp_ms


def _has_producer(buffer: bytes, at: int) -> bool:
    # The first bit of an id that is not negative is 0. Older messages have no producer.
    return buffer[at + MAGIC_AT] == 2 and buffer[at + PRODUCER_ID_AT] < 128


def _check(
    buffer: bytes, at: int, facts: BatchFacts, expected_offset: int | None, *, gaps: bool
) -> None:
    """Check the checksum and the base offset of a batch.

    Raises:
        BadBatch: one of them is wrong.
    """
    position, length, base_offset, _, _ = facts
    hidden = False
    if buffer[at + MAGIC_AT] == 2:
        _, _, _, crc, _, _ = SCAN_FIELDS.unpack_from(buffer, at)
        is_right = checksum.crc32c(buffer[at + CRC_START : at + length]) == crc
    else:
        header = read_header(buffer, at)
        crc, is_right = header.crc, check_crc(buffer, header, at)
        # A compressed message of magic 0 or 1 has the offset of its last record, so its first one
        # is not known here [record-batch/legacy-messages].
        hidden = header.compression != 0
    if not is_right:
        raise BadBatch(position, f"the checksum is not {crc:#010x}")
    if base_offset == expected_offset or expected_offset is None:
        return
    if base_offset < expected_offset or not (gaps or hidden):
        raise BadBatch(position, f"offset {base_offset} where {expected_offset} is expected")


def _check_epoch(
    buffer: bytes, at: int, facts: BatchFacts, epochs: LeaderEpochs
) -> tuple[bytes, int]:
    """Return the epoch of a batch, and the offset up to which later batches must have it."""
    position, _, base_offset, _, _ = facts
    if buffer[at + MAGIC_AT] < 2:
        # Older messages have no epoch.
        return b"", 0
    raw = buffer[at + LEADER_EPOCH_AT : at + MAGIC_AT]
    epoch = int.from_bytes(raw, "big", signed=True)
    until = epochs.until(epoch, base_offset)
    if until is None:
        raise BadBatch(
            position,
            f"leader epoch {epoch} at offset {base_offset}, where {FILE_NAME} has another",
        )
    return raw, until
