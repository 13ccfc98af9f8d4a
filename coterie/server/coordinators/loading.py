"""Loading of a coordinator's partitions, in slices between which the event loop serves clients.

A log is read completely and reduced to the records that count before anything is decoded
(`LogReader`). The smallest logs are loaded first, so most groups are served soon. A log
that cannot be read fails alone and delays no other. With `--flush commit` a partition is served
only when everything that was read is on the disk too [coordinator/load].

Invariant: a partition is loading here exactly while it is in the coordinator.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.machine import LogReader, Machine, OpenRecord
from coterie.protocol.errors import MalformedFrame
from coterie.server.coordinators.host import Host
from coterie.server.logs.log_opener import RETRY_MS
from coterie.server.logs.partition import Partition, PartitionState
from coterie.storage.errors import LogFailed, StorageError, is_shortage
from coterie.storage.log import Log

Replay = Callable[[bytes | None, bytes | None], None]
ReplayOpen = Callable[[OpenRecord], None]

# How much is read, checked and reduced in a slice: a thousand batches of one commit, about 3 ms.
SLICE_BYTES = 128 << 10
# How many records are decoded and replayed in a slice: about 3 ms.
SLICE_RECORDS = 400

# How often a long load logs its progress.
PROGRESS_INTERVAL_MS = 5_000


class LogReplay:
    """The replay of one log.

    Attributes:
        reader: what was read so far.
        bytes_read, size_bytes: how much was read, and how much there is.
    """

    __slots__ = (
        "_log", "_replay", "_replay_open", "_slices", "bytes_read", "reader", "size_bytes",
    )  # fmt: skip

    def __init__(
        self, log: Log, reader: LogReader, replay: Replay, replay_open: ReplayOpen
    ) -> None:
        """Prepare to read a log.

        Args:
            log: the log; nothing is appended to it until the replay has ended.
            reader: reduces the log to the records that count.
            replay: called with key and value of each remaining record, after all were read.
            replay_open: called then with each record of an open transaction.
        """
        self.reader = reader
        self.bytes_read = 0
        self.size_bytes = log.size_bytes
        self._log = log
        self._replay = replay
        self._replay_open = replay_open
        self._slices = self._work()

    def step(self) -> bool:
        """Do some milliseconds of work; return False if there was nothing left to do.

        Raises:
            CorruptLog: a batch is damaged.
            MalformedFrame: a record does not match its type, or its value has an unknown version.
        """
        return next(self._slices, self) is None

    def _work(self) -> Iterator[None]:
        for data in self._log.chunks(chunk_bytes=SLICE_BYTES):
            self.reader.add_batches(data)
            self.bytes_read += len(data)
            yield
        open_records = iter(list(self.reader.open_records()))
        survivors = self.reader.survivors()
        while batch := list(islice(survivors, SLICE_RECORDS)):
            for key, value in batch:
                self._replay(key, value)
            yield
        while still_open := list(islice(open_records, SLICE_RECORDS)):
            for record in still_open:
                self._replay_open(record)
            yield


class PartitionLoad:
    """The load of one partition."""

    __slots__ = ("began_ms", "partition", "replay")

    def __init__(self, partition: Partition, replay: LogReplay, now_ms: int) -> None:
        self.partition = partition
        self.replay = replay
        self.began_ms = now_ms


class Loading:
    """The partitions that are to be loaded, and the load in progress."""

    def __init__(
        self,
        host: Host,
        kind: str,
        machine: Machine,
        loaded: Callable[[int, Effects[Any]], None],
        failed: Callable[[int, Exception], None],
    ) -> None:
        """Start without partitions.

        Args:
            host: its loop, flusher, opener and log are used.
            kind: what the coordinator is about, for log lines.
            machine: what is loaded into.
            loaded: called with a partition that is served now, and the effects of that.
            failed: called with a partition that cannot be loaded, and the reason.
        """
        self._host = host
        self._kind = kind
        self._machine = machine
        self._loaded = loaded
        self._failed = failed
        # Partitions whose logs are not open yet, and those that are being opened.
        self._unopened: dict[int, Partition] = {}
        self._opening: dict[int, Partition] = {}
        # Partitions to be read, the smallest last.
        self._opened: dict[int, PartitionLoad] = {}
        # Partitions that were read and wait for a sync of their log.
        self._syncing: dict[int, PartitionLoad] = {}
        self._current: PartitionLoad | None = None
        self._scheduled = False
        self._finished: asyncio.Future[None] | None = None
        self._progress_logged_ms = 0
        self._begin_totals()

    def _begin_totals(self) -> None:
        self._began_ms = self._host.now_ms()
        self._partitions = 0
        self._records = 0
        self._bytes = 0

    @property
    def busy(self) -> bool:
        """Whether anything is left to read."""
        return bool(self._unopened or self._opening or self._opened)

    def is_loading(self, index: int) -> bool:
        """Return whether a partition is being loaded, or waits to be."""
        return any(
            index in table for table in (self._unopened, self._opening, self._opened, self._syncing)
        )

    def add(self, partition: Partition) -> None:
        """Add a partition whose load has begun; `schedule` or `finish` begins the work."""
        if not self.busy:
            self._begin_totals()
        self.forget(partition.index)
        self._unopened[partition.index] = partition

    def forget(self, index: int) -> None:
        """Stop loading a partition that was given up or whose log failed."""
        self._unopened.pop(index, None)
        self._opening.pop(index, None)
        self._syncing.pop(index, None)
        load = self._opened.pop(index, None)
        if load is not None and load is self._current:
            self._current = None
        assert not self.is_loading(index), "a partition is in one of the four tables"
        self._check_finished()

    async def finish(self) -> None:
        """Load everything that was added, and wait until it is read."""
        if self.busy:
            self._finished = self._host.loop.create_future()
            self.schedule()
            await self._finished

    def schedule(self) -> None:
        """Load in later turns of the event loop."""
        if self.busy and not self._scheduled:
            self._scheduled = True
            self._host.loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Do some milliseconds of work: have logs opened, or read one slice of a log."""
        self._scheduled = False
        if self._unopened:
            self._open_all()
        elif self._opened and not self._opening:
            self._read_slice()
            self.schedule()
        self._check_finished()

    def _check_finished(self) -> None:
        finished = self._finished
        if finished is not None and not self.busy:
            self._finished = None
            finished.set_result(None)

    def _open_all(self) -> None:
        """Have all logs opened, several at a time; `_log_opened` goes on with each."""
        opener = self._host.opener
        unopened, self._unopened = self._unopened, {}
        self._opening |= unopened
        for partition in unopened.values():
            opener.open([partition], partial(self._log_opened, partition))

    def _log_opened(self, partition: Partition) -> None:
        """Go on with a partition that is open or has failed."""
        index = partition.index
        if self._opening.get(index) is not partition:
            # It was given up meanwhile.
            return
        if partition.state is PartitionState.CLOSED:
            # It could not be opened for a reason that passes.
            self._host.loop.call_later(RETRY_MS / 1000, self._open_again, partition)
            return
        self._guard(partition, lambda: self._open(self._opening.pop(index)))
        if not self._opening:
            by_size = sorted(self._opened.values(), key=lambda each: -each.replay.size_bytes)
            self._opened = {each.partition.index: each for each in by_size}
        self.schedule()
        self._check_finished()

    def _open_again(self, partition: Partition) -> None:
        if self._opening.get(partition.index) is partition:
            self._unopened[partition.index] = self._opening.pop(partition.index)
            self.schedule()

    def _read_slice(self) -> None:
        index = next(reversed(self._opened))
        load = self._opened[index]
        if load is not self._current:
            self._current = load
            load.began_ms = self._progress_logged_ms = self._host.now_ms()
        self._guard(load.partition, lambda: self._advance(load))

    def _guard(self, partition: Partition, work: Callable[[], None]) -> None:
        """Do some work on a partition; an error fails only this partition."""
        index = partition.index
        try:
            work()
        except (MalformedFrame, StorageError, OSError) as error:
            if is_shortage(error):
                # Everything is read again, because nothing is replayed before all is read.
                self.forget(index)
                self._opening[index] = partition
                self._host.loop.call_later(RETRY_MS / 1000, self._open_again, partition)
                return
            line = f"{self._kind} partition not loaded"
            # The text describes the damage, not our stack.
            self._host.log.error(line, partition=index, error=str(error))  # noqa: TRY400
            self.forget(index)
            self._failed(index, error)

    def _open(self, partition: Partition) -> None:
        if partition.failure is not None:
            raise partition.failure
        index, log = partition.index, partition.log
        if log.failed:
            raise LogFailed(log.directory, OSError("an earlier write or sync of it failed"))
        # Continue the epoch of the last leader, which is in the log's batches.
        machine = self._machine
        machine.begin_load(index, log.leader_epoch)
        partition.lead(machine.epoch(index))
        if log.log_end_offset == log.log_start_offset:
            self._serve(index, 0)
            return

        def replay(key: bytes | None, value: bytes | None) -> None:
            machine.replay(index, key, value)

        replay_open = partial(machine.replay_open, index)
        self._opened[index] = PartitionLoad(
            partition, LogReplay(log, machine.reader(), replay, replay_open), self._host.now_ms()
        )

    def _advance(self, load: PartitionLoad) -> None:
        if load.replay.step():
            self._log_progress(load)
            return
        index, log = load.partition.index, load.partition.log
        self.forget(index)
        self._records += load.replay.reader.records
        self._bytes += load.replay.bytes_read
        flusher = self._host.flusher
        if flusher.commit and log.synced_offset < log.log_end_offset:
            # The process that wrote these records may have died before it synced them. Clients must
            # not see what a power loss could still take back.
            self._syncing[index] = load
            flusher.appended(log, lambda error: self._synced(load, error))
        else:
            self._finish(load)

    def _synced(self, load: PartitionLoad, error: Exception | None) -> None:
        index = load.partition.index
        # After an error the broker fails the log, and with it this partition.
        if error is None and self._syncing.get(index) is load:
            del self._syncing[index]
            self._finish(load)

    def _finish(self, load: PartitionLoad) -> None:
        index, reader = load.partition.index, load.replay.reader
        if reader.skipped:
            self._host.log.warning(
                "records of unknown types skipped",
                partition=index,
                records={str(kind): count for kind, count in sorted(reader.skipped.items())},
            )
        self._serve(index, reader.skipped.total())

    def _serve(self, index: int, skipped: int) -> None:
        assert not self.is_loading(index), "a partition is served after its load"
        self._partitions += 1
        now_ms = self._host.now_ms()
        self._loaded(index, self._machine.finish_load(index, now_ms, skipped))
        if not self.busy and self._records:
            self._host.log.info(
                "partitions loaded",
                partitions=self._partitions,
                records=self._records,
                mebibytes=round(self._bytes / (1 << 20), 1),
                seconds=(now_ms - self._began_ms) / 1000,
                **self._machine.totals(),
            )

    def _log_progress(self, load: PartitionLoad) -> None:
        now_ms = self._host.now_ms()
        if now_ms - self._progress_logged_ms < PROGRESS_INTERVAL_MS:
            return
        self._progress_logged_ms = now_ms
        replay = load.replay
        seconds = (now_ms - load.began_ms) / 1000
        share = replay.bytes_read / replay.size_bytes
        line = f"loading {self._kind} partition"
        self._host.log.info(
            line,
            partition=load.partition.index,
            percent=round(100 * share),
            records_per_s=round(replay.reader.records / seconds),
            seconds_left=round(seconds * (1 - share) / share, 1),
            partitions_left=len(self._opened),
        )
