"""Producers and transactions of a topic: what a restart must find, and stale copies of their files.

The model is made from the batches that were sent, and knows nothing of snapshots. A restart must
find the same state from any of these [recovery/producer-snapshots]:

- snapshots that are missing, torn, changed, or ahead of the log, as in a copy of a live directory;
- a transaction index of the last segment that is missing, torn, or older than the segment.

Limits: Kafka's format has no checksum for a transaction index, and nothing says that a segment has
one. If the index of an older segment is lost or damaged, records of aborted transactions may be
returned, or the damage is reported ("not protected").
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from coterie.protocol.control_records import encode_marker
from coterie.protocol.records import Record, encode_records
from coterie.storage.log import Log
from coterie.storage.segment_files import log_base_offsets
from tests.crash.disk import FIRST_BOOT, Disk, Operation
from tests.crash.losses import Crash
from tests.record_batches import committed

STALE = "stale producers"
LATER = "later snapshots"
PRODUCER_FILES = (".snapshot", ".txnindex")
# What a test sees as the value of a marker: its coordinator has epoch 0.
MARKER = bytes(6)


class Sent(NamedTuple):
    """A batch of one record, or a marker.

    Attributes:
        producer_id, epoch: of the producer.
        sequence: of the record; -1 for a marker.
        transactional: whether it belongs to a transaction.
        commits: what a marker decides; None for a record.
        value: of the record.
    """

    producer_id: int
    epoch: int = 0
    sequence: int = -1
    transactional: bool = False
    commits: bool | None = None
    value: bytes = MARKER

    def batch(self, offset: int, now_ms: int) -> bytes:
        """Return the bytes to append."""
        if self.commits is not None:
            return encode_marker(offset, now_ms, self.producer_id, self.epoch, commit=self.commits)
        return encode_records(
            [Record(offset, now_ms, b"k", self.value)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=self.transactional,
        )


# By producer: epoch, last sequence, last offset, first offset of the open transaction.
State = dict[int, tuple[int, int, int, int]]


class FoundProducers(NamedTuple):
    """What a restart finds: the producers, and the offsets that READ_COMMITTED returns."""

    state: State
    committed: list[int]


def find_producers(log: Log) -> FoundProducers:
    """Return the producers of a log, and what a client at READ_COMMITTED gets."""
    state = {
        each.producer_id: (
            each.epoch, each.last_sequence, each.last_offset, each.current_txn_first_offset,
        )
        for each in log.producers
    }  # fmt: skip
    visible = [
        offset for offset in committed(log, log.log_start_offset) if offset >= log.log_start_offset
    ]
    return FoundProducers(state, visible)


def expected_producers(sent: Sequence[Sent], start: int, end: int) -> FoundProducers:
    """Return what a restart must find of a log with these batches, from `start` to `end`."""
    state: State = {}
    dropped: set[int] = set()
    opened: dict[int, list[int]] = {}
    for offset, each in enumerate(sent[:end]):
        if each.producer_id < 0:
            continue
        epoch, sequence, last_offset, first = state.get(each.producer_id, (0, -1, -1, -1))
        if epoch != each.epoch:
            # The new epoch has no batch yet.
            sequence = last_offset = -1
        if each.commits is None:
            if each.transactional:
                opened.setdefault(each.producer_id, []).append(offset)
                first = offset if first < 0 else first
            state[each.producer_id] = (each.epoch, each.sequence, offset, first)
        else:
            records = opened.pop(each.producer_id, [])
            if not each.commits:
                dropped.update(records)
            state[each.producer_id] = (each.epoch, sequence, last_offset, -1)
    stable = max(min((records[0] for records in opened.values()), default=end), start)
    visible = [
        offset
        for offset in range(start, stable)
        if offset not in dropped and sent[offset].commits is None
    ]
    return FoundProducers(state, visible)


def difference(
    found: FoundProducers, sent: Sequence[Sent], start: int, end: int, *, promised: bool
) -> str:
    """Return how a restart differs from what it must find; an empty string if it does not.

    Args:
        found: what it found.
        sent: the batches of the topic.
        start, end: of the log that was found.
        promised: whether producers must be known whose batches have all been deleted.
    """
    expected = expected_producers(sent, start, end)
    forgotten = expected.state.keys() - found.state.keys()
    if not promised:
        forgotten = {each for each in forgotten if expected.state[each][2] >= start}
    wrong = {
        producer_id: (state, expected.state.get(producer_id))
        for producer_id, state in found.state.items()
        if state != expected.state.get(producer_id)
    }
    if forgotten or wrong:
        return f"producers forgotten: {forgotten}, wrong: {wrong}"
    if found.committed != expected.committed:
        return f"READ_COMMITTED gives {found.committed} and not {expected.committed}"
    return ""


def stale(base: Disk, operations: list[Operation], first: int, last: int) -> Iterator[Crash]:
    """Yield the disk after each prefix of `first` to `last`, with other files of producers."""
    versions: dict[str, list[bytes]] = {}
    for number, disk in _prefixes(base, operations):
        for path, data in _files(disk):
            if path.endswith(".txnindex") and data not in versions.setdefault(path, []):
                versions[path].append(data)
        if first <= number <= last:
            yield from _stale(disk.copy(), number, versions)


def later(base: Disk, operations: list[Operation], first: int, last: int) -> Iterator[Crash]:
    """Yield the disk after each prefix of `first` to `last`, with snapshots of later moments."""
    snapshots: dict[str, bytes] = {}
    for _, disk in _prefixes(base, operations):
        snapshots.update(each for each in _files(disk) if each[0].endswith(".snapshot"))
    for number, disk in _prefixes(base, operations):
        if not first <= number <= last:
            continue
        names = disk.paths()
        directories = {path.rpartition("/")[0] for path in names}
        for path, data in snapshots.items():
            if path not in names and path.rpartition("/")[0] in directories:
                yield _with(disk, number, f"{path} of a later moment", path, data, LATER)


def _prefixes(base: Disk, operations: list[Operation]) -> Iterator[tuple[int, Disk]]:
    disk = base.copy()
    yield 0, disk
    for number, operation in enumerate(operations, 1):
        disk.apply(operation)
        yield number, disk


def _stale(disk: Disk, number: int, versions: dict[str, list[bytes]]) -> Iterator[Crash]:
    files = list(_files(disk))
    for path, data in files:
        yield _with(disk, number, f"{path} missing", path, None)
        for size in range(len(data)):
            yield _with(disk, number, f"{path} torn at {size}", path, data[:size])
        yield _with(disk, number, f"{path} zeroed", path, bytes(len(data)))
        if path.endswith(".snapshot"):
            for at, byte in enumerate(data):
                flipped = data[:at] + bytes([byte ^ 1 << at % 8]) + data[at + 1 :]
                yield _with(disk, number, f"{path} flipped at {at}", path, flipped)
        for age, old in enumerate(versions.get(path, ())):
            if old != data:
                yield _with(disk, number, f"{path} version {age}", path, old)
    without = disk.copy()
    for path, _ in files:
        if path.endswith(".snapshot"):
            without.put(path, None)
    yield Crash(STALE, number, "no snapshots", without, FIRST_BOOT)


def is_unprotected(crash: Crash) -> bool:
    """Return whether the transaction index of an older segment is stale."""
    path = crash.detail.partition(" ")[0]
    directory, _, name = path.rpartition("/")
    if not name.endswith(".txnindex"):
        return False
    bases = log_base_offsets(
        [each.rpartition("/")[2] for each in crash.disk.paths() if each.startswith(directory)]
    )
    return int(name.partition(".")[0]) != max(bases, default=-1)


def _files(disk: Disk) -> list[tuple[str, bytes]]:
    return [
        (path, disk.files[inode])
        for path, inode in sorted(disk.paths().items())
        if path.endswith(PRODUCER_FILES)
    ]


def _with(
    disk: Disk, number: int, detail: str, path: str, data: bytes | None, kind: str = STALE
) -> Crash:
    changed = disk.copy()
    changed.put(path, data)
    return Crash(kind, number, detail, changed, FIRST_BOOT)
