"""A ShareFetch from its acknowledgements to its response.

The acknowledgements are applied first; while they are being written, records are acquired. If there
are not enough, the fetch waits (looking.py). What wakes it makes it look again at the end of the
turn of the event loop. The response leaves when both parts are there.

A fetch of many partitions is handled in slices, and between two of them the event loop serves
others. Its connection is muted from the beginning then.
"""

from asyncio import TimerHandle
from collections.abc import Generator
from functools import partial

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_fetch import AcquiredRecords as AcquiredPart
from coterie.protocol.messages.share_fetch import (
    ShareFetchPartitionResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopicResponse,
)
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.sliced_response import run_in_slices, run_now, send_in_slices
from coterie.server.services import Services
from coterie.server.share.acknowledging import (
    Leaders,
    MayRead,
    acknowledge_each,
    acknowledged_partitions,
    partition_errors,
    partitions_of,
)
from coterie.server.share.limits import HANDLED_AT_ONCE
from coterie.server.share.looking import NOTHING, Acquired, Looking, Result
from coterie.server.share.sessions import (
    FINAL_EPOCH,
    OPENING_EPOCH,
    SharedPartition,
    ShareSession,
)

# The ways to acquire: whole batches, or exactly so many records.
_ACQUIRE_MODES = (0, 1)
# Only where a partition exists Kafka looks at the acquire mode.
_EXISTING = frozenset((ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER))


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
        self._is_opening = request.share_session_epoch == OPENING_EPOCH
        self._lock_ms = broker.share.settings(session.key[0]).lock_ms
        # Answers to acknowledgements, and how many there will be; None before that is known.
        self._acknowledged: dict[SharedPartition, tuple[ErrorCode, str | None]] = {}
        self._acknowledgements: int | None = None
        # With acknowledgements that make sense each partition of the request is answered, otherwise
        # those that have acknowledgements or an error.
        self._listed: dict[SharedPartition, ErrorCode] = {}
        # The answer if the request is refused after its acknowledgements were applied.
        self._refusal: ShareFetchResponse | None = None
        self._looking: Looking | None = None
        self._found: Result | None = None
        self._delayed: DelayedResponse | None = None
        self._timer: TimerHandle | None = None
        self._will_look = self._is_looking = self._is_late = False
        named = sum(len(topic.partitions) for topic in request.topics)
        self._in_slices = named + len(session.partitions) > HANDLED_AT_ONCE

    # --- the course -------------------------------------------------------------------------------

    def answer(self) -> ShareFetchResponse | None:
        """Return the response, or None if it is sent later."""
        if self._in_slices:
            self._delay()
            self._wait()
            self._is_looking = True
            run_in_slices(self._broker, self._connection, self._begin(), self._looked)
            return None
        self._found = run_now(self._begin())
        if self._is_complete():
            return run_now(self._response())
        self._delay()
        if self._found is None:
            self._wait()
        return None

    def _begin(self) -> Generator[None, None, Result | None]:
        """Change the session, apply the acknowledgements, and look for the first time."""
        request, session = self._request, self._session
        wanted = partitions_of(request.topics)
        yield
        is_final = request.share_session_epoch == FINAL_EPOCH
        if not is_final:
            forgotten = (
                (topic.topic_id, index)
                for topic in request.forgotten_topics_data
                for index in topic.partitions
            )
            self._broker.share.sessions.change(
                session,
                wanted,
                () if self._is_opening else forgotten,
                is_answered=self._is_opening,
            )
        asked = acknowledged_partitions(wanted)
        self._acknowledgements = len(asked)
        yield
        make_sense = yield from acknowledge_each(
            self._broker,
            session.key,
            asked,
            self._may_read,
            may_renew=request.is_renew_ack,
            done=self._one_acknowledged,
        )
        if self._acknowledgements:
            # Those of which something is acknowledged have a result of their own.
            left = [each for each in wanted if each not in asked]
            errors = yield from partition_errors(self._broker, left, self._may_read)
            self._listed = {
                each: errors.get(each, ErrorCode.NONE)
                for each in wanted
                if make_sense or each in asked or errors[each]
            }
        if is_final:
            ended = partial(self._broker.share.end_session, session, is_final=True)
            self._broker.loop.call_soon(ended)
        if is_final or request.is_renew_ack:
            return {}
        is_strange = request.share_acquire_mode not in _ACQUIRE_MODES and session.partitions
        if is_strange or request.max_records <= 0 or request.max_bytes <= 0:
            named = list(session.partitions)
            errors = yield from partition_errors(self._broker, named, self._may_read)
            if is_strange and not _EXISTING.isdisjoint(errors.values()):
                self._refusal = refused(ErrorCode.UNKNOWN_SERVER_ERROR)
                return {}
            return {each: Acquired(error) for each, error in errors.items() if error}
        self._looking = Looking(
            self._broker, request, session, self._may_read, self._changed, self._finish
        )
        return (yield from self._looking.look(is_last=request.max_wait_ms <= 0))

    def _one_acknowledged(
        self, wanted: SharedPartition, error: ErrorCode, message: str | None
    ) -> None:
        self._acknowledged[wanted] = error, message
        self._send_if_complete()

    def _is_complete(self) -> bool:
        is_acknowledged = len(self._acknowledged) == self._acknowledgements
        return self._found is not None and (is_acknowledged or self._refusal is not None)

    def _send_if_complete(self) -> None:
        if self._delayed is None or not self._is_complete():
            return
        delayed, self._delayed = self._delayed, None
        self._end()
        if self._in_slices:
            send_in_slices(self._broker, delayed, self._response())
        else:
            delayed.send(run_now(self._response()))

    # --- waiting ----------------------------------------------------------------------------------

    def _delay(self) -> None:
        self._delayed = DelayedResponse(self._connection)
        self._connection.delay_and_mute(self._delayed)
        self._delayed.on_disconnect = self._end

    def _wait(self) -> None:
        wait_s = max(0, self._request.max_wait_ms) / 1000
        self._timer = self._broker.loop.call_later(wait_s, self._finish)

    def _changed(self) -> None:
        """Look again at the end of the turn."""
        if not self._will_look and not self._is_looking and self._found is None:
            self._will_look = True
            self._broker.loop.call_soon(self._look_again)

    def _look_again(self) -> None:
        self._will_look = False
        self._look()

    def _finish(self) -> None:
        """Answer with what there is now."""
        self._is_late = True
        self._look()

    def _look(self) -> None:
        if self._is_looking or self._found is not None or self._connection.closed:
            return
        assert self._looking is not None, "it has looked"
        look = self._looking.look(is_last=self._is_late)
        self._is_looking = True
        if self._in_slices:
            run_in_slices(self._broker, self._connection, look, self._looked)
        else:
            self._looked(run_now(look))

    def _looked(self, found: Result | None) -> None:
        self._is_looking = False
        if self._found is not None:
            # The connection was closed meanwhile.
            return
        self._found = found
        if found is not None:
            self._send_if_complete()
        elif self._is_late:
            self._look()
        elif self._looking is not None and self._looking.has_changes:
            self._changed()

    def _end(self) -> None:
        if self._looking is not None:
            self._looking.end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._found is None:
            self._found = {}

    # --- the response -----------------------------------------------------------------------------

    def _response(self) -> Generator[None, None, ShareFetchResponse]:
        """Make the response of what was found [share-partitions/fetch-answers]."""
        if self._refusal is not None:
            return self._refusal
        leaders = Leaders(self._broker, self._connection)
        found = self._found or {}
        partitions = self._session.partitions
        topics: dict[bytes, list[ShareFetchPartitionResponse]] = {}
        answered = (*found, *(each for each in self._listed if each not in found))
        for count, wanted in enumerate(answered, 1):
            if not count % HANDLED_AT_ONCE:
                yield
            part = found.get(wanted, NOTHING)
            is_answered = self._is_opening or partitions.get(wanted, False) or part is not NOTHING
            if not is_answered and wanted not in self._listed:
                continue
            if wanted in partitions and wanted in found and not self._is_opening:
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
            acquisition_lock_timeout_ms=self._lock_ms,
            responses=[
                ShareFetchTopicResponse(topic_id=topic_id, partitions=parts)
                for topic_id, parts in topics.items()
            ],
            node_endpoints=leaders.endpoints,
        )
