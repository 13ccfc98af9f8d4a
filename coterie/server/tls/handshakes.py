"""How many handshakes of a listener are done at a time [security/login-deadline].

Peers that stop half-way through a handshake must keep nobody out: a handshake that takes long ends
when others wait. What waits too long is closed by the sweep of `ConnectionQuotas`.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

# Handshakes that are done at a time. Each takes up to 25 KiB and a millisecond of a processor.
MOST_HANDSHAKES = 256
# A handshake is two round trips and some work of the peer. One that takes longer than this ends if
# another one waits. A client that opens a thousand connections at once takes a second or two before
# it goes on with the first.
STALLED_MS = 3_000


class Handshaking(Protocol):
    """A connection whose handshake is not complete."""

    def begin_handshake(self) -> None:
        """Begin the handshake, with what has arrived of it."""

    def give_up(self, reason: str) -> None:
        """Close the connection, because its handshake takes too long."""


class Handshakes:
    """The connections of a listener whose handshake is not complete."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now_ms: Callable[[], int]) -> None:
        """Start without connections.

        Args:
            loop: to wait in.
            now_ms: the clock.
        """
        self._loop = loop
        self._now_ms = now_ms
        # Both in the order of their beginning.
        self._begun: dict[Handshaking, int] = {}
        self._waiting: dict[Handshaking, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._begun) + len(self._waiting)

    def add(self, connection: Handshaking) -> None:
        """Let a new connection begin its handshake, now or when there is room."""
        self._waiting[connection] = None
        self._go_on()

    def remove(self, connection: Handshaking) -> None:
        """Forget a connection whose handshake is complete, or that was lost."""
        self._waiting.pop(connection, None)
        if self._begun.pop(connection, None) is not None:
            self._go_on()

    def _go_on(self) -> None:
        while self._waiting and len(self._begun) < MOST_HANDSHAKES:
            # The newest, which is served in time even behind thousands that will never go on.
            connection, _ = self._waiting.popitem()
            self._begun[connection] = self._now_ms()
            connection.begin_handshake()
        if self._waiting and self._timer is None:
            oldest_ms = next(iter(self._begun.values()))
            wait_ms = max(oldest_ms + STALLED_MS - self._now_ms(), 0)
            self._timer = self._loop.call_later(wait_ms / 1000, self._end_stalled)

    def _end_stalled(self) -> None:
        """End handshakes that take long, as many as wait."""
        self._timer = None
        since_ms = self._now_ms() - STALLED_MS
        stalled = [each for each, begun_ms in self._begun.items() if begun_ms <= since_ms]
        for connection in stalled[: len(self._waiting)]:
            del self._begun[connection]
            connection.give_up(f"a handshake took more than {STALLED_MS} ms while others waited")
        self._go_on()
