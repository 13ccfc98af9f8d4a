"""The disks a crash can leave, computed from the operations before it.

**Process death**: all operations of a prefix took effect, and of the next one, if it is a write,
some of its first bytes.

**Power loss**: what a sync covered is certain, and so are names once their directory was synced. Of
the other operations of the prefix either up to three are lost and the rest kept, or up to three are
kept and the rest lost: reordering in both directions. Each such choice is repeated with its last
write torn: at every byte if nothing else is lost, otherwise at its first byte, in its middle and at
a sector boundary; or replaced by zeros of the same length, for a size that became durable before
the data. A rename takes effect for both of its names or for neither. What was unsynced when a sync
failed stays uncertain for ever, as with a kernel that marks such pages clean.

Limits: bytes of one write are lost from its end or all together, never single sectors in its
middle (writes here are mostly shorter than a sector). Of many unsynced operations the `RECENT`
newest are lost one by one, older ones file by file. A sync that returned is trusted: disks that lie
are not modelled. Names of one directory are lost in any order, though journalling file systems
preserve it, so the model is harsher than they are.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from tests.crash.disk import FIRST_BOOT, NEXT_BOOT, Disk, Operation

# Where a write is torn.
EVERY_BYTE, A_FEW, NOWHERE = "every byte", "a few", "nowhere"
# How many of the newest unsynced operations are lost one by one.
RECENT = 9
_SECTOR_BYTES = 512


class Crash(NamedTuple):
    """One disk a crash can leave.

    Attributes:
        kind: the kind of crash, for the figures.
        operations: how many operations were done before it.
        detail: which of the disks after so many operations; kind, operations and detail name it.
        disk: what is left.
        boot: the boot id of the next start.
    """

    kind: str
    operations: int
    detail: str
    disk: Disk
    boot: str


def deaths(
    base: Disk, operations: list[Operation], first: int, last: int, tears: str = EVERY_BYTE
) -> Iterator[Crash]:
    """The disks after process death, for prefixes of `first` to `last` operations inclusive.

    `tears` says where the next write is cut as well.
    """
    disk = base.copy()
    for operation in operations[:first]:
        disk.apply(operation)
    for number in range(first, last + 1):
        yield Crash("death", number, "whole", disk.copy(), FIRST_BOOT)
        if number == len(operations):
            return
        operation = operations[number]
        if operation.kind == "write":
            for size in _sizes(operation, tears):
                cut = disk.copy()
                cut.apply(operation._replace(data=operation.data[:size]))
                yield Crash("death, torn", number, f"{size} bytes", cut, FIRST_BOOT)
        disk.apply(operation)


class Medium:
    """What is certain to be on the medium, and what may be on it."""

    def __init__(self, base: Disk) -> None:
        self.certain = base.copy()
        self.pending: list[Operation] = []
        # Pending when a sync failed: no later sync covers these.
        self._doomed: list[Operation] = []

    def add(self, operation: Operation) -> None:
        """Apply the next operation."""
        kind, inode = operation.kind, operation.inode
        if kind in ("sync", "sync_directory"):
            for each in self.pending:
                if each.inode == inode:
                    self.certain.apply(each)
            self.pending = [each for each in self.pending if each.inode != inode]
        elif kind == "sync_failed":
            self._doomed += [each for each in self.pending if each.inode == inode]
            self.pending = [each for each in self.pending if each.inode != inode]
        else:
            # A rename between two directories would be one operation of the first; there are none.
            self.pending.append(operation)

    def units(self) -> list[tuple[Operation, ...]]:
        """What is lost or kept together: each recent operation, and the older ones of each file."""
        named = set().union(*(each.values() for each in self.certain.directories.values()))
        waiting = self._doomed + self.pending
        for operation in waiting:
            named.update(target for _, _, target in operation.names if target is not None)
        # The data of a file without a name makes no difference.
        waiting = [each for each in waiting if each.kind == "names" or each.inode in named]
        older: dict[int, list[Operation]] = {}
        for operation in waiting[:-RECENT]:
            older.setdefault(operation.inode, []).append(operation)
        return [*map(tuple, older.values()), *((each,) for each in waiting[-RECENT:])]


def power_losses(
    base: Disk,
    operations: list[Operation],
    first: int,
    last: int,
    most: int = 3,
    tears: str = EVERY_BYTE,
) -> Iterator[Crash]:
    """The disks after a loss of power, for prefixes of `first` to `last` operations.

    Args:
        base: the disk before the first operation, all of it durable.
        operations: what was done.
        first, last: the prefixes, both included.
        most: how many operations are lost, or kept, at once.
        tears: where the last write is torn if nothing else is lost; otherwise at a few places.
    """
    medium = Medium(base)
    for operation in operations[:first]:
        medium.add(operation)
    for number in range(first, last + 1):
        if number > first:
            medium.add(operations[number - 1])
        units = medium.units()
        if not units:
            yield Crash("power", number, "all synced", medium.certain.copy(), NEXT_BOOT)
            continue
        for lost in _choices(len(units), most):
            kept = [unit for index, unit in enumerate(units) if index not in lost]
            detail = f"lost {sorted(lost)} of {len(units)}"
            disk = medium.certain.copy()
            for unit in kept:
                for operation in unit:
                    disk.apply(operation)
            yield Crash("power", number, detail, disk, NEXT_BOOT)
            for what, torn in _tears(medium.certain, kept, A_FEW if lost else tears):
                yield Crash("power, torn", number, f"{detail}, {what}", torn, NEXT_BOOT)


def _choices(count: int, most: int) -> Iterator[frozenset[int]]:
    """The sets of lost units: up to `most` of `count`, or all but up to `most`."""
    everything = range(count)
    for size in range(min(most, count) + 1):
        for chosen in combinations(everything, size):
            yield frozenset(chosen)
    for size in range(min(most, count) + 1):
        if count - size > most:
            for chosen in combinations(everything, size):
                yield frozenset(everything) - frozenset(chosen)


def _sizes(write: Operation, tears: str) -> list[int]:
    """The lengths to which a write is cut."""
    length = len(write.data)
    if tears == EVERY_BYTE:
        return list(range(length))
    if tears == NOWHERE:
        return []
    border = _SECTOR_BYTES - write.position % _SECTOR_BYTES
    return sorted({0, 1, length // 2, border} & set(range(length)))


def _tears(
    certain: Disk, kept: list[tuple[Operation, ...]], tears: str
) -> Iterator[tuple[str, Disk]]:
    writes = [index for index, unit in enumerate(kept) if unit[-1].kind == "write"]
    if not writes:
        return
    at = writes[-1]
    last = kept[at][-1]
    pieces = [(f"torn at {size}", last.data[:size]) for size in _sizes(last, tears) if size]
    pieces.append(("zeros", bytes(len(last.data))))
    before = certain.copy()
    for unit in kept[:at]:
        for operation in unit:
            before.apply(operation)
    for operation in kept[at][:-1]:
        before.apply(operation)
    for what, data in pieces:
        disk = before.copy()
        disk.apply(last._replace(data=data))
        for unit in kept[at + 1 :]:
            for operation in unit:
                disk.apply(operation)
        yield what, disk
