"""Every window of compaction over every short history of two keys.

A history is a word: `a` and `b` commit a key, `A` and `B` write its tombstone, `r` begins a new
segment. It is written, then compacted from the start of one segment to the start of another with a
commit in between, and compacted again when tombstones may be removed. The disk records all of it,
so every crash in it can be tried; after each the log must add up to what the model says. A reader
that had read a part of the log before the cleaning must reach the same state by reading on.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from coterie.protocol.messages.log_records import (
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from coterie.protocol.records import decode_records, iterate_batches
from coterie.protocol.wire import ZERO_UUID
from coterie.storage.log import Log
from tests.crash.restart import Wrong
from tests.crash.scenario_run import Recording, ScenarioRun

OPERATIONS = "abABr"
LONGEST = 5
# Longer than tombstones are kept, so that the second cleaning removes what the first one marked.
_LATER_MS = 1000


class Window(NamedTuple):
    """The first dirty offset, and the offset at which the cleaning ends."""

    first: int
    end: int


def histories(longest: int = LONGEST) -> Iterator[str]:
    """Every word that has a segment to clean.

    Words that end in a roll are enough: what follows the last roll is never cleaned.
    """
    for length in range(2, longest + 1):
        for word in product(OPERATIONS, repeat=length - 1):
            history = "".join((*word, "r"))
            # Rolling an empty segment does nothing.
            if "rr" not in history and history[0] != "r":
                yield history


def windows(history: str) -> list[Window]:
    """From the start of every segment to the start of every later one."""
    bases = [0]
    offset = 0
    for operation in history:
        if operation == "r":
            bases.append(offset)
        else:
            offset += 1
    return [Window(first, end) for first in bases for end in bases if first < end]


def cleaned(history: str, window: Window, *, flush: bool) -> Recording:
    """The recording of one history's cleaning.

    Raises:
        Wrong: the cleaning hid a deletion from a reader of the log.
    """
    run = ScenarioRun(flush=flush)
    node = run.start()
    for number, operation in enumerate(history):
        if operation == "r":
            node.log_of_groups.roll()
        else:
            value = None if operation.isupper() else _value(number)
            node.put(_key(operation.lower()), value)
    run.begin_recording()
    before = list(records(node.log_of_groups))
    node.clean(lambda: node.put(_key("b"), _value(50)), first=window.first, end=window.end)
    _check_followers(before, node.log_of_groups)
    node.now_ms += _LATER_MS
    node.put(_key("c"), _value(60))
    node.log_of_groups.roll()
    node.clean()
    return Recording(history, flush, run.base, run.recorder.operations, run.history)


def records(log: Log) -> Iterator[tuple[int, bytes, bytes | None]]:
    """The offset, key and value of every record of a log."""
    for data in log.chunks():
        for position, header in iterate_batches(data):
            for record in decode_records(data, header, position):
                yield record.offset, bytes(record.key or b""), record.value


def _check_followers(before: list[tuple[int, bytes, bytes | None]], log: Log) -> None:
    """A reader that was part of the way through before the cleaning must miss no deletion."""
    after = list(records(log))
    whole = _sum(after)
    for read in range(len(before) + 1):
        seen = before[:read]
        position = seen[-1][0] if seen else -1
        if _sum([*seen, *(each for each in after if each[0] > position)]) != whole:
            raise Wrong(f"a reader at offset {position} misses a deletion")


def _sum(found: list[tuple[int, bytes, bytes | None]]) -> dict[bytes, bytes]:
    newest = {key: value for _, key, value in found}
    return {key: value for key, value in newest.items() if value is not None}


def _key(name: str) -> bytes:
    return encode_key(OffsetCommitKey(group=name, topic="t", partition=0))


def _value(offset: int) -> bytes:
    return encode_value(OffsetCommitValue.of(offset, -1, "", 1, -1, ZERO_UUID))
