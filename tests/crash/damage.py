"""Damage that no crash leaves: files cut anywhere, bits flipped, sectors zeroed and swapped.

The promise is P3: never a wrong answer. So a start on a damaged disk either names the damage, or
finds all there was. Only a log's last segment that became shorter, with no mark of a clean stop, is
what a crash may leave: it is cut off there, and the rest is as it was. What becomes of each damaged
disk is counted.

Limits: Kafka's small text files (`meta.properties`, `partition.metadata`, the checkpoints) have no
checksum, and a digit in one of them may become another. Then a topic may have another id or begin
at another offset; every record is right all the same. In a compacted log offsets may be missing, so
an older segment that was cut exactly between two batches is not noticed, nor a last batch with a
greater offset, which only lets the log end later. These are counted as "not protected", "cut
between batches" and "ends later". Two sectors are swapped only within one directory: to lose the
file of the boot and a log's sector at once looks like a loss of power.
"""

import re
from collections.abc import Iterator
from itertools import combinations

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.records import check_crc, iterate_batches
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.storage.last_stop import CLEAN_SHUTDOWN_FILE
from coterie.storage.segment_files import log_base_offsets
from tests.crash.disk import FIRST_BOOT, Disk, Operation
from tests.crash.history import History
from tests.crash.losses import Crash
from tests.crash.node import DATA
from tests.crash.restart import Found, Wrong, check

SECTOR_BYTES = 512
# Files of Kafka's without a checksum.
_TEXTS = ("meta.properties", "partition.metadata", "-offset-checkpoint")


def truncations(base: Disk, operations: list[Operation], first: int, last: int) -> Iterator[Crash]:
    """Every file cut at every byte, after each prefix of `first` to `last` operations."""
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
    """Every bit of every file, flipped alone."""
    for path, inode in sorted(disk.paths().items()):
        data = disk.files[inode]
        for bit in range(len(data) * 8):
            at = bit >> 3
            changed = data[:at] + bytes([data[at] ^ 1 << (bit & 7)]) + data[at + 1 :]
            yield _with("bit flipped", operations, f"{path} bit {bit}", disk, inode, changed)


def sectors(disk: Disk, operations: int) -> Iterator[Crash]:
    """Every sector of every file zeroed, and every two sectors of one directory swapped."""
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
        # What is behind a file's end in its last sector is zeros on the medium.
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


def judge(crash: Crash, found: Found, history: History) -> str:
    """What became of the damage, in one or a few words.

    Raises:
        Wrong: an answer that is wrong, or something missing that is no torn tail.
    """
    if found.detected:
        return "detected"
    try:
        check(found, history, crash.operations)
    except Wrong:
        if all(path.endswith(_TEXTS) for path in _damaged(crash)):
            check_records(found, history, crash.operations)
            return "not protected"
        if _ends_later(found, history, crash.operations):
            return "ends later"
        if crash.kind == "truncated" and _cut_between_batches(crash):
            return "cut between batches"
        if crash.kind != "truncated" or _stopped_cleanly(crash) or not _in_a_tail(crash):
            raise
        # Then it is an earlier state, and nothing but that.
        check_earlier(found, history, crash.operations)
        return "tail cut"
    return "equal"


def check_records(found: Found, history: History, operations: int) -> None:
    """The groups are what they were, and no topic has another record than it had.

    Raises:
        Wrong: they are not, or it has.
    """
    low, high = history.groups.bounds(operations)
    if found.groups not in history.groups.states[low : high + 1]:
        raise Wrong("a text file is damaged, and groups are not what they were")
    for state, values in found.topics.values():
        if not any(
            list(values) == ever[state.start : state.end] for ever in history.values.values()
        ):
            raise Wrong("a text file is damaged, and a topic has other records")


def _ends_later(found: Found, history: History, operations: int) -> bool:
    """Whether the groups are what they were, and only the log's end offset is a greater one."""
    low, high = history.groups.bounds(operations)
    end, pairs = found.groups
    return any(pairs == each[1] and end > each[0] for each in history.groups.states[low : high + 1])


def _cut_between_batches(crash: Crash) -> bool:
    """Whether what is left of a segment of the group log is whole batches."""
    (path,) = _damaged(crash)
    if not path.endswith(".log") or OFFSETS_TOPIC not in path:
        return False
    data = crash.disk.files[crash.disk.paths()[path]]
    try:
        return all(check_crc(data, header, at) for at, header in iterate_batches(data))
    except MalformedFrame:
        return False


def check_earlier(found: Found, history: History, operations: int) -> None:
    """The groups and topics are as they were at some time, all of the history allowed.

    Raises:
        Wrong: they never were so.
    """
    high = history.groups.bounds(operations)[1]
    if found.groups not in history.groups.states[: high + 1]:
        raise Wrong("the tail is cut, and what is left never was so")
    for state, values in found.topics.values():
        if list(values) != history.values[state.topic_id][state.start : state.end]:
            raise Wrong("the tail is cut, and a topic has values it never had")


def _stopped_cleanly(crash: Crash) -> bool:
    return f"{DATA}/{CLEAN_SHUTDOWN_FILE}" in crash.disk.paths()


def _in_a_tail(crash: Crash) -> bool:
    """Whether only the last segments of logs are damaged, as a crash could have torn them."""
    last: dict[str, str] = {}
    for path in crash.disk.paths():
        directory, _, name = path.rpartition("/")
        if log_base_offsets([name]):
            last[directory] = max(last.get(directory, ""), path)
    return all(path in last.values() for path in _damaged(crash))


def _damaged(crash: Crash) -> list[str]:
    return re.findall(r"/\S+", crash.detail)
