"""The ledger of a run: who reads which partition, and what that costs.

A member *believes* in a partition from the moment it is assigned to it; it *reads* it while it
hands records to the application, so a paused or dead process does not read. Everything is counted
from the beginning of the window on, which is the first event of the script.

Invariants: the causes of the gaps add up to the time without a reader, which is integrated on its
own; a member reads only what it believes in.
"""

from collections.abc import Iterable

from coterie.assignors.model import TopicPartition
from coterie.lab.entries import Counters, Interval, PartitionEntry, Reader
from coterie.lab.gaps import BROKER, GIVEN_UP, START, UNDETECTED, WAITING, Gap, Spans
from coterie.lab.kernel import Violation, World
from coterie.lab.workload import Progress, Workload


class Ledger:
    """The ledger of a run.

    Attributes:
        count: the counters of the window.
        intervals: the readers and gaps of the window that have ended.
        delays: the times in which a leader of Connect waits.
        idle: the times in which a member has given up.
        window_us: the beginning of the window; None before it.
        calm_since_us: since when every partition has one reader and no member rejoins.
    """

    def __init__(self, world: World, workload: Workload) -> None:
        self.count = Counters()
        self.intervals: list[Interval] = []
        self.delays = Spans()
        self.idle = Spans()
        self.window_us: int | None = None
        self.calm_since_us: int | None = None
        self._world = world
        self._workload = workload
        self._partitions = {
            each: PartitionEntry(number) for number, each in enumerate(workload.partitions)
        }
        self._by_member: dict[str, set[TopicPartition]] = {}
        self._rejoining: set[str] = set()
        self._views: dict[str, int] = {}
        self._given_up: dict[str, int] = {}
        self._ideal: dict[str, int] = {}
        self._empty = len(workload.partitions)
        self._double = 0
        self._contested = 0
        self._at_us = 0

    # -- members -----------------------------------------------------------------------------------

    def take(self, member: str, partition: TopicPartition) -> None:
        """Note that a partition is assigned to a member."""
        entry = self._partitions[partition]
        if member in entry.believers:
            return
        self._integrate()
        entry.believers.add(member)
        self._contested += len(entry.believers) == 2
        self._by_member.setdefault(member, set()).add(partition)
        if entry.gap is not None and not entry.dark:
            entry.gap.add_mark(self._world.now_us, START)

    def start(self, member: str, partition: TopicPartition, offset: int) -> None:
        """Note that a member begins to hand over records, from an offset on."""
        entry = self._partitions[partition]
        if member in entry.readers:
            raise Violation("ledger", f"{member} starts to read {partition}, which it reads")
        self.take(member, partition)
        self._integrate()
        now_us = self._world.now_us
        for other in entry.readers:
            self._flush(entry, partition, other)
        if offset > entry.high:
            self.count.lost += offset - entry.high
        entry.readers[member] = Reader(Progress(offset, now_us))
        if entry.last_owner not in (None, member):
            self.count.moves += 1
        entry.last_owner = member
        self._note_backlog(partition, offset)
        self._more_readers(entry, member)
        self._world.note("reads", member, partition, offset)

    def position(self, member: str, partition: TopicPartition) -> int | None:
        """Return the offset up to which a member has read; None if it does not read."""
        reader = self._partitions[partition].readers.get(member)
        if reader is None:
            return None
        return self._position(reader, partition)

    def stop(self, member: str, partition: TopicPartition, mark: str = GIVEN_UP) -> None:
        """Note that a member reads a partition no more; by default it has given it up."""
        self._remove(member, partition, mark)
        self._world.note("stops", member, partition)

    def died(self, member: str) -> None:
        """Note that the process of a member has ended without giving anything up."""
        for partition in sorted(self._by_member.get(member, ())):
            self._remove(member, partition, UNDETECTED)
        self.end(member)
        self._world.note("dies", member)

    def end(self, member: str) -> None:
        """Forget a member whose process has ended."""
        for partition in sorted(self._by_member.pop(member, ())):
            self._remove(member, partition, GIVEN_UP)
        self._integrate()
        self._rejoining.discard(member)
        self._views.pop(member, None)
        self.regained(member)
        self._update_calm()

    def suspend(self, member: str) -> None:
        """Note that the process of a member is paused."""
        self._integrate()
        for partition in sorted(self._by_member.get(member, ())):
            entry = self._partitions[partition]
            reader = entry.readers.get(member)
            if reader is None or not reader.active:
                continue
            self._flush(entry, partition, member)
            offset = self._position(reader, partition)
            reader.active = False
            reader.progress = Progress(offset, self._world.now_us)
            self._fewer_readers(entry, member, reader.began_us, UNDETECTED)

    def resume(self, member: str) -> None:
        """Note that a paused process goes on."""
        self._integrate()
        for partition in sorted(self._by_member.get(member, ())):
            entry = self._partitions[partition]
            reader = entry.readers.get(member)
            if reader is None or reader.active:
                continue
            reader.active = True
            reader.began_us = self._world.now_us
            reader.progress = Progress(reader.progress.offset, self._world.now_us)
            if entry.last_owner != member:
                self.count.moves += 1
                entry.last_owner = member
            self._note_backlog(partition, reader.progress.offset)
            self._more_readers(entry, member)

    def rejoining(self, member: str, is_rejoining: bool) -> None:  # noqa: FBT001 - a state
        """Note whether a member is between two assignments."""
        if is_rejoining:
            self._rejoining.add(member)
        else:
            self._rejoining.discard(member)
        self._update_calm()

    def gave_up(self, member: str) -> None:
        """Note that a member stops trying."""
        self.count.give_ups += 1
        self._given_up.setdefault(member, self._world.now_us)
        self._world.note("gives up", member)

    def regained(self, member: str) -> None:
        """Note that a member tries again."""
        since_us = self._given_up.pop(member, None)
        if since_us is not None and not self._given_up:
            self.idle.add(since_us, self._world.now_us)

    # -- the group ---------------------------------------------------------------------------------

    def noticed(self, member: str | None) -> None:
        """Note that the group has noticed the loss of a member; None for new partitions."""
        for entry in self._partitions.values():
            gap = entry.gap
            if gap is not None and gap.last_owner == member and gap.mark == UNDETECTED:
                gap.add_mark(self._world.now_us, WAITING)

    def view(self, member: str, view: int) -> None:
        """Note which list of members, by its hash, a member acts on."""
        self._integrate()
        self._views[member] = view

    def generation(self, members: list[str]) -> None:
        """Note that the group works with these members from now on."""
        self.count.generations += 1
        self.count.fewest_moves += self._fewest_moves(members)
        self._world.note("generation", *members)

    def membership(self, members: list[str]) -> None:
        """Note the members, for a protocol without generations."""
        self.count.fewest_moves += self._fewest_moves(members)

    def committed(self, partition: TopicPartition, offset: int) -> None:
        """Note that an offset was stored."""
        entry = self._partitions[partition]
        if offset < entry.committed:
            self.count.rewinds += 1
        entry.committed = offset

    def _fewest_moves(self, members: list[str]) -> int:
        """Balance counts of partitions over the members; return how many had to move."""
        if not members:
            return 0
        before = {member: self._ideal.get(member, 0) for member in members}
        each, extra = divmod(len(self._partitions), len(members))
        order = sorted(members, key=lambda member: (-before[member], member))
        quota = {member: each + (index < extra) for index, member in enumerate(order)}
        placed = sum(self._ideal.values())
        kept = sum(min(before[member], quota[member]) for member in members)
        self._ideal = quota
        return placed - kept if placed else 0

    # -- topics and brokers ------------------------------------------------------------------------

    def grow(self, partitions: Iterable[TopicPartition]) -> None:
        """Add new partitions, which nobody reads yet."""
        self._integrate()
        for partition in partitions:
            entry = self._partitions[partition] = PartitionEntry(len(self._partitions))
            entry.gap = Gap(self._world.now_us, None, UNDETECTED)
            self._empty += 1
        self._update_calm()

    def darken(self, partitions: Iterable[TopicPartition], cause: str = BROKER) -> None:
        """Note that the readers of partitions get no records; by default for lack of a broker."""
        self._integrate()
        now_us = self._world.now_us
        for partition in partitions:
            entry = self._partitions[partition]
            if entry.dark:
                continue
            active = entry.active
            for member, reader in entry.readers.items():
                if reader.active:
                    self._flush(entry, partition, member)
                    reader.progress = Progress(self._position(reader, partition), now_us)
                    self._add_interval(entry.number, reader.began_us, member)
            if active:
                self._empty += 1
                self._double -= active - 1
            self._end_gap(entry, None)
            entry.dark = True
            entry.gap = Gap(now_us, entry.last_owner, cause)
        self._update_calm()

    def lighten(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the readers of partitions get records again."""
        self._integrate()
        now_us = self._world.now_us
        for partition in partitions:
            entry = self._partitions[partition]
            if not entry.dark:
                continue
            entry.dark = False
            active = entry.active
            self._end_gap(entry, None)
            entry.gap = None
            for reader in entry.readers.values():
                reader.progress = Progress(reader.progress.offset, now_us)
                reader.began_us = now_us
                self._note_backlog(partition, reader.progress.offset)
            if active:
                self._empty -= 1
                self._double += active - 1
            else:
                entry.gap = Gap(now_us, entry.last_owner, START if entry.believers else WAITING)
        self._update_calm()

    # -- the window --------------------------------------------------------------------------------

    def begin_window(self) -> None:
        """Count from now on."""
        self._integrate()
        for partition, entry in self._partitions.items():
            for member, reader in entry.readers.items():
                self._flush(entry, partition, member)
                reader.began_us = self._world.now_us
        self.count = Counters()
        self.intervals.clear()
        self.window_us = self._world.now_us

    def end_window(self) -> None:
        """Close all that is open, so that the counters are complete."""
        self._integrate()
        now_us = self._world.now_us
        for member, since_us in self._given_up.items():
            self.idle.add(since_us, now_us)
            self._world.note("gave up for good", member)
        for partition, entry in self._partitions.items():
            for member, reader in entry.readers.items():
                if reader.active and not entry.dark:
                    self._flush(entry, partition, member)
                    self._add_interval(entry.number, reader.began_us, member)
            if entry.gap is not None:
                last = self._partitions[partition].high
                self._note_backlog(partition, last)
                self._end_gap(entry, min(entry.believers, default=None))

    def undelivered(self) -> list[TopicPartition]:
        """Return the partitions whose reader has not reached what had arrived 10 s ago."""
        late_us = self._world.now_us - 10_000_000
        return [
            partition
            for partition, entry in self._partitions.items()
            if entry.active
            and self._reached(entry, partition) < self._workload.produced(partition, late_us)
        ]

    def readers(self) -> dict[str, set[TopicPartition]]:
        """Return what each running member reads."""
        found: dict[str, set[TopicPartition]] = {}
        for partition, entry in self._partitions.items():
            for member, reader in entry.readers.items():
                if reader.active:
                    found.setdefault(member, set()).add(partition)
        return found

    # -- readers and gaps --------------------------------------------------------------------------

    def _more_readers(self, entry: PartitionEntry, member: str) -> None:
        """Apply that one more member reads."""
        if entry.dark:
            return
        if entry.active == 1:
            self._empty -= 1
            self._end_gap(entry, member)
            entry.gap = None
        else:
            self._double += 1
        self._update_calm()

    def _fewer_readers(self, entry: PartitionEntry, member: str, began_us: int, mark: str) -> None:
        """Apply that one member less reads."""
        if entry.dark:
            return
        self._add_interval(entry.number, began_us, member)
        if entry.active:
            self._double -= 1
        else:
            self._empty += 1
            entry.gap = Gap(self._world.now_us, member, mark)
        self._update_calm()

    def _remove(self, member: str, partition: TopicPartition, mark: str) -> None:
        entry = self._partitions[partition]
        self._integrate()
        reader = entry.readers.get(member)
        if reader is not None and reader.active:
            self._flush(entry, partition, member)
        if member in entry.believers:
            self._contested -= len(entry.believers) == 2
            entry.believers.discard(member)
        self._by_member.get(member, set()).discard(partition)
        if reader is not None:
            del entry.readers[member]
            if reader.active:
                self._fewer_readers(entry, member, reader.began_us, mark)
        elif entry.gap is not None and entry.gap.mark == START and not entry.believers:
            entry.gap.add_mark(self._world.now_us, mark)

    def _end_gap(self, entry: PartitionEntry, next_owner: str | None) -> None:
        gap = entry.gap
        if gap is None or self.window_us is None:
            return
        for from_us, to_us, cause in gap.parts(
            self._world.now_us, next_owner, self.delays, self._idle_now()
        ):
            from_us = max(from_us, self.window_us)
            if from_us < to_us:
                self.count.causes[cause] += to_us - from_us
                self.intervals.append(Interval(entry.number, from_us, to_us, None, cause))

    def _idle_now(self) -> Spans:
        """Return the times in which a member has given up, the present one included."""
        if not self._given_up:
            return self.idle
        idle = Spans()
        idle.spans = list(self.idle.spans)
        idle.add(min(self._given_up.values()), self._world.now_us)
        return idle

    def _add_interval(self, number: int, from_us: int, owner: str) -> None:
        now_us = self._world.now_us
        if self.window_us is not None and from_us < now_us:
            self.intervals.append(Interval(number, max(from_us, self.window_us), now_us, owner, ""))

    def _position(self, reader: Reader, partition: TopicPartition) -> int:
        if not reader.active or self._partitions[partition].dark:
            return reader.progress.offset
        return reader.progress.position(self._workload, partition, self._world.now_us)

    def _reached(self, entry: PartitionEntry, partition: TopicPartition) -> int:
        return max(self._position(reader, partition) for reader in entry.readers.values())

    def _flush(self, entry: PartitionEntry, partition: TopicPartition, member: str) -> None:
        """Count what a reader has delivered since the last time."""
        reader = entry.readers[member]
        if not reader.active:
            return
        end = self._position(reader, partition)
        read = end - reader.flushed
        new = max(0, end - max(entry.high, reader.flushed))
        self.count.delivered += read
        self.count.duplicates += read - new
        entry.high = max(entry.high, end)
        reader.flushed = end

    def _note_backlog(self, partition: TopicPartition, offset: int) -> None:
        """Note how far behind a new reader is, and when it will have caught up."""
        workload, now_us = self._workload, self._world.now_us
        behind = workload.produced(partition, now_us) - offset
        self.count.peak_backlog = max(self.count.peak_backlog, behind)
        rate = workload.rate
        if behind > rate:
            seconds = (behind - rate) / (rate * (workload.catch_up - 1))
            self.count.drained_us = max(self.count.drained_us, now_us + int(seconds * 1_000_000))

    # -- integrals ---------------------------------------------------------------------------------

    def _integrate(self) -> None:
        """Add the time since the last change to the sums."""
        now_us = self._world.now_us
        passed_us = now_us - self._at_us
        if passed_us and self.window_us is not None:
            self.count.unowned_us += self._empty * passed_us
            self.count.partition_us += len(self._partitions) * passed_us
            self.count.double_us += self._double * passed_us
            if self._contested:
                self.count.contested_us += passed_us
            if self._contested or len(set(self._views.values())) > 1:
                self.count.split_us += passed_us
        self._at_us = now_us

    def _update_calm(self) -> None:
        if self._empty or self._double or self._rejoining:
            self.calm_since_us = None
        elif self.calm_since_us is None:
            self.calm_since_us = self._world.now_us
