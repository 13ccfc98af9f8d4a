"""The check of records that a producer sends, before they are stored [record-batch/record-check].

Every record of every produced batch passes through here, so the common case (short keys, values
below 8 KiB, no headers) is read in line. The records of one batch are examined in one pass and no
object is made for them.
"""

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.varints import read_varint

# Kafka reads a length or an offset delta as an int32 and the timestamp delta as an int64.
_INT_BYTES = 5


# The least and the greatest timestamp delta of the records of a batch, and whether one has no key.
# A plain tuple, because one is made for every produced batch.
CheckedRecords = tuple[int, int, bool]


def check_records(  # noqa: C901 - the common case is read in line
    body: bytes, position: int, end: int, count: int
) -> CheckedRecords:
    """Check the structure of the `count` records between `position` and `end`.

    Raises:
        MalformedFrame: there are not exactly `count` records, or one is not a record of magic 2.
    """
    # Twice the deltas: the last bit of a varint is the sign.
    least, greatest = 1 << 64, -(1 << 64)
    # All negative lengths of keys, and of values: -1 stands for null, and is encoded as 1.
    null_keys = null_values = 0
    try:
        for _ in range(count):
            start = position
            size = body[position]
            position += 1
            if size > 127:
                size += (body[position] << 7) - 128
                position += 1
                if size > 16383:
                    size, position = _raw_length(body, start)
            stop = position + (size >> 1)
            # Attributes, timestamp delta, offset delta.
            delta, at = body[position + 1], position + 2
            if delta > 127:
                delta, at = read_varint(body, position + 1)
                delta <<= 1
            elif delta & 1:
                delta = -1 - delta
            if body[at] < 128:
                at += 1
            elif body[at + 1] < 128:
                at += 2
            else:
                _, at = _raw_length(body, at)
            if delta > greatest:
                greatest = delta
            if delta < least:
                least = delta
            length = body[at]
            at += 1
            if length > 127:
                length, at = _raw_length(body, at - 1)
            if length & 1:
                null_keys |= length
            else:
                at += length >> 1
            length = body[at]
            at += 1
            if length > 127:
                length += (body[at] << 7) - 128
                at += 1
                if length > 16383:
                    length, at = _raw_length(body, at - 2)
            if length & 1:
                null_values |= length
            else:
                at += length >> 1
            # The number of headers.
            at = _skip_headers(body, at) if body[at] else at + 1
            if at != stop or stop > end or size & 1:
                raise MalformedFrame(f"a record of {size >> 1} bytes at byte {start} ends at {at}")
            position = stop
    except IndexError:
        raise MalformedFrame("a batch ends within a record") from None
    if position != end or null_keys > 1 or null_values > 1:
        raise MalformedFrame(f"lengths below -1, or {end - position} bytes after the last record")
    return least >> 1, greatest >> 1, null_keys > 0


def _skip_headers(body: bytes, at: int) -> int:
    """Return the position after the headers whose number is at `at`."""
    count, at = _raw_length(body, at)
    if count & 1:
        raise MalformedFrame(f"a negative number of headers before byte {at}")
    for _ in range(count >> 1):
        length, at = _raw_length(body, at)
        if length & 1:
            raise MalformedFrame(f"a header without a name before byte {at}")
        length, at = _raw_length(body, at + (length >> 1))
        if not length & 1:
            at += length >> 1
        elif length != 1:
            raise MalformedFrame(f"a header value with a length below -1 before byte {at}")
    return at


def _raw_length(body: bytes, at: int) -> tuple[int, int]:
    """Return a varint of an int32 without the decoding of its sign, and the position after it."""
    value, stop = read_varint(body, at)
    if stop - at > _INT_BYTES:
        raise MalformedFrame(f"a length at byte {at} has {stop - at} bytes")
    return (value << 1) ^ (value >> 63), stop
