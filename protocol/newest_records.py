"""The newest value of each key of a log, in bulk: what a load needs of its records, and no more.

Most records of a coordinator's log are replaced by later ones, so nothing is made of them but the
two slices that a dictionary takes. Records of one kind and length look alike up to their key:
`Shapes` remembers, by a record's first bytes, where its key and value stand. Whatever does not look
like that is read as any record is and handed out, in its place in the order.

Invariant: `take_newest` reads the same pairs as `iterate_pairs`, and refuses the same bytes.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.record_batch import HEADER_BYTES, BatchHeader, read_header
from coterie.protocol.record_reader import decode_pairs
from coterie.protocol.varints import read_varint

Pair = tuple[bytes | None, bytes | None]

# So many bytes of a record reach over its key's length and two bytes of the key where each number
# before them takes a byte, and the record's length one or two: nearly always.
_HEAD_BYTES = 8
_PREFIX_BYTES = 2
# A log has few shapes: lengths of group and topic names, and places in a batch. One that has more
# (a name of its own length for every group) is read more slowly.
_MAX_SHAPES = 16_384
# Length, magic, attributes, record count and the first record's head.
_BATCH = struct.Struct(f">8xi4xb4xh34xi{_HEAD_BYTES}s")
# Length, magic, attributes, record count, of a batch whose one record follows.
_SINGLE = ">8xi4xb4xh34xi"

# Reads key, the bytes of the value's length, value, header count; what that length has to be; how
# long the record is; and for batches of one such record what takes runs of them.
_Shape = tuple[Callable[[bytes, int], tuple[bytes, bytes, bytes, int]], bytes, int, "_Single"]


class _Single(NamedTuple):
    """Batches of one record of one shape.

    Attributes:
        unpack: length, magic, attributes, record count; what is in front of the key, the key, the
            bytes of the value's length, value, header count.
        front: what has to be in front of the key.
        prefix: what the key has to begin with.
        value_length: what the bytes of the value's length have to be.
        size: how long a batch is.
    """

    unpack: Callable[[memoryview], Iterator[tuple[Any, ...]]]
    front: bytes
    prefix: bytes
    value_length: bytes
    size: int


class Shapes:
    """Where keys and values stand, by the first bytes of a record; good for any log.

    Attributes:
        known: what was learnt.
        prefixes: only records whose keys begin with one of these two-byte prefixes are taken in
            bulk; all others are handed out.
        records: how many records `take_newest` has read with these.
    """

    __slots__ = ("known", "prefixes", "records")

    def __init__(self, prefixes: frozenset[bytes]) -> None:
        """No shape is known yet."""
        self.prefixes = prefixes
        self.known: dict[bytes, _Shape] = {}
        self.records = 0

    def learn(self, record: bytes, key_at: int, key: bytes, value_at: int) -> None:
        """Remember a record that was read in the slow way; it has a value and no headers.

        Args:
            record: all of its bytes, the length too.
            key_at: where its key begins.
            key: its key.
            value_at: where its value begins.
        """
        if (
            key_at > _HEAD_BYTES - _PREFIX_BYTES
            or key[:_PREFIX_BYTES] not in self.prefixes
            or len(self.known) >= _MAX_SHAPES
        ):
            return
        # As it stands: a length may take more bytes than it needs.
        value_length = record[key_at + len(key) : value_at]
        value_bytes = len(record) - 1 - value_at
        rest = f"{len(key)}s{len(value_length)}s{value_bytes}sB"
        shape = struct.Struct(f"{key_at}x{rest}")
        batch = struct.Struct(f"{_SINGLE}{key_at}s{rest}")
        single = _Single(
            batch.iter_unpack, record[:key_at], key[:_PREFIX_BYTES], value_length, batch.size
        )
        self.known[record[:_HEAD_BYTES]] = (shape.unpack_from, value_length, shape.size, single)


def take_newest(
    buffer: bytes, newest: dict[bytes, bytes], shapes: Shapes
) -> Iterator[tuple[BatchHeader | None, list[Pair]]]:
    """Put keys and values of whole batches into `newest`, and hand out what takes a closer look.

    What is handed out has to be dealt with before the next is asked for: tombstones, keys of other
    prefixes and the first record of each shape come alone, without a header; batches with
    attributes (transactional, control, compressed) and of older magics whole, with theirs.
    Checksums are not looked at.

    Args:
        buffer: whole batches.
        newest: gets the newest value of each key.
        shapes: what earlier calls have learnt.

    Raises:
        MalformedFrame: as `iterate_pairs`.
    """
    known = shapes.known.get
    unpack = _BATCH.unpack_from
    view, position, end = memoryview(buffer), 0, len(buffer)
    # The first bytes of the record before: where two look alike more do.
    head_before = b""
    while position < end:
        if position + _BATCH.size > end or buffer[position + 16] != 2:
            plain = False
        else:
            length, _, attributes, count, head = unpack(buffer, position)
            plain = attributes == 0 and length > _BATCH.size - 12
        if not plain:
            header = read_header(buffer, position)
            pairs = decode_pairs(buffer, header, position)
            shapes.records += len(pairs)
            yield header, pairs
            position += header.length_bytes
            continue
        if count == 1 and head == head_before and (shape := known(head)) is not None:
            taken = _take_run(view[position:], newest, shape[3])
            if taken:
                shapes.records += taken
                position += taken * shape[3].size
                continue
        head_before = head
        if count > 0:
            shapes.records += count
        at = position + HEADER_BYTES
        position += 12 + length
        if position > end:
            raise MalformedFrame(f"a batch of {length} bytes ends at byte {position} of {end}")
        try:
            while count > 0:
                shape = known(head)
                if shape is not None:
                    read, value_length, size, _ = shape
                    key, found, value, headers = read(buffer, at)
                    if found == value_length and not headers:
                        newest[key] = value
                        at += size
                        count -= 1
                        if count:
                            head = buffer[at : at + _HEAD_BYTES]
                        continue
                pair, at = _read_pair(buffer, at, position, shapes)
                yield None, [pair]
                count -= 1
                head = buffer[at : at + _HEAD_BYTES]
        except (IndexError, struct.error):
            raise MalformedFrame("a batch ends within a record") from None
        if at != position:
            raise MalformedFrame(f"a batch has {position - at} bytes after its last record")


def _take_run(view: memoryview, newest: dict[bytes, bytes], single: _Single) -> int:
    """Put the records of batches of one shape into `newest`: how many there are at the front."""
    unpack, wanted_front, prefix, wanted_length, size = single
    wanted_size, taken = size - 12, 0
    for length, magic, attributes, count, front, key, value_length, value, headers in unpack(
        view[: len(view) // size * size]
    ):
        if (
            front != wanted_front or length != wanted_size or value_length != wanted_length
            or attributes or headers or count != 1 or magic != 2 or not key.startswith(prefix)
        ):  # fmt: skip
            break
        newest[key] = value
        taken += 1
    return taken


def _read_pair(buffer: bytes, at: int, end: int, shapes: Shapes) -> tuple[Pair, int]:
    """Key and value of the record at `at`, and where the next one begins."""
    size, position = read_varint(buffer, at)
    stop = position + size
    if size < 0 or stop > end:
        raise MalformedFrame(f"a record of {size} bytes at byte {position} of {end}")
    _, position = read_varint(buffer, position + 1)
    _, position = read_varint(buffer, position)
    key, key_at, position = _read_bytes(buffer, position, stop)
    value, value_at, position = _read_bytes(buffer, position, stop)
    if position >= stop:
        raise MalformedFrame(f"a record ends at byte {position} and not at {stop}")
    if key is not None and value is not None and position + 1 == stop and not buffer[position]:
        shapes.learn(buffer[at:stop], key_at - at, key, value_at - at)
    return (key, value), stop


def _read_bytes(buffer: bytes, position: int, stop: int) -> tuple[bytes | None, int, int]:
    """The bytes whose length stands at `position`, where they begin and where they end."""
    size, position = read_varint(buffer, position)
    if size < -1 or position + size > stop:
        raise MalformedFrame(f"{size} bytes at byte {position} of a record that ends at {stop}")
    if size == -1:
        return None, position, position
    return buffer[position : position + size], position, position + size
