"""The newest value of each key of a log, in bulk: the reader of a load.

Most records of a group log are replaced by later ones, so only the two slices that a dictionary
needs are made of them. Batches that have a known layout go into the dictionary directly
(`layouts.py`). All others are read as usual and yielded to the caller, in the order of the log.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from coterie.protocol.layouts import (
    LOOKUP,
    LOOKUP_TAIL_BYTES,
    PAIRS_FRONT,
    TYPE_BYTES,
    Layout,
    Layouts,
    Lookup,
)
from coterie.protocol.record_batch import BatchHeader, read_header
from coterie.protocol.record_batch_layout import PRODUCER_ID_AT
from coterie.protocol.record_reader import decode_pairs

Pair = tuple[bytes | None, bytes | None]


class ReadPairs(Protocol):
    """Takes keys and values in the order of the log: a dictionary, or what keeps more."""

    def __setitem__(self, key: bytes, value: bytes, /) -> None:
        """Take one."""

    def update(self, pairs: Iterable[tuple[bytes, bytes]], /) -> None:
        """Take several."""


class PairLayouts(Layouts):
    """The layouts that a load has met: reads keys and values of plain batches.

    Attributes:
        records: how many records were read.
    """

    front = PAIRS_FRONT
    value_character = "s"

    def __init__(self, key_types: frozenset[bytes]) -> None:
        """Nothing is known yet.

        Args:
            key_types: the first two bytes of the keys that `take_newest` stores itself.
        """
        super().__init__()
        self.records = 0
        # Each type, and the one that comes next in the order of bytes.
        self._key_types = {
            each: (int.from_bytes(each) + 1).to_bytes(TYPE_BYTES) for each in key_types
        }
        # The fastest way to read a batch of one record, by lookup: the function that reads key,
        # value length, value and number of headers; the expected value length; the key's type; the
        # length of the batch.
        self._single: dict[
            Lookup | None, tuple[Callable[[bytes, int], tuple[Any, ...]], bytes, bytes, int]
        ] = {}

    def learned(self, lookup: Lookup, layout: Layout, pattern: str) -> None:
        """See `Layouts`."""
        front, *others = layout.fronts
        assert isinstance(front, bytes), "the first front is what precedes the first key"
        is_single = len(others) == 1
        if not is_single or layout.key_type not in self._key_types:
            return
        if len(front) <= LOOKUP_TAIL_BYTES:
            # A lookup compares everything before the key, so only the rest is read.
            key_at = PRODUCER_ID_AT + len(front)
            read = struct.Struct(f">{key_at}x" + pattern.removeprefix(f"{len(front)}s")).unpack_from
            (value_length,) = layout.value_lengths
            self._single.setdefault(
                lookup, (read, value_length, layout.key_type, layout.batch_bytes)
            )

    def take_newest(
        self, buffer: bytes, newest: ReadPairs
    ) -> Iterator[tuple[BatchHeader | None, list[Pair]]]:
        """Put the values of whole batches into `newest`; yield what needs a closer look.

        The caller has to deal with what is yielded before it asks for more. Batches with attributes
        (transactional, control, compressed) and those of magic 0 and 1 are yielded with their
        header, plain batches without a known layout without one. Checksums are not compared.

        Args:
            buffer: whole batches.
            newest: receives keys and values.

        Raises:
            MalformedFrame: a batch is impossible or incomplete.
        """
        view, at, end = memoryview(buffer), 0, len(buffer)
        single_of, lookup_at = self._single.get, LOOKUP.unpack_from
        last_lookup = end - LOOKUP.size
        lookup: Lookup | None = None
        while at < end:
            before, lookup = lookup, lookup_at(buffer, at) if at <= last_lookup else None
            is_repeated = lookup == before
            if not is_repeated and (single := single_of(lookup)) is not None:
                read, expected_value_length, key_type, size = single
                if at + size <= end:
                    key, value_length, value, headers = read(buffer, at)
                    if (
                        value_length == expected_value_length
                        and not headers
                        and key.startswith(key_type)
                    ):
                        newest[key] = value
                        self.records += 1
                        at += size
                        continue
            taken = self._take(view, at, lookup, newest, is_repeated=is_repeated)
            if taken:
                at += taken
                continue
            header = read_header(buffer, at)
            pairs = decode_pairs(buffer, header, at)
            self.records += len(pairs)
            if header.magic == 2 and not header.attributes:
                self.learn(buffer, header, at)
                yield None, pairs
            else:
                yield header, pairs
            at += header.length_bytes

    def _take(
        self,
        view: memoryview,
        at: int,
        lookup: Lookup | None,
        newest: ReadPairs,
        *,
        is_repeated: bool,
    ) -> int:
        """Put the batches of one layout into `newest`; return the length of them all."""
        for layout in self.known.get(lookup, ()):
            if layout is None or layout.key_type not in self._key_types:
                continue
            size, records = layout.batch_bytes, len(layout.value_lengths)
            whole = (len(view) - at) // size
            if not whole:
                continue
            if is_repeated:
                found: Iterable[tuple[Any, ...]] = layout.unpack_run(view[at : at + whole * size])
            else:
                # A run is only likely after two batches of one layout, and to prepare for one takes
                # longer than to read a batch.
                found = (layout.unpack(view, at),)
            if records == 1:
                batches = _single_pairs(found, layout, newest)
            else:
                batches = _several_pairs(found, layout, newest, self._key_types[layout.key_type])
            if batches:
                self.records += batches * records
                return batches * size
        return 0


def _single_pairs(found: Iterable[tuple[Any, ...]], layout: Layout, newest: ReadPairs) -> int:
    """Put the records of one-record batches into `newest`; return how many have the layout."""
    _, _, _, expected_length, expected_attributes, _, fronts, value_lengths, key_type = layout
    (expected_front, _), (expected_value_length,) = fronts, value_lengths
    taken = 0
    for length, magic, attributes, front, key, value_length, value, headers in found:
        if (
            front != expected_front or length != expected_length or magic != 2 or headers
            or value_length != expected_value_length or attributes != expected_attributes
            or not key.startswith(key_type)
        ):  # fmt: skip
            break
        newest[key] = value
        taken += 1
    return taken


def _several_pairs(
    found: Iterable[tuple[Any, ...]],
    layout: Layout,
    newest: ReadPairs,
    next_key_type: bytes,
) -> int:
    """As `_single_pairs`, for batches of several records."""
    _, _, _, expected_length, expected_attributes, _, fronts, value_lengths, key_type = layout
    taken = 0
    for batch in found:
        length, magic, attributes = batch[:3]
        keys = batch[4::4]
        if (
            batch[3::4] != fronts or length != expected_length or magic != 2
            or batch[5::4] != value_lengths or attributes != expected_attributes
            # The fastest way to see that all keys are of the type.
            or min(keys) < key_type or max(keys) >= next_key_type
        ):  # fmt: skip
            break
        newest.update(zip(keys, batch[6::4], strict=True))
        taken += 1
    return taken
