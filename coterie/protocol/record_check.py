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
# The same of some of the records, behind the position after them.
_Part = tuple[int, int, int, bool]

# Twice any timestamp delta is less.
_NO_DELTA = 1 << 66
# Fewer records are not worth a comparison of their parts.
_LEAST_RUN = 8
# Attributes, timestamp delta, offset delta, the lengths of key and value, number of headers.
_LEAST_SIZE = 6


def check_records(body: bytes, position: int, end: int, count: int) -> CheckedRecords:
    """Check the structure of the `count` records between `position` and `end`.

    Raises:
        MalformedFrame: there are not exactly `count` records, or one is not a record of magic 2.
    """
    least_ms, greatest_ms, has_null_key = _NO_DELTA, -_NO_DELTA, False
    left = count
    while left:
        # The offset deltas of the records ascend, so these many have one of the same length.
        index = count - left
        number = min(left, 64 - index if index < 64 else 8192)
        found = None
        if number >= _LEAST_RUN:
            found = _check_run(body, position, end, number)
        if found is None:
            found = _check_each(body, position, end, number)
        position, least, greatest, is_null = found
        if least < least_ms:
            least_ms = least
        if greatest > greatest_ms:
            greatest_ms = greatest
        has_null_key = has_null_key or is_null
        left -= number
    if position != end:
        raise MalformedFrame(f"a batch has {end - position} bytes after its last record")
    return least_ms, greatest_ms, has_null_key


def _check_run(body: bytes, start: int, end: int, count: int) -> _Part | None:
    """Check records whose parts have equal lengths; return None if theirs differ.

    Many producers send records of one size. Then each byte of a length is equal in all records, and
    these bytes are compared at once, by slices with a step.
    """
    try:
        size, at = read_varint(body, start)
        step = at + size - start
        stop = start + step * count
        if size < _LEAST_SIZE or stop > end or body[start] != body[stop - step]:
            return None
        delta_at = at + 1
        offset_at = delta_at + 1
        key_at = offset_at + (1 if body[offset_at] < 128 else 2)
        length, value_at = read_varint(body, key_at)
        key_end = value_at
        value_at += max(length, 0)
        value_bytes, headers_at = read_varint(body, value_at)
        value_end = headers_at
        headers_at += max(value_bytes, 0)
    except IndexError:
        return None
    if length < -1 or value_bytes < -1 or headers_at + 1 != start + step or body[headers_at]:
        return None
    if max(at - start, key_end - key_at, value_end - value_at) > _INT_BYTES:
        return None
    columns = (
        *range(start, at), *range(key_at, key_end), *range(value_at, value_end), headers_at
    )  # fmt: skip
    for column in columns:
        if body[column:stop:step].count(body[column]) != count:
            return None
    for column in range(offset_at, key_at - 1):
        if min(body[column:stop:step]) < 128:
            return None
    deltas = set(body[delta_at:stop:step])
    if max(deltas) > 127 or max(body[key_at - 1 : stop : step]) > 127:
        return None
    values = [raw >> 1 ^ -(raw & 1) for raw in deltas]
    return stop, min(values), max(values), length < 0


def _check_each(  # noqa: C901 - the common case is read in line
    body: bytes, position: int, end: int, count: int
) -> _Part:
    """Check one record after the other."""
    # Twice the deltas: the last bit of a varint is the sign.
    least, greatest = _NO_DELTA, -_NO_DELTA
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
    if null_keys > 1 or null_values > 1:
        raise MalformedFrame("a key or value with a length below -1")
    return position, least >> 1, greatest >> 1, null_keys > 0


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
