"""How large an operation may be: all its records stand in one batch, and a batch has a limit (spec
section 14.2).

An operation that fits no batch is refused before it changes anything, so that nothing behind it
can have been built on it. Sweeps have no such need to be atomic and are cut into several.
"""

from collections.abc import Iterator, Sequence

from coterie.coordinator.effects import Effects, LogRecord
from coterie.protocol.messages.log_records import encode_key, encode_value

# The largest batch of the group log: Kafka's default max.message.bytes, so that a real broker can
# take the log over.
MAX_BATCH_BYTES = 1_048_588
# What a batch takes beside its records, and a record beside its key and value, at most.
BATCH_OVERHEAD_BYTES = 61
RECORD_OVERHEAD_BYTES = 24
# Key and value of an offset without its texts: types, versions, numbers, lengths, topic id.
_OFFSET_BYTES = 100
# The longest text of a key, whose length is an int16.
_KEY_TEXT_BYTES = 32_767
# UTF-8 takes three bytes at most for each of Java's characters.
_BYTES_PER_UNIT = 3


def sure_offsets(offset_metadata_max_size: int) -> int:
    """How many records of offsets fit into a batch whatever is in them.

    Nearly every commit has fewer, and need not be counted.

    Args:
        offset_metadata_max_size: offset.metadata.max.bytes, in characters as Java counts them.
    """
    metadata_bytes = _BYTES_PER_UNIT * offset_metadata_max_size
    most = 2 * _KEY_TEXT_BYTES + metadata_bytes + _OFFSET_BYTES + RECORD_OVERHEAD_BYTES
    return (MAX_BATCH_BYTES - BATCH_OVERHEAD_BYTES) // most


def fits_batch(records: Sequence[LogRecord]) -> bool:
    """Whether the records of one operation fit into one batch."""
    left = MAX_BATCH_BYTES - BATCH_OVERHEAD_BYTES
    for record in records:
        left -= record_bytes(record)
        if left < 0:
            return False
    return True


def in_parts(effects: Effects) -> Iterator[Effects]:
    """A sweep as operations of a batch each; the last one has all that is not a record.

    Args:
        effects: of the sweep; changed in place.
    """
    *first, effects.records = _in_batches(effects.records)
    for records in first:
        part = Effects()
        part.records = records
        yield part
    yield effects


def record_bytes(record: LogRecord) -> int:
    """What a record takes in a batch, at most."""
    key, value = record
    value_bytes = 0 if value is None else len(encode_value(value))
    return len(encode_key(key)) + value_bytes + RECORD_OVERHEAD_BYTES


def _in_batches(records: Sequence[LogRecord]) -> Iterator[list[LogRecord]]:
    """The records in as few parts as fit into a batch each, in order."""
    part: list[LogRecord] = []
    left = MAX_BATCH_BYTES - BATCH_OVERHEAD_BYTES
    for record in records:
        size = record_bytes(record)
        if size > left and part:
            yield part
            part = []
            left = MAX_BATCH_BYTES - BATCH_OVERHEAD_BYTES
        part.append(record)
        left -= size
    yield part
