"""How long the requests of all connections may hold the event loop in one turn [connections/turns].

The budget is time, because requests differ by a thousand times: one creates a group, another is a
heartbeat. It belongs to the turn and not to the connection: an event loop may read from hundreds
of connections in one turn.

Invariant: a connection that waits for its next turn handles at least one request in it, so none
waits for ever; and those that wait take turns in being the first, which has the whole budget.
"""

from typing import Protocol

from coterie.server.environment import Environment

# How long requests hold the loop before further ones of their connections wait. The records that
# they have queued are written in the same turn, which takes about as long again.
TURN_S = 0.004


class WaitingConnection(Protocol):
    """A connection that has received requests for a later turn."""

    def next_turn(self) -> None:
        """Handle some of them."""


class Turns:
    """The budget of the present turn, and the connections that wait for the next."""

    __slots__ = ("_clock_s", "_deadline_s", "_has_begun", "_loop", "_waiting")

    def __init__(self, environment: Environment) -> None:
        """Start before the first turn."""
        self._loop = environment.loop
        self._clock_s = environment.slice_clock_s
        self._has_begun = False
        self._deadline_s = 0.0
        self._waiting: list[WaitingConnection] = []

    @property
    def idle(self) -> bool:
        """Whether no connection waits."""
        return not self._waiting

    @property
    def is_spent(self) -> bool:
        """Whether requests have held the loop for long enough; the first question begins a turn."""
        if not self._has_begun:
            self._has_begun = True
            self._deadline_s = self._clock_s() + TURN_S
            self._loop.call_soon(self._end)
            return False
        return self._clock_s() >= self._deadline_s

    def wait(self, connection: WaitingConnection) -> None:
        """Let a connection go on in the next turn."""
        self._waiting.append(connection)
        if not self._has_begun:
            self._has_begun = True
            self._deadline_s = self._clock_s()
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        """End a turn, and let those go on that wait."""
        self._has_begun = False
        waiting, self._waiting = self._waiting, []
        # The first one has had a whole turn.
        for connection in (*waiting[1:], *waiting[:1]):
            connection.next_turn()
