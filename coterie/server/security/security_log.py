"""The security log: what must outlive a restart of credentials, rules and tokens.

Each kind of record belongs to a store, which keeps in memory what the records say. A change is in
memory in the turn of its request; its response leaves when the change is as durable as `--flush`
promises [security/log]. All of it is read before the first connection is accepted, and damage ends
the start [security/log-damage].

Invariants: records are in the file in the order in which they took effect. At most one write waits
for a sync, because a later one would look like damage after a loss of power. After a failed
write or sync nothing more is written [log/fail-stop].
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.security_records import (
    SecurityRecord,
    decode_security_record,
    encode_security_record,
)
from coterie.server.environment import Environment
from coterie.server.logs.flusher import FlushMode
from coterie.server.workers import Workers, once
from coterie.storage.errors import (
    CorruptLog,
    LogFailed,
    StorageError,
    describe_error,
    remedy_for,
)
from coterie.storage.record_file import RecordFile

# A file is rewritten when so many bytes of it, and more than half, say what no longer holds. A
# start reads a mebibyte in some 50 ms.
GARBAGE_BYTES = 1 << 20
# How many records one step of a rewrite encodes: half a millisecond.
_ENCODED_AT_ONCE = 100

# Called with the error, or with None when the change is durable.
Callback = Callable[[Exception | None], None]


class SecurityStore(Protocol):
    """What the records of some types say.

    Attributes:
        record_types: the types.
    """

    record_types: tuple[type[SecurityRecord], ...]

    def replay(self, record: Any) -> None:
        """Apply a record of one of the types, at the start and when it is new."""

    def records(self) -> Iterator[SecurityRecord]:
        """Return the records that make the present state. They are not changed later."""


class SecurityLog:
    """The security log of one broker.

    Attributes:
        stores: what the records say.
    """

    def __init__(
        self, file: RecordFile, environment: Environment, disk: Workers, flush: FlushMode
    ) -> None:
        """Take the file; `load` reads it.

        Args:
            file: the file.
            environment: its loop, clock and log are used.
            disk: does what waits for the disk.
            flush: when changes are synced.
        """
        self.stores: list[SecurityStore] = []
        self._by_type: dict[type[SecurityRecord], SecurityStore] = {}
        self._file = file
        self._environment = environment
        self._log = environment.log
        self._disk = disk
        self._flush = flush
        # A sync or a rewrite is running; changes wait for its end.
        self._busy = False
        self._queued: list[bytes] = []
        # Callbacks of what is being synced, and of what is queued.
        self._syncing: deque[Callback] = deque()
        self._waiting: deque[Callback] = deque()
        # The file is looked at for garbage when it has grown to this size.
        self._look_bytes = GARBAGE_BYTES
        self._sync_is_due = False

    @property
    def idle(self) -> bool:
        """Whether everything is written, synced and reported."""
        return not self._busy and not self._queued

    def add_store(self, store: SecurityStore) -> None:
        """Keep the records of some types in a store. All stores are added before `load`."""
        for each in store.record_types:
            assert each not in self._by_type, "a record belongs to one store"
            self._by_type[each] = store
        self.stores.append(store)

    def load(self, values: Sequence[bytes]) -> None:
        """Apply all records of the file.

        Args:
            values: what `RecordFile.read` has returned.

        Raises:
            CorruptLog: one of them is unknown or damaged.
        """
        for number, value in enumerate(values):
            try:
                record = decode_security_record(value)
            except MalformedFrame as error:
                raise CorruptLog(self._file.path, 0, f"record {number}: {error}") from None
            store = self._by_type.get(type(record))
            if store is None:
                reason = f"record {number}: nothing keeps a {type(record).__name__}"
                raise CorruptLog(self._file.path, 0, reason)
            store.replay(record)
        if self._file.cut_bytes:
            self._log.warning(
                "incomplete end of the security log cut off",
                file=self._file.path,
                bytes=self._file.cut_bytes,
            )

    def append(self, records: Sequence[SecurityRecord], done: Callback) -> None:
        """Make a change: all of these records, or none.

        Args:
            records: at least one.
            done: called once, perhaps at once: with None when the change is as durable as `--flush`
                promises, with the error if it could not be written. An error of a write that
                waited leaves the change in memory until the next start.
        """
        values = [encode_security_record(each) for each in records]
        if self._busy and self._file.failure is None:
            self._queued += values
            self._waiting.append(done)
        elif not self._write(values, [done]):
            return
        for each in records:
            self._by_type[type(each)].replay(each)
        # Not before: a rewrite has what the stores say.
        self._rewrite_if_needed()

    def _write(self, values: list[bytes], callbacks: Sequence[Callback]) -> bool:
        """Write records and sync them if that is promised; return whether that has begun."""
        try:
            self._file.append(values, self._environment.now_ms())
        except LogFailed as error:
            self._report(error)
            _call_all(callbacks, error)
            return False
        if self._flush.commit:
            self._syncing += callbacks
            self._sync()
            return True
        if self._flush.interval_ms is not None and not self._sync_is_due:
            self._sync_is_due = True
            self._environment.loop.call_later(self._flush.interval_ms / 1000, self._sync_due)
        # The callbacks may append; the change is made before them.
        self._environment.loop.call_soon(_call_all, callbacks, None)
        return True

    # --- syncing ----------------------------------------------------------------------------------

    def _sync_due(self) -> None:
        self._sync_is_due = False
        if self._busy:
            self._sync_is_due = True
            self._environment.loop.call_later(0.1, self._sync_due)
        elif self._file.failure is None:
            self._sync()

    def _sync(self) -> None:
        assert not self._busy, "one sync runs at a time"
        self._busy = True
        self._disk.submit(once(self._file.sync), self._synced)

    def _synced(self, error: Exception | None) -> None:
        self._busy = False
        callbacks, self._syncing = self._syncing, deque()
        failure: Exception | None = None
        if error is not None:
            failure = self._file.fail(error) if isinstance(error, OSError) else error
            self._report(failure)
        _call_all(callbacks, failure)
        self._go_on()

    def _go_on(self) -> None:
        """Write what was queued, or see whether the file has too much garbage."""
        if self._busy:
            return
        if self._queued:
            values, self._queued = self._queued, []
            callbacks, self._waiting = self._waiting, deque()
            self._write(values, callbacks)
        else:
            self._rewrite_if_needed()

    def _report(self, failure: Exception) -> None:
        self._log.error(
            "security log failed",
            file=self._file.path,
            error=describe_error(failure),
            remedy=remedy_for(failure),
        )

    # --- rewriting --------------------------------------------------------------------------------

    def _rewrite_if_needed(self) -> None:
        """Begin to rewrite the file if more than half of it is garbage [security/log]."""
        file = self._file
        if self._busy or file.failure is not None or file.size_bytes < self._look_bytes:
            return
        self._busy = True
        records = [each for store in self.stores for each in store.records()]
        copy = file.copy()
        self._disk.submit(
            _write_copy(records, copy, file.size_bytes, self._environment.now_ms()),
            partial(self._rewritten, copy),
        )

    def _rewritten(self, copy: RecordFile, error: Exception | None) -> None:
        self._busy = False
        before = self._file.size_bytes
        try:
            if error is None and copy.file is not None:
                self._file.replace(copy)
                self._log.info("security log rewritten", before=before, now=copy.size_bytes)
            else:
                copy.discard()
        except (StorageError, OSError) as failure:
            error = failure
        if error is not None:
            self._log.warning("security log not rewritten", error=describe_error(error))
        self._look_bytes = max(2 * self._file.size_bytes, GARBAGE_BYTES)
        self._go_on()


def _write_copy(
    records: Sequence[SecurityRecord], copy: RecordFile, size_bytes: int, now_ms: int
) -> Iterator[None]:
    """Write the records into the copy if the file has enough garbage; a thread does this."""
    values = []
    for count, each in enumerate(records, 1):
        values.append(encode_security_record(each))
        if not count % _ENCODED_AT_ONCE:
            yield
    live_bytes = sum(map(len, values))
    if size_bytes - live_bytes >= max(live_bytes, GARBAGE_BYTES):
        yield from copy.write_copy(values, now_ms)


def _call_all(callbacks: Sequence[Callback], error: Exception | None) -> None:
    for each in callbacks:
        each(error)
