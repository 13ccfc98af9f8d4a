"""The answering half of a connection: the line of answers, the writes, and the end.

Invariants: answers leave in the order of their requests, so those that are ready queue behind those
that are not; nothing is written after the end; a peer with too much unread is cut.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

from coterie.server import limits
from coterie.server.network.responses import DelayedResponse

if TYPE_CHECKING:
    from coterie.server.broker import Broker

_join = b"".join


class Answering(asyncio.Protocol):
    """What answers go through; `Connection` adds what requests come from.

    Attributes:
        peer: address and port, for log lines.
        closed: nothing is read or written any more.
    """

    __slots__ = (
        "_broker",
        "_delayed",
        "_handling",
        "_muted",
        "_muted_by",
        "_out",
        "_transport",
        "_writing_paused",
        "closed",
        "peer",
    )

    def __init__(self, broker: "Broker") -> None:
        """Answer for `broker`."""
        self._broker = broker
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        # Requests whose answers are not there yet, and answers that stand behind them.
        self._delayed: deque[DelayedResponse] = deque()
        self._muted_by: DelayedResponse | None = None
        # Answers that will leave with the next write.
        self._out: list[bytes] = []
        # True while a read is being handled: its end writes what has gathered.
        self._handling = False
        # True when a read can't be handled right away: bytes wait, or something holds us back.
        self._muted = False
        self._writing_paused = False
        self.peer = ""
        self.closed = False

    # --- for the half that reads ---

    def _held_back(self) -> bool:
        """Whether something keeps the next request from being handled."""
        raise NotImplementedError

    def _go_on_soon(self) -> None:
        """Handle what waits, in a turn of its own."""
        raise NotImplementedError

    def _drop_backlog(self) -> None:
        """Forget the bytes that wait."""
        raise NotImplementedError

    # --- answers ----------------------------------------------------------------------------------

    def delay_and_mute(self, reply: DelayedResponse) -> None:
        """The request at hand is answered later, and holds this connection until then."""
        self._muted_by = reply
        self._muted = True
        self.delay(reply)

    def delay(self, reply: DelayedResponse) -> None:
        """The request at hand is answered later; the answers of following ones queue behind."""
        self._delayed.append(reply)
        if reply.frame is not None:
            self.answered(reply)

    def answered(self, reply: DelayedResponse) -> None:
        """A reply of this connection got its answer: release what is now first in line."""
        line, out = self._delayed, self._out
        idle = not out
        was_full = reply is self._muted_by or len(line) >= limits.DELAYED_RESPONSES
        while line and line[0].frame is not None:
            out.append(cast("bytes", line.popleft().frame))
        if reply is self._muted_by:
            self._muted_by = None
        if self._handling:
            self._muted = self.closed or self._held_back()
            return
        if idle and out:
            self._broker.outbox.add(self)
        if was_full and not self._held_back():
            self._go_on_soon()

    def flush(self) -> None:
        """Write the collected answers in one go."""
        out = self._out
        if not out:
            return
        if not self.closed:
            self._transport.write(out[0] if len(out) == 1 else _join(out))
        out.clear()
        if self._writing_paused and self.unwritten_bytes() > limits.UNREAD_LIMIT_BYTES:
            unread = self.unwritten_bytes()
            self.close("UnreadAnswers", f"{unread} bytes of answers are not read", abort=True)

    # --- the end ----------------------------------------------------------------------------------

    def close(self, error: str, reason: str, *, abort: bool = False) -> None:
        """Close this connection, with one log line.

        Args:
            error: the kind of reason, a name that tests and operators look for.
            reason: what happened, with figures.
            abort: drop answers the peer has not taken instead of letting it read them.
        """
        if not self.closed:
            self._broker.connection_quotas.log_close(self.peer, error, reason)
            self.shut(abort=abort)

    def shut(self, *, abort: bool = False) -> None:
        """Close without a line: the server is going, or the line was written elsewhere."""
        if not abort:
            self.flush()
        self.closed = True
        self._muted = True
        self._drop_backlog()
        if abort:
            self._transport.abort()
        else:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection, whatever is left to write."""
        self._transport.abort()

    def unwritten_bytes(self) -> int:
        """Bytes of answers the peer has not taken."""
        return self._transport.get_write_buffer_size()
