"""The size of operations: all records of one go into one batch, and a batch has a limit.

An operation that does not fit is refused before it changes anything, so no operation behind it can
depend on it [coordinator/operation-size]. Sweeps need not be atomic and are split
[coordinator/operation-size].
"""

from collections.abc import Iterator, Mapping, Sequence

from coterie.coordinator.kernel.append import (
    BATCH_OVERHEAD_BYTES,
    MAX_BATCH_BYTES,
    RECORD_OVERHEAD_BYTES,
    Pair,
    Record,
)
from coterie.coordinator.kernel.operation import Operation
from coterie.protocol.messages.log_records import (
    GROUP_RECORDS,
    GroupMetadataValue,
    encode_key,
    encode_value,
)
from coterie.protocol.wire import Message

# The most bytes of key and value of a record that is alone in its batch.
_ALONE_BYTES = MAX_BATCH_BYTES - BATCH_OVERHEAD_BYTES - RECORD_OVERHEAD_BYTES
# The most bytes of an offset's key and value without their strings: types, versions, numbers,
# lengths, topic id.
_OFFSET_BYTES = 100
# The longest string of a key, whose length is an int16.
_MAX_KEY_STRING_BYTES = 32_767
# The most UTF-8 bytes of one UTF-16 code unit, and of one character of a Python string.
_MAX_BYTES_PER_UNIT = 3
_MAX_BYTES_PER_CHARACTER = 4
# More than the bytes of a generation without its members and group id: protocol type, protocol and
# leader are strings, and everything else takes less than 100 bytes.
_GENERATION_BYTES = 4 * _MAX_KEY_STRING_BYTES
# More than the bytes of a member without its strings and bytes: timeouts and lengths.
_MEMBER_BYTES = 40


def always_fitting_offsets(offset_metadata_max_size: int) -> int:
    """Return how many records of offsets fit into a batch whatever they contain.

    Nearly every commit has fewer records, so their sizes need not be added up.

    Args:
        offset_metadata_max_size: offset.metadata.max.bytes, in UTF-16 code units.
    """
    metadata_bytes = _MAX_BYTES_PER_UNIT * offset_metadata_max_size
    strings_bytes = 2 * _MAX_KEY_STRING_BYTES + metadata_bytes
    largest_bytes = strings_bytes + _OFFSET_BYTES + RECORD_OVERHEAD_BYTES
    return (MAX_BATCH_BYTES - BATCH_OVERHEAD_BYTES) // largest_bytes


def fits_batch(records: Sequence[Record]) -> bool:
    """Return whether the records of one operation fit into one batch."""
    return encoded_batch(records) is not None


def encoded_batch(
    records: Sequence[Record], encoded: Mapping[int, Pair] | None = None
) -> list[Pair] | None:
    """Return the records of one operation as bytes; None if they do not fit into one batch.

    Args:
        records: the records.
        encoded: those that are encoded already, by their places among the records.
    """
    left_bytes = MAX_BATCH_BYTES - BATCH_OVERHEAD_BYTES
    pairs: list[Pair] = []
    for place, (key, value) in enumerate(records):
        pair = None if encoded is None else encoded.get(place)
        if pair is None:
            pair = encode_key(key), None if value is None else encode_value(value)
        left_bytes -= len(pair[0]) + len(pair[1] or b"") + RECORD_OVERHEAD_BYTES
        if left_bytes < 0:
            return None
        pairs.append(pair)
    return pairs


def encoded_alone(key: Message, value: Message) -> Pair | None:
    """Return the only record of an operation as bytes; None if it does not fit into a batch."""
    pair = GROUP_RECORDS.encode_key(key), GROUP_RECORDS.encode_value(value)
    return pair if len(pair[0]) + len(pair[1]) <= _ALONE_BYTES else None


def generation_fits_batch(record: Record) -> bool:
    """Return whether the record of a group's generation fits into one batch.

    Nearly all are so much smaller that they need not be encoded to find out.
    """
    _, value = record
    assert type(value) is GroupMetadataValue, record
    bound_bytes = _MAX_KEY_STRING_BYTES + _GENERATION_BYTES
    for member in value.members:
        strings = (member.member_id, member.group_instance_id, member.client_id, member.client_host)
        units = sum(len(string) for string in strings if string is not None)
        bound_bytes += _MAX_BYTES_PER_CHARACTER * units + _MEMBER_BYTES
        bound_bytes += len(member.subscription) + len(member.assignment)
    return bound_bytes <= MAX_BATCH_BYTES or fits_batch([record])


def split_into_batches(operation: Operation) -> Iterator[Operation]:
    """Yield a sweep as operations of one batch each.

    Args:
        operation: the sweep; changed in place. It is yielded last, with the last records and with
            everything that is not a record. Without records nothing is yielded.
    """
    assert operation.form is None, "the records of a producer are one batch"
    assert operation.creates is None, "a group is created with all of its records"
    assert operation.response is None, "a request is answered after all of its records"
    if not operation.records:
        return
    *first, operation.records = _batches(operation.records)
    for records in first:
        yield Operation(operation.key, records)
    yield operation


def max_record_bytes(record: Record) -> int:
    """Return the most bytes that a record takes in a batch."""
    key, value = record
    value_bytes = 0 if value is None else len(encode_value(value))
    return len(encode_key(key)) + value_bytes + RECORD_OVERHEAD_BYTES


def _batches(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Yield the records, in order, in as few parts as fit into a batch each."""
    part: list[Record] = []
    left_bytes = MAX_BATCH_BYTES - BATCH_OVERHEAD_BYTES
    for record in records:
        size_bytes = max_record_bytes(record)
        if size_bytes > left_bytes and part:
            yield part
            part = []
            left_bytes = MAX_BATCH_BYTES - BATCH_OVERHEAD_BYTES
        part.append(record)
        left_bytes -= size_bytes
    assert part, "a batch has records"
    yield part
