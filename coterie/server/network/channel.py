"""The sending half of a connection: queued responses, writes, muting and closing.

A connection is *muted*, Kafka's word, while its next request must not be handled: a request before
it is delayed (JoinGroup, SyncGroup, a long poll), the peer does not read its responses, or too many
responses wait for the disk.

Invariants:
* Responses leave in the order of their requests, so one that is ready queues behind those that are
  not.
* Nothing is written after the connection was closed.
* A peer with too many unread responses is disconnected.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, cast

from coterie.server.loggers import SOCKET_SERVER
from coterie.server.network import limits
from coterie.server.network.connection_quotas import ConnectionQuotas
from coterie.server.network.delayed_response import (
    DelayedResponse,
    Exchange,
    Muting,
    PendingWrites,
    PostponedRequest,
)
from coterie.server.network.routes import Routes
from coterie.server.network.sliced_response import encoded, run_in_slices
from coterie.server.network.turns import Turns
from coterie.server.security.logins import Logins
from coterie.server.services import Services

_join = b"".join


class ConnectionServices(Services):
    """The parts of the broker that connections use; they pass it on to handlers.

    Attributes:
        now_ms: the clock.
        routes: the APIs that a new connection may use.
        connection_quotas: all connections and their limits.
        pending_writes: writes at the end of a turn.
        turns: how long requests may hold the event loop.
        logins: what the logins at all listeners share.
    """

    now_ms: Callable[[], int]
    routes: Routes
    connection_quotas: ConnectionQuotas
    pending_writes: PendingWrites
    turns: Turns
    logins: Logins


class Channel(Exchange):
    """The transport of one connection; `Connection` adds reading and handling of requests.

    Attributes:
        peer: the peer's address and port, for log lines.
    """

    __slots__ = (
        "_broker",
        "_delayed",
        "_handling",
        "_lost",
        "_muted",
        "_muted_by",
        "_out",
        "_transport",
        "_when_closed",
        "_writing_paused",
        "peer",
    )

    def __init__(self, broker: ConnectionServices) -> None:
        self._broker = broker
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        # Responses that are not ready, and ready ones that queue behind them.
        self._delayed: list[DelayedResponse] = []
        # The delayed response that mutes this connection, if there is one.
        self._muted_by: DelayedResponse | None = None
        # Responses for the next write.
        self._out: list[bytes | bytearray] = []
        # True while `data_received` handles requests; it writes the responses at its end.
        self._handling = False
        # True while received bytes must be buffered instead of handled: the connection is blocked,
        # or earlier bytes are still in the buffer.
        self._muted = False
        self._writing_paused = False
        # What to call when the connection is lost, by the subject that it is for.
        self._when_closed: dict[Hashable, Callable[[], None]] | None = None
        self._lost = False
        self.peer = ""
        self.closed = False

    # --- implemented by the reading half ----------------------------------------------------------

    def _is_blocked(self) -> bool:
        """Return whether the next request must not be handled, even if it is complete."""
        raise NotImplementedError

    def _resume_soon(self) -> None:
        """Handle buffered requests in a later turn of the event loop."""
        raise NotImplementedError

    def _drop_buffered(self) -> None:
        """Drop received bytes that were not handled."""
        raise NotImplementedError

    # --- responses --------------------------------------------------------------------------------

    def delay_and_mute(self, response: DelayedResponse) -> None:
        """Delay the response to the current request, and mute this connection until it is sent."""
        self._muted_by = response
        self._muted = True
        self.delay(response)

    def delay(self, response: DelayedResponse) -> None:
        """Delay the response to the current request; responses to later ones queue behind it."""
        self._delayed.append(response)
        if response.frame is not None:
            self.response_ready(response)

    def mute_for(self, duration_ms: int) -> None:
        """Mute this connection for a time, because its client is throttled [quotas/throttling]."""
        # A postponed request mutes already, and the client waits after its next one.
        if duration_ms <= 0 or self.closed or isinstance(self._muted_by, PostponedRequest):
            return
        throttled = Muting(self)
        self._muted_by = throttled
        self._muted = True
        self._broker.loop.call_later(duration_ms / 1000, self._end_mute, throttled)

    def _end_mute(self, throttled: DelayedResponse) -> None:
        if self._muted_by is throttled:
            self._muted_by = None
            self._resume_soon()

    def close_after(self, duration_ms: int) -> None:
        """Serve no request, and close this connection after a time."""
        self._muted_by = Muting(self)
        self._muted = True
        self._broker.loop.call_later(duration_ms / 1000, self._close_refused)

    def _close_refused(self) -> None:
        if not self.closed:
            self.close_quietly()

    def response_ready(self, response: DelayedResponse) -> None:
        """Write the responses at the head of the queue that are ready; `response` became ready."""
        delayed, out = self._delayed, self._out
        idle = not out
        # Only these two may unmute the connection; for all others the check below would cost time.
        may_unmute = response is self._muted_by or len(delayed) >= limits.DELAYED_RESPONSES
        while delayed and (frame := delayed[0].frame) is not None:
            delayed.pop(0)
            out.append(frame)
        if response is self._muted_by:
            self._muted_by = None
        if self._handling:
            # `data_received` goes on with its bytes and writes at its end.
            self._muted = self.closed or self._is_blocked()
            return
        if idle and out:
            self._broker.pending_writes.add(self)
        if may_unmute and not self._is_blocked():
            self._resume_soon()

    def encode_in_slices(self, response: DelayedResponse, message: Any) -> None:
        """Encode a large response in later turns, and then send its frame."""
        in_steps = response.route.in_steps
        assert in_steps is not None, "a large response can be encoded in steps"
        steps = encoded(self._broker, message, in_steps, response.correlation_id)
        run_in_slices(self._broker, self, steps, response.send_frame)

    def flush(self) -> None:
        """Write the collected responses with one call."""
        out = self._out
        if not out:
            return
        if not self.closed:
            self._transport.write(out[0] if len(out) == 1 else _join(out))
        out.clear()
        if self._writing_paused and self.unsent_bytes() > limits.UNREAD_LIMIT_BYTES:
            unsent = self.unsent_bytes()
            self.close("UnreadAnswers", f"{unsent} bytes of responses are unread", abort=True)

    def unsent_bytes(self) -> int:
        """Return how many bytes of responses the peer has not taken."""
        return self._transport.get_write_buffer_size()

    # --- closing ----------------------------------------------------------------------------------

    def close(self, error: str, reason: str, *, abort: bool = False) -> None:
        """Close this connection and log one line.

        Args:
            error: the kind of error, a name that operators and tests search for.
            reason: what happened, with figures.
            abort: drop unsent responses instead of letting the peer read them.
        """
        if not self.closed:
            self._broker.connection_quotas.log_close(self.peer, error, reason)
            self.close_quietly(abort=abort)

    def close_quietly(self, *, abort: bool = False) -> None:
        """Close this connection without a log line, as for idle ones or when the server stops."""
        if not abort:
            self.flush()
        self.closed = True
        self._muted = True
        self._drop_buffered()
        if abort:
            self._transport.abort()
        else:
            self._transport.close()

    def _has_socket(self) -> bool:
        """Return whether the peer is at the other end of a socket, and not in memory."""
        return self._transport.get_extra_info("socket") is not None

    def end(self) -> None:
        """End this side of the connection, and ignore what the peer still sends [connections/stop].

        A socket that is closed while bytes arrive is reset. Its peer may then lose responses that
        it has not read yet.
        """
        self.flush()
        self.closed = True
        self._muted = True
        self._drop_buffered()
        if self._has_socket():
            try:
                self._transport.write_eof()
            except OSError:
                # The peer has reset the connection, and the event loop has not noticed it yet.
                self._transport.abort()
            else:
                self._transport.resume_reading()
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close the socket at once; unsent responses are lost, and none is written any more."""
        self.closed = True
        self._transport.abort()

    def when_closed(self, subject: Hashable, call: Callable[[], None] | None) -> None:
        """Call a function when the connection is lost; see `Exchange`."""
        calls = {} if self._when_closed is None else self._when_closed
        calls.pop(subject, None)
        if call is not None:
            calls[subject] = call
        self._when_closed = calls
        if self._lost:
            self._end()

    def _end(self) -> None:
        """Make the calls that wait for the loss of the connection."""
        self._lost = True
        calls, self._when_closed = self._when_closed, None
        for subject, call in () if calls is None else calls.items():
            try:
                call()
            except Exception as error:
                log = self._broker.environment.loggers.named(SOCKET_SERVER)
                log.error("not ended", peer=self.peer, subject=str(subject), exc_info=error)  # noqa: TRY400
