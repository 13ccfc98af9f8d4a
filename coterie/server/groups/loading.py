"""Partitions of the groups being loaded, in slices between which everybody else has a turn.

The smallest logs come first, so that most groups are served soon; one that can't be read is told of
and left out, and holds nobody up. With `--flush commit` a partition is served when all that was
read is on the disk too.

Invariant: a partition is loading here exactly while its shard is LOADING.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from coterie.coordinator.effects import Effects
from coterie.coordinator.service import GroupCoordinator
from coterie.protocol.errors import MalformedFrame
from coterie.server.groups.log import LogReplay
from coterie.storage.errors import LogFailed, StorageError

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.logs.partition import Partition

# How often a long load is told of: often enough to see that it lives.
PROGRESS_INTERVAL_MS = 5_000


class PartitionLoad:
    """One load of one partition."""

    __slots__ = ("began_ms", "partition", "replay")

    def __init__(self, partition: "Partition", replay: LogReplay, now_ms: int) -> None:
        self.partition = partition
        self.replay = replay
        self.began_ms = now_ms


class GroupLoading:
    """What is to be loaded, and the load that is under way."""

    def __init__(
        self,
        broker: "Broker",
        coordinator: GroupCoordinator,
        loaded: Callable[[int, Effects], None],
        failed: Callable[[int, Exception], None],
    ) -> None:
        """Nothing is to be loaded yet.

        Args:
            broker: whose loop and log are used.
            coordinator: what is loaded into.
            loaded: told of a partition that is served from now on, and what follows from that.
            failed: told of a partition that can't be loaded, and why.
        """
        self._broker = broker
        self._coordinator = coordinator
        self._loaded = loaded
        self._failed = failed
        self._unopened: dict[int, Partition] = {}
        # The smallest last.
        self._opened: dict[int, PartitionLoad] = {}
        # Read to the end, but not known to be on the disk yet.
        self._syncing: dict[int, PartitionLoad] = {}
        self._current: PartitionLoad | None = None
        self._scheduled = False
        self._told_ms = 0
        self._begin_totals()

    def _begin_totals(self) -> None:
        self._began_ms = self._broker.now_ms()
        self._partitions = 0
        self._records = 0
        self._bytes = 0

    @property
    def busy(self) -> bool:
        """Whether anything is left to read."""
        return bool(self._unopened or self._opened)

    def is_loading(self, index: int) -> bool:
        """Whether a partition is being loaded, or waits for it."""
        return index in self._unopened or index in self._opened or index in self._syncing

    def add(self, partition: "Partition") -> None:
        """Load a partition whose shard has begun to load; `run` or `schedule` does it."""
        if not self.busy:
            self._begin_totals()
        self.forget(partition.index)
        self._unopened[partition.index] = partition

    def forget(self, index: int) -> None:
        """Stop loading a partition: it was given up, or its log has failed."""
        self._unopened.pop(index, None)
        self._syncing.pop(index, None)
        load = self._opened.pop(index, None)
        if load is not None and load is self._current:
            self._current = None

    def schedule(self) -> None:
        """Do the loading in turns of the event loop to come."""
        if self.busy and not self._scheduled:
            self._scheduled = True
            self._broker.loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        self.slice()
        self.schedule()

    def slice(self) -> None:
        """Do some milliseconds of what is to be done."""
        if self._unopened:
            index = next(iter(self._unopened))
            self._guarded(index, lambda: self._open(self._unopened.pop(index)))
            if not self._unopened:
                sizes = sorted(self._opened.values(), key=lambda each: -each.replay.size_bytes)
                self._opened = {each.partition.index: each for each in sizes}
        elif self._opened:
            index = next(reversed(self._opened))
            load = self._opened[index]
            if load is not self._current:
                self._current = load
                load.began_ms = self._told_ms = self._broker.now_ms()
            self._guarded(index, lambda: self._advance(load))

    def _guarded(self, index: int, work: Callable[[], None]) -> None:
        """Do some work on a partition; its failure is the partition's alone."""
        try:
            work()
        except (MalformedFrame, StorageError, OSError) as error:
            self._broker.log.error(  # noqa: TRY400 - damage is told by the text, not by our stack
                "group partition not loaded", partition=index, error=str(error)
            )
            self.forget(index)
            self._failed(index, error)

    def _open(self, partition: "Partition") -> None:
        index, log = partition.index, partition.log
        if log.failed:
            raise LogFailed(log.directory, OSError("a write or sync of it failed before"))
        # The epoch of whoever led it last holds; batches say which one they were written in.
        self._coordinator.begin_load(index, log.leader_epoch)
        log.leader_epoch = self._coordinator.shards[index].epoch
        if log.log_end_offset == log.log_start_offset:
            self._serve(index, 0)
            return
        coordinator = self._coordinator

        def replay(key: bytes | None, value: bytes | None) -> None:
            coordinator.replay(index, key, value)

        self._opened[index] = PartitionLoad(
            partition, LogReplay(log, replay), self._broker.now_ms()
        )

    def _advance(self, load: PartitionLoad) -> None:
        if load.replay.step():
            self._tell_progress(load)
            return
        index, log = load.partition.index, load.partition.log
        self.forget(index)
        self._records += load.replay.newest.records
        self._bytes += load.replay.bytes_read
        flusher = self._broker.flusher
        if flusher.commit and log.synced_offset < log.log_end_offset:
            # Whoever wrote this may have died before it was synced, and nobody is to be shown what
            # a loss of power could still take back.
            self._syncing[index] = load
            flusher.appended(log, lambda error: self._synced(load, error))
        else:
            self._finish(load)

    def _synced(self, load: PartitionLoad, error: Exception | None) -> None:
        index = load.partition.index
        # An error stops the partition by way of its log.
        if error is None and self._syncing.get(index) is load:
            del self._syncing[index]
            self._finish(load)

    def _finish(self, load: PartitionLoad) -> None:
        index, newest = load.partition.index, load.replay.newest
        if newest.skipped:
            self._broker.log.warning(
                "records of unknown types skipped",
                partition=index,
                records={str(kind): count for kind, count in sorted(newest.skipped.items())},
            )
        self._serve(index, newest.skipped.total())

    def _serve(self, index: int, skipped: int) -> None:
        self._partitions += 1
        now_ms = self._broker.now_ms()
        self._loaded(index, self._coordinator.finish_load(index, now_ms, skipped))
        if not self.busy and self._records:
            self._broker.log.info(
                "partitions loaded",
                partitions=self._partitions,
                records=self._records,
                mebibytes=round(self._bytes / (1 << 20), 1),
                groups=sum(1 for _ in self._coordinator.groups()),
                seconds=(now_ms - self._began_ms) / 1000,
            )

    def _tell_progress(self, load: PartitionLoad) -> None:
        now_ms = self._broker.now_ms()
        if now_ms - self._told_ms < PROGRESS_INTERVAL_MS:
            return
        self._told_ms = now_ms
        replay = load.replay
        seconds = (now_ms - load.began_ms) / 1000
        share = replay.bytes_read / replay.size_bytes
        self._broker.log.info(
            "loading group partition",
            partition=load.partition.index,
            percent=round(100 * share),
            records_per_s=round(replay.newest.records / seconds),
            seconds_left=round(seconds * (1 - share) / share, 1),
            partitions_left=len(self._opened),
        )
