"""What a ShareFetch finds in the partitions of its session [share-partitions/fetch].

The first look is at all partitions. While the fetch waits it watches them: for appends, for records
that become available again, for share partitions that are being loaded. Later looks are at those
that have changed. If there is enough, or nothing more is waited for, all partitions are looked at
once more, and records are acquired.

A look is made in steps, because a session may have thousands of partitions. Between two steps
anything may happen to a partition, so what acquires reads right before it.
"""

from collections.abc import Callable, Generator, Iterable
from typing import NamedTuple

from coterie.coordinator.share_partition.acquisition import (
    AcquiredRecords,
    Acquisition,
    acquire,
)
from coterie.coordinator.share_state.requests import ShareKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_fetch import ShareFetchRequest
from coterie.server.logs.partition import OPEN
from coterie.server.services import Services
from coterie.server.share.acknowledging import MayRead, find_partition
from coterie.server.share.limits import HANDLED_AT_ONCE, READ_AT_ONCE
from coterie.server.share.loaded import LoadedPartition
from coterie.server.share.reading import Extent, Found, read
from coterie.server.share.sessions import OPENING_EPOCH, SharedPartition, ShareSession
from coterie.storage.errors import StorageError


class Acquired(NamedTuple):
    """What a fetch has found in one partition.

    Attributes:
        error: why there is nothing.
        data: the batches in which the records are.
        records: the acquired records.
    """

    error: ErrorCode = ErrorCode.NONE
    data: bytes = b""
    records: tuple[AcquiredRecords, ...] = ()


NOTHING = Acquired()
# By partition; one that is still being loaded is not there.
Result = dict[SharedPartition, Acquired]


class _Watch:
    """One partition that a fetch watches."""

    __slots__ = ("_changed", "_finish", "_loaded", "_wanted")

    def __init__(
        self,
        wanted: SharedPartition,
        loaded: LoadedPartition,
        changed: Callable[[SharedPartition], None],
        finish: Callable[[], None],
    ) -> None:
        self._wanted = wanted
        self._loaded = loaded
        self._changed = changed
        self._finish = finish
        loaded.partition.watchers[self] = None
        loaded.watchers[self.changed] = None

    def records_appended(self, size_bytes: int, stable_bytes: int) -> None:  # noqa: ARG002 - any
        """Note a change."""
        self.changed()

    def changed(self) -> None:
        """Note a change."""
        self._changed(self._wanted)

    def finish(self) -> None:
        """End the wait: the partition is gone."""
        self.end()
        self._finish()

    def end(self) -> None:
        """Watch no longer."""
        self._loaded.partition.watchers.pop(self, None)
        self._loaded.watchers.pop(self.changed, None)


class Looking:
    """The looks of one fetch."""

    def __init__(
        self,
        broker: Services,
        request: ShareFetchRequest,
        session: ShareSession,
        may_read: MayRead,
        changed: Callable[[], None],
        finish: Callable[[], None],
    ) -> None:
        """Begin nothing yet.

        Args:
            broker: the broker.
            request: the fetch.
            session: its session, with all partitions that it fetches.
            may_read: whether the client may read a topic.
            changed: called when there is something to look at again.
            finish: called when the fetch must not wait any longer.
        """
        self._broker = broker
        self._request = request
        self._session = session
        self._may_read = may_read
        self._tell = changed
        self._finish = finish
        self._settings = broker.share.settings(session.key[0])
        self._partitions = session.in_turn(request.share_session_epoch)
        self._is_large = len(self._partitions) > HANDLED_AT_ONCE
        self._max_bytes = min(request.max_bytes, broker.most_fetched_bytes())
        self._enough_bytes = min(request.min_bytes, request.max_bytes)
        self._changed: dict[SharedPartition, None] = dict.fromkeys(self._partitions)
        self._is_over = False
        # Records that would have been read are lost: the answer leaves at once, as in Kafka.
        self._has_lost_records = False
        self._watches: dict[SharedPartition, _Watch] = {}
        # Of each partition that was looked at: why it cannot be fetched; or that it is loaded, that
        # records of it could be acquired, and how many bytes.
        self._errors: dict[SharedPartition, ErrorCode] = {}
        self._ready: set[SharedPartition] = set()
        self._able: dict[SharedPartition, LoadedPartition] = {}
        self._sizes: dict[SharedPartition, int] = {}
        # Partitions that could not be loaded; the next fetch tries it again.
        self._failed: dict[SharedPartition, ErrorCode] = {}

    @property
    def has_changes(self) -> bool:
        """Return whether there is something to look at again."""
        return bool(self._changed)

    def end(self) -> None:
        """Watch no longer; a look that goes on finds nothing."""
        self._is_over = True
        for watch in self._watches.values():
            watch.end()
        self._watches.clear()

    def _note(self, wanted: SharedPartition) -> None:
        self._changed[wanted] = None
        self._tell()

    # --- a look -----------------------------------------------------------------------------------

    def look(self, *, is_last: bool) -> Generator[None, None, Result | None]:
        """Acquire what there is, if that is enough or nothing more is waited for.

        Returns:
            What was found; None if the fetch waits.
        """
        changed, self._changed = self._changed, {}
        if not self._broker.features.serves_share_groups or self._broker.share.has_ended:
            # They were switched off while it waited, or the broker stops.
            return {}
        yield from self._examine_each(changed)
        reads = yield from self._measure(changed)
        if self._has_enough() or is_last or not self._watches:
            if len(reads) < len(self._able) or len(changed) < len(self._partitions):
                reads.clear()
                yield from self._examine_each(self._partitions)
            found: Result = {}
            yield from self._acquire(found, reads)
            return found
        return None

    def _has_enough(self) -> bool:
        """Return whether a fetch that may wait is answered now."""
        if self._has_lost_records:
            return True
        return bool(self._sizes) and sum(self._sizes.values()) >= self._enough_bytes

    def _examine_each(self, partitions: Iterable[SharedPartition]) -> Generator[None, None, None]:
        for count, wanted in enumerate(partitions, 1):
            if self._is_over:
                return
            self._examine(wanted)
            if self._is_large and not count % HANDLED_AT_ONCE:
                yield

    def _examine(self, wanted: SharedPartition) -> None:
        """Look whether a partition can be fetched, and watch it."""
        watch = self._watches.pop(wanted, None)
        if watch is not None:
            watch.end()
        self._errors.pop(wanted, None)
        self._ready.discard(wanted)
        self._able.pop(wanted, None)
        loaded = self._find(wanted)
        if isinstance(loaded, ErrorCode):
            self._errors[wanted] = loaded
            return
        self._watches[wanted] = _Watch(wanted, loaded, self._note, self._finish)
        share = loaded.share
        if share is None:
            return
        self._ready.add(wanted)
        if loaded.partition.state is not OPEN:
            self._errors[wanted] = ErrorCode.KAFKA_STORAGE_ERROR
            return
        log_start_offset = loaded.partition.log.log_start_offset
        if share.next_fetch_offset() < log_start_offset:
            share.move_log_start(log_start_offset)
            self._broker.share.locks_changed(loaded)
            self._has_lost_records = True
        elif share.can_acquire(self._settings.max_in_flight):
            self._able[wanted] = loaded

    def _find(self, wanted: SharedPartition) -> LoadedPartition | ErrorCode:
        if wanted in self._failed:
            return self._failed[wanted]
        partition = find_partition(self._broker, wanted, self._may_read)
        if isinstance(partition, ErrorCode):
            return partition
        loaded = self._broker.share.find(ShareKey(self._session.key[0], *wanted), partition)
        if loaded.error:
            self._failed[wanted] = loaded.error
            self._broker.share.drop(loaded)
            return loaded.error
        return loaded

    def _measure(
        self, changed: Iterable[SharedPartition]
    ) -> Generator[None, None, dict[SharedPartition, Found]]:
        """Find out how much could be acquired of what has changed, until that is enough.

        Returns:
            What was read of it; nothing in a large look, which others change meanwhile.
        """
        reads: dict[SharedPartition, Found] = {}
        for wanted in changed:
            self._sizes.pop(wanted, None)
        left_bytes = self._max_bytes
        for count, wanted in enumerate(changed, 1):
            if self._is_large and self._has_enough():
                break
            found = self._read(wanted, left_bytes)
            if found is not None:
                if not self._is_large:
                    reads[wanted] = found
                self._sizes[wanted] = len(found.data)
                left_bytes = max(0, left_bytes - len(found.data))
            if self._is_large and not count % READ_AT_ONCE:
                yield
        return reads

    def _read(self, wanted: SharedPartition, left_bytes: int) -> Found | None:
        """Read what could be acquired of a partition; one that cannot be read gets an error.

        Args:
            wanted: the partition.
            left_bytes: what the partitions read before have left of the most that is read. The
                first batch of all is read whatever its size is.
        """
        loaded = self._able.get(wanted)
        if loaded is None or loaded.share is None or loaded.partition.state is not OPEN:
            return None
        offset = loaded.share.next_fetch_offset()
        extent = Extent(
            loaded.share.last_wanted(offset, self._request.max_records),
            self._enough_bytes,
            min(self._max_bytes // len(self._able), left_bytes),
            left_bytes < self._max_bytes,
        )
        is_committed = self._settings.is_committed
        try:
            return read(loaded.partition, offset, extent, is_committed=is_committed)
        except (StorageError, OSError):
            self._errors[wanted] = ErrorCode.KAFKA_STORAGE_ERROR
            return None

    def _acquire(
        self, found: Result, reads: dict[SharedPartition, Found]
    ) -> Generator[None, None, None]:
        """Acquire records of all partitions, in turn.

        Args:
            found: receives the answer about each partition.
            reads: what was read in this step, if the look has one step only.
        """
        left = self._request.max_records
        left_bytes = self._max_bytes
        for count, wanted in enumerate(self._partitions, 1):
            if self._is_over:
                return
            records: list[AcquiredRecords] = []
            each = None
            if left > 0 and self._may_acquire(wanted):
                each = reads.pop(wanted, None) or self._read(wanted, left_bytes)
            if each is not None:
                left_bytes = max(0, left_bytes - len(each.data))
                records = self._acquire_of(wanted, each, left)
            if each is not None and records:
                left -= sum(part.last_offset - part.first_offset + 1 for part in records)
                data = each.records_of(records)
                found[wanted] = Acquired(ErrorCode.NONE, data, tuple(records))
                if self._request.share_session_epoch != OPENING_EPOCH:
                    self._session.found_records(wanted)
            elif wanted in self._errors:
                found[wanted] = Acquired(self._errors[wanted])
            elif wanted in self._ready:
                found[wanted] = NOTHING
            if self._is_large and not count % READ_AT_ONCE:
                yield

    def _may_acquire(self, wanted: SharedPartition) -> bool:
        """Return whether a partition that was examined is still there."""
        loaded = self._able.get(wanted)
        return loaded is not None and self._broker.share.known(loaded.key) is loaded

    def _acquire_of(
        self, wanted: SharedPartition, each: Found, max_records: int
    ) -> list[AcquiredRecords]:
        request, settings = self._request, self._settings
        loaded = self._able[wanted]
        assert loaded.share is not None, f"{loaded.key} is loaded"
        asked = Acquisition(
            self._session.key[1],
            max_records,
            request.batch_size,
            bool(request.share_acquire_mode),
            settings.max_in_flight,
            settings.delivery_limit,
            self._broker.environment.now_ms() + settings.lock_ms,
        )
        acquired = acquire(loaded.share, asked, each.offset, each.batches, each.aborted)
        self._broker.share.locks_changed(loaded)
        return acquired
