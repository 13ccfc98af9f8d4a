"""Damage that no crash leaves: truncated files, flipped bits, zeroed and swapped sectors.

Damage never leads to a wrong answer [recovery/damaged-files]. So a start on a damaged disk either
names the damage or finds everything. The one exception is a log's last segment that became shorter,
without a mark of a clean stop: a crash may leave that, so the log is cut there, and the rest is as
it was. The outcomes are counted.

Limits: an empty checkpoint is one of Kafka's, so a checkpoint that is truncated to nothing lets a
topic begin at another offset; its records are right all the same ("not protected"). In a compacted
log offsets may be missing, so two changes are not noticed: an older segment that was truncated
exactly between two batches, if the crash came before our file told of the segment ("cut between
batches"), and a greater offset of the very last batch of the log, which only lets the log end later
("ends later"). Two snapshots of producers that change places are not noticed: Kafka's checksum does
not include the offset. Sectors are swapped only within one directory.
"""

import re
from collections.abc import Iterator
from itertools import combinations

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.records import check_crc, iterate_batches
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.storage.last_stop import CLEAN_SHUTDOWN_FILE
from coterie.storage.segment_digests import SegmentDigests
from coterie.storage.segment_files import log_base_offsets
from tests.crash.disk import FIRST_BOOT, Disk, Operation, RecordingFileSystem
from tests.crash.history import History
from tests.crash.losses import Crash
from tests.crash.node import DATA
from tests.crash.producers import LATER, STALE, is_unprotected
from tests.crash.restart import Found, Wrong, check

SECTOR_BYTES = 512
# A file of Kafka that has no checksum, and one that Kafka makes, too.
_WITHOUT_CHECKSUM = (".txnindex",)
# Snapshots of producers have a checksum that does not include their offset.
_WITHOUT_NAME = (".txnindex", ".snapshot")
_EMPTIED = "-offset-checkpoint to 0"


def truncations(base: Disk, operations: list[Operation], first: int, last: int) -> Iterator[Crash]:
    """Yield every file truncated at every byte, after each prefix of `first` to `last`."""
    disk = base.copy()
    for operation in operations[:first]:
        disk.apply(operation)
    for number in range(first, last + 1):
        if number > first:
            disk.apply(operations[number - 1])
        for path, inode in sorted(disk.paths().items()):
            data = disk.files[inode]
            for size in range(len(data)):
                yield _with("truncated", number, f"{path} to {size}", disk, inode, data[:size])


def flips(disk: Disk, operations: int) -> Iterator[Crash]:
    """Yield every file with one flipped bit, for every bit."""
    for path, inode in sorted(disk.paths().items()):
        data = disk.files[inode]
        for bit in range(len(data) * 8):
            at = bit >> 3
            changed = data[:at] + bytes([data[at] ^ 1 << (bit & 7)]) + data[at + 1 :]
            yield _with("bit flipped", operations, f"{path} bit {bit}", disk, inode, changed)


def sectors(disk: Disk, operations: int) -> Iterator[Crash]:
    """Yield every sector of every file zeroed, and every two sectors of a directory swapped."""
    places = [
        (path, inode, start)
        for path, inode in sorted(disk.paths().items())
        for start in range(0, len(disk.files[inode]), SECTOR_BYTES)
    ]
    for path, inode, start in places:
        data = disk.files[inode]
        sector = data[start : start + SECTOR_BYTES]
        zeroed = data[:start] + bytes(len(sector)) + data[start + SECTOR_BYTES :]
        yield _with("sector zeroed", operations, f"{path} at {start}", disk, inode, zeroed)
    for (path, inode, start), (other_path, other_inode, other) in combinations(places, 2):
        if path.rpartition("/")[0] != other_path.rpartition("/")[0]:
            continue
        swapped = disk.copy()
        one = disk.files[inode][start : start + SECTOR_BYTES]
        two = disk.files[other_inode][other : other + SECTOR_BYTES]
        # The last sector of a file is filled with zeros on the disk.
        _put(swapped, inode, start, two)
        _put(swapped, other_inode, other, one)
        detail = f"{path} at {start} with {other_path} at {other}"
        yield Crash("sectors swapped", operations, detail, swapped, FIRST_BOOT)


def _put(disk: Disk, inode: int, start: int, sector: bytes) -> None:
    data = disk.files[inode]
    room = len(data[start : start + SECTOR_BYTES])
    stays = sector[:room].ljust(room, b"\0")
    disk.files[inode] = data[:start] + stays + data[start + SECTOR_BYTES :]


def _with(kind: str, number: int, detail: str, disk: Disk, inode: int, data: bytes) -> Crash:
    damaged = disk.copy()
    damaged.files[inode] = data
    return Crash(kind, number, detail, damaged, FIRST_BOOT)


def classify(crash: Crash, found: Found, history: History) -> str:
    """Return the outcome of a start on a damaged disk.

    Raises:
        Wrong: an answer is wrong, or something is missing that is not the end of a log.
    """
    if found.detected:
        if crash.kind in (STALE, LATER) and not is_unprotected(crash):
            raise Wrong(f"stale files of producers are a damage: {found.detected}")
        return "detected"
    try:
        # A damaged snapshot may be the only file that knows a producer.
        check(found, history, crash.operations, has_snapshots=False)
    except Wrong:
        if crash.kind in (STALE, LATER):
            if not is_unprotected(crash):
                raise
            return "not protected"
        is_emptied = crash.kind == "truncated" and crash.detail.endswith(_EMPTIED)
        without = _WITHOUT_NAME if crash.kind == "sectors swapped" else _WITHOUT_CHECKSUM
        if is_emptied or all(path.endswith(without) for path in _damaged(crash)):
            check_records(found, history, crash.operations)
            return "not protected"
        if _ends_later(found, history, crash.operations):
            return "ends later"
        if crash.kind == "truncated" and _cut_between_batches(crash):
            return "cut between batches"
        if crash.kind != "truncated" or _stopped_cleanly(crash) or not _in_a_tail(crash):
            raise
        # Then the answers must be those of an earlier moment.
        check_earlier(found, history, crash.operations)
        return "tail cut"
    return "equal"


def check_records(found: Found, history: History, operations: int) -> None:
    """Check that the groups have not changed, and that every topic has only its own records.

    Raises:
        Wrong: a group or a record has changed.
    """
    low, high = history.groups.bounds(operations)
    if found.groups not in history.groups.states[low : high + 1]:
        raise Wrong("a text file is damaged, and groups have changed")
    for state, values in found.topics.values():
        if not any(
            list(values) == ever[state.start : state.end] for ever in history.values.values()
        ):
            raise Wrong("a text file is damaged, and a topic has other records")


def _ends_later(found: Found, history: History, operations: int) -> bool:
    """Return whether only the end offset of the group log has changed, to a greater one."""
    low, high = history.groups.bounds(operations)
    end, pairs = found.groups
    return any(pairs == each[1] and end > each[0] for each in history.groups.states[low : high + 1])


def _cut_between_batches(crash: Crash) -> bool:
    """Return whether a truncated segment of the group log consists of whole batches.

    Segments of which our file tells do not count [recovery/segment-digests].
    """
    (path,) = _damaged(crash)
    if not path.endswith(".log") or OFFSETS_TOPIC not in path:
        return False
    directory, _, name = path.rpartition("/")
    digests = SegmentDigests(RecordingFileSystem(crash.disk, FIRST_BOOT), directory)
    digests.read()
    if any(map(digests.of, log_base_offsets([name]))):
        return False
    data = crash.disk.files[crash.disk.paths()[path]]
    try:
        return all(check_crc(data, header, at) for at, header in iterate_batches(data))
    except MalformedFrame:
        return False


def check_earlier(found: Found, history: History, operations: int) -> None:
    """Check that the groups and topics are in a state of any earlier moment.

    Raises:
        Wrong: they never were in that state.
    """
    _, high = history.groups.bounds(operations)
    if found.groups not in history.groups.states[: high + 1]:
        raise Wrong("the tail is cut, and the rest was never so")
    for state, values in found.topics.values():
        if list(values) != history.values[state.topic_id][state.start : state.end]:
            raise Wrong("the tail is cut, and a topic has values it never had")


def _stopped_cleanly(crash: Crash) -> bool:
    return f"{DATA}/{CLEAN_SHUTDOWN_FILE}" in crash.disk.paths()


def _in_a_tail(crash: Crash) -> bool:
    """Return whether only last segments of logs are damaged, where a crash may leave less."""
    last: dict[str, str] = {}
    for path in crash.disk.paths():
        directory, _, name = path.rpartition("/")
        if log_base_offsets([name]):
            last[directory] = max(last.get(directory, ""), path)
    return all(path in last.values() for path in _damaged(crash))


def _damaged(crash: Crash) -> list[str]:
    return re.findall(r"/\S+", crash.detail)
