"""A ShareFetch from its acknowledgements to its response.

The acknowledgements are applied first; while they are being written, records are acquired. If there
are not enough, the fetch waits: for appends, for records that become available again, for share
partitions that are being loaded. What wakes it makes it look again at the end of the turn of the
event loop. The response leaves when both parts are there.
"""

from asyncio import TimerHandle
from typing import NamedTuple

from coterie.coordinator.share_partition.acquisition import (
    AcquiredRecords,
    Acquisition,
    acquire,
)
from coterie.coordinator.share_state.requests import ShareKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_fetch import AcquiredRecords as AcquiredPart
from coterie.protocol.messages.share_fetch import (
    ShareFetchPartitionResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopicResponse,
)
from coterie.server.logs.partition import OPEN, Watcher
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.services import Services
from coterie.server.share.acknowledging import (
    Leaders,
    MayRead,
    acknowledge_all,
    find_partition,
    partition_error,
    partitions_of,
)
from coterie.server.share.loaded import LoadedPartition
from coterie.server.share.reading import Found, read, records_of
from coterie.server.share.sessions import (
    FINAL_EPOCH,
    OPENING_EPOCH,
    SharedPartition,
    ShareSession,
)
from coterie.storage.errors import StorageError

# The ways to acquire: whole batches, or exactly so many records.
_ACQUIRE_MODES = (0, 1)


class _Acquired(NamedTuple):
    """What a fetch has found in one partition."""

    error: ErrorCode = ErrorCode.NONE
    data: bytes = b""
    records: tuple[AcquiredRecords, ...] = ()


_NOTHING = _Acquired()


def refused(error: ErrorCode) -> ShareFetchResponse:
    """Return the response to a request that is refused as a whole."""
    return ShareFetchResponse(error_code=error, responses=[], node_endpoints=[])


class ShareFetching:
    """A ShareFetch while it is handled."""

    def __init__(
        self,
        broker: Services,
        request: ShareFetchRequest,
        connection: Exchange,
        session: ShareSession,
        may_read: MayRead,
    ) -> None:
        """Begin nothing yet."""
        self._broker = broker
        self._request = request
        self._connection = connection
        self._session = session
        self._may_read = may_read
        self._settings = broker.share.settings(session.key[0])
        self._is_opening = request.share_session_epoch == OPENING_EPOCH
        self._acknowledged: dict[SharedPartition, tuple[ErrorCode, str | None]] = {}
        self._acknowledgements = 0
        # With acknowledgements each partition of the request is answered.
        self._listed: dict[SharedPartition, ErrorCode] = {}
        self._found: dict[SharedPartition, _Acquired] | None = None
        self._delayed: DelayedResponse | None = None
        self._timer: TimerHandle | None = None
        self._watched: list[dict[Watcher, None]] = []
        self._loaded: list[LoadedPartition] = []
        self._will_look = False
        self._has_lost_records = False

    # --- the course -------------------------------------------------------------------------------

    def answer(self) -> ShareFetchResponse | None:
        """Return the response, or None if it is sent later."""
        request, session = self._request, self._session
        wanted = partitions_of(request.topics)
        is_final = request.share_session_epoch == FINAL_EPOCH
        if not is_final:
            for each in wanted:
                session.add(each, is_told=self._is_opening)
            for topic in () if self._is_opening else request.forgotten_topics_data:
                for index in topic.partitions:
                    session.partitions.pop((topic.topic_id, index), None)
        self._acknowledgements = acknowledge_all(
            self._broker,
            session.key,
            wanted,
            self._may_read,
            may_renew=request.is_renew_ack,
            done=self._one_acknowledged,
        )
        if self._acknowledgements:
            self._listed = {each: self._error_of(each) for each in wanted}
        if is_final:
            self._broker.loop.call_soon(self._broker.share.end_session, session)
        if is_final or request.is_renew_ack:
            self._found = {}
        elif request.share_acquire_mode not in _ACQUIRE_MODES and session.partitions:
            return refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        elif request.max_records <= 0 or request.max_bytes <= 0:
            self._found = self._errors()
        else:
            self._look(is_last=request.max_wait_ms <= 0)
        if self._is_complete():
            return self._response()
        self._delayed = delayed = DelayedResponse(self._connection)
        self._connection.delay_and_mute(delayed)
        delayed.on_disconnect = self._end
        if self._found is None:
            wait_s = request.max_wait_ms / 1000
            self._timer = self._broker.loop.call_later(wait_s, self.finish)
        return None

    def _one_acknowledged(
        self, wanted: SharedPartition, error: ErrorCode, message: str | None
    ) -> None:
        self._acknowledged[wanted] = error, message
        self._send_if_complete()

    def _is_complete(self) -> bool:
        is_acknowledged = len(self._acknowledged) == self._acknowledgements
        return self._found is not None and is_acknowledged

    def _send_if_complete(self) -> None:
        if self._delayed is not None and self._is_complete():
            delayed, self._delayed = self._delayed, None
            self._end()
            delayed.send(self._response())

    # --- waiting ----------------------------------------------------------------------------------

    def records_appended(self, size_bytes: int, stable_bytes: int) -> None:  # noqa: ARG002 - any
        """Look again at the end of the turn."""
        self.changed()

    def changed(self) -> None:
        """Look again at the end of the turn."""
        if not self._will_look and self._found is None:
            self._will_look = True
            self._broker.loop.call_soon(self._look_again)

    def finish(self) -> None:
        """Answer with what there is now."""
        if self._found is None:
            self._look(is_last=True)
            self._send_if_complete()

    def _look_again(self) -> None:
        self._will_look = False
        if self._found is None and not self._connection.closed:
            self._look(is_last=False)
            self._send_if_complete()

    def _watch(self, loaded: LoadedPartition) -> None:
        watchers = loaded.partition.watchers
        watchers[self] = None
        self._watched.append(watchers)
        loaded.watchers[self.changed] = None
        self._loaded.append(loaded)

    def _unwatch(self) -> None:
        for watchers in self._watched:
            watchers.pop(self, None)
        for loaded in self._loaded:
            loaded.watchers.pop(self.changed, None)
        self._watched, self._loaded = [], []

    def _end(self) -> None:
        self._unwatch()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._found is None:
            self._found = {}

    # --- looking ----------------------------------------------------------------------------------

    def _errors(self) -> dict[SharedPartition, _Acquired]:
        """Return the partitions of the session that cannot be fetched."""
        errors = {wanted: self._error_of(wanted) for wanted in self._session.partitions}
        return {wanted: _Acquired(error) for wanted, error in errors.items() if error}

    def _error_of(self, wanted: SharedPartition) -> ErrorCode:
        return partition_error(self._broker, wanted, self._may_read)

    def _look(self, *, is_last: bool) -> None:
        """Acquire what there is, if that is enough or nothing more is waited for."""
        self._unwatch()
        if not self._broker.features.serves_share_groups:
            # They were switched off while it waited.
            self._found = {}
            return
        found: dict[SharedPartition, _Acquired] = {}
        ready: dict[SharedPartition, LoadedPartition] = {}
        waits = False
        group_id = self._session.key[0]
        for wanted in self._session.in_turn(self._request.share_session_epoch):
            partition = find_partition(self._broker, wanted, self._may_read)
            if isinstance(partition, ErrorCode):
                found[wanted] = _Acquired(partition)
                continue
            loaded = self._broker.share.find(ShareKey(group_id, *wanted), partition)
            if loaded.error:
                # The next fetch tries it again.
                found[wanted] = _Acquired(loaded.error)
                self._broker.share.drop(loaded)
                continue
            waits = True
            self._watch(loaded)
            if loaded.share is not None:
                ready[wanted] = loaded
                found[wanted] = _NOTHING
        reads = self._read(ready, found)
        enough = min(self._request.min_bytes, self._request.max_bytes)
        found_bytes = sum(len(each.data) for each in reads.values())
        has_enough = self._has_lost_records or (bool(reads) and found_bytes >= enough)
        if has_enough or is_last:
            self._acquire(ready, reads, found)
        if has_enough or is_last or not waits:
            self._unwatch()
            self._found = found

    def _read(
        self, ready: dict[SharedPartition, LoadedPartition], found: dict[SharedPartition, _Acquired]
    ) -> dict[SharedPartition, Found]:
        """Read what could be acquired of each partition; those that cannot be read get errors."""
        able: dict[SharedPartition, LoadedPartition] = {}
        for wanted, loaded in ready.items():
            share = loaded.share
            assert share is not None, f"{loaded.key} is loaded"
            if loaded.partition.state is not OPEN:
                found[wanted] = _Acquired(ErrorCode.KAFKA_STORAGE_ERROR)
                continue
            log_start_offset = loaded.partition.log.log_start_offset
            if share.next_fetch_offset() < log_start_offset:
                # What it would read is lost: the answer leaves at once, as in Kafka.
                share.move_log_start(log_start_offset)
                self._broker.share.locks_changed(loaded)
                self._has_lost_records = True
            elif share.can_acquire(self._settings.max_in_flight):
                able[wanted] = loaded
        max_bytes = min(self._request.max_bytes, self._broker.fetch_max_bytes)
        reads: dict[SharedPartition, Found] = {}
        left_bytes = max_bytes
        for wanted, loaded in able.items():
            assert loaded.share is not None, f"{loaded.key} is loaded"
            try:
                each = read(
                    loaded.partition,
                    loaded.share.next_fetch_offset(),
                    min(max_bytes // len(able), left_bytes),
                    # The first batch of all is read whatever its size is.
                    is_limited=left_bytes < max_bytes,
                    is_committed=self._settings.is_committed,
                )
            except (StorageError, OSError):
                found[wanted] = _Acquired(ErrorCode.KAFKA_STORAGE_ERROR)
                continue
            reads[wanted] = each
            left_bytes = max(0, left_bytes - len(each.data))
        return reads

    def _acquire(
        self,
        ready: dict[SharedPartition, LoadedPartition],
        reads: dict[SharedPartition, Found],
        found: dict[SharedPartition, _Acquired],
    ) -> None:
        """Acquire what was read."""
        request, settings = self._request, self._settings
        left = request.max_records
        deadline_ms = self._broker.environment.now_ms() + settings.lock_ms
        for wanted, each in reads.items():
            share = ready[wanted].share
            assert share is not None, f"{wanted} is loaded"
            asked = Acquisition(
                self._session.key[1],
                left,
                request.batch_size,
                bool(request.share_acquire_mode),
                settings.max_in_flight,
                settings.delivery_limit,
                deadline_ms,
            )
            acquired = acquire(share, asked, each.offset, each.batches, each.aborted)
            self._broker.share.locks_changed(ready[wanted])
            if acquired:
                left -= sum(part.last_offset - part.first_offset + 1 for part in acquired)
                data = records_of(each, acquired)
                found[wanted] = _Acquired(ErrorCode.NONE, data, tuple(acquired))
                if not self._is_opening:
                    self._session.found_records(wanted)

    # --- the response -----------------------------------------------------------------------------

    def _response(self) -> ShareFetchResponse:
        """Make the response of what was found [share-partitions/fetch-answers]."""
        leaders = Leaders(self._broker, self._connection)
        found = self._found or {}
        partitions = self._session.partitions
        topics: dict[bytes, list[ShareFetchPartitionResponse]] = {}
        for wanted in (*found, *(each for each in self._listed if each not in found)):
            part = found.get(wanted, _NOTHING)
            is_told = self._is_opening or partitions.get(wanted, False) or part is not _NOTHING
            if not is_told and wanted not in self._listed:
                continue
            if wanted in partitions and wanted in found:
                partitions[wanted] = bool(part.error)
            error = self._listed.get(wanted, ErrorCode.NONE)
            error, message = self._acknowledged.get(wanted, (error, None))
            topic_id, index = wanted
            topics.setdefault(topic_id, []).append(
                ShareFetchPartitionResponse(
                    partition_index=index,
                    error_code=part.error,
                    acknowledge_error_code=error,
                    acknowledge_error_message=message,
                    current_leader=leaders.hint(wanted, part.error),
                    records=part.data,
                    acquired_records=[AcquiredPart.of(*each) for each in part.records],
                )
            )
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=self._settings.lock_ms,
            responses=[
                ShareFetchTopicResponse(topic_id=topic_id, partitions=parts)
                for topic_id, parts in topics.items()
            ],
            node_endpoints=leaders.endpoints,
        )
