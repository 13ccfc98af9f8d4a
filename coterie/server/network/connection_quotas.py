"""All client connections: how many may be open, what they may buffer, and their deadlines.

One sweep a second replaces a timer for each connection. It closes connections that are idle, that
do not finish a request, or whose peer does not read.

Invariants: a connection is counted from its admission until it is lost; the number of buffered
bytes is the sum of the connections' receive buffers.
"""

import asyncio
import socket
from collections import Counter
from enum import Enum
from struct import unpack
from typing import Protocol

from coterie.coordinator.kernel.request import ClientContext
from coterie.server.config.address_limits import address_limits
from coterie.server.config.broker_keys import CREATION_RATE, MAX_CONNECTIONS, PER_IP_OVERRIDES
from coterie.server.config.config import Config
from coterie.server.config.listeners import prefix_of
from coterie.server.environment import Environment
from coterie.server.loggers import SOCKET_SERVER
from coterie.server.network import limits
from coterie.server.network.routes import Routes
from coterie.server.quotas.connection_rate import ConnectionRate
from coterie.server.quotas.throttling import Throttling

# From this rate on connections are not counted.
_ANY_RATE = 2**31 - 1


class ConnectionState(Enum):
    """What a connection waits for."""

    IDLE = "idle"  # the next request
    BUSY = "busy"  # a delayed response
    RECEIVING = "receiving"  # the rest of a request
    UNREAD = "unread"  # the peer, to read its responses
    CLOSING = "closing"  # the peer, to take the last bytes


class LimitedConnection(Protocol):
    """A connection, as far as its limits need it.

    Attributes:
        routes: the APIs that the client may use.
        client: who it is.
        closed: nothing is read or written any more.
        now_ms: the time of the last read that was handled.
        active: bytes arrived since the last sweep.
        state, deadline_ms, unsent_at_sweep: what the connection waited for at the last sweep, until
            when, and its unsent bytes at that time.
    """

    routes: Routes
    client: ClientContext
    closed: bool
    correlation_id: int
    now_ms: int
    active: bool
    state: ConnectionState
    deadline_ms: int
    unsent_at_sweep: int

    @property
    def current_state(self) -> ConnectionState:
        """What the connection waits for now."""

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of an incomplete request have arrived."""

    def unsent_bytes(self) -> int:
        """Return how many bytes of responses the peer has not taken."""

    def close(self, error: str, reason: str, *, abort: bool = False) -> None:
        """Close the connection and log one line."""

    def close_quietly(self, *, abort: bool = False) -> None:
        """Close the connection without a log line."""

    def stop_reading(self) -> None:
        """Read no more."""

    def end(self) -> None:
        """End this side of the connection, and ignore what the peer still sends."""

    def abort(self) -> None:
        """Close the socket at once."""

    def close_after(self, duration_ms: int) -> None:
        """Serve no request, and close the connection after a time."""

    def mute_for(self, duration_ms: int) -> None:
        """Serve no request for a time."""


def java_address(host: str) -> str:
    """Return an IP address as Java prints it, for group descriptions [connections/client-host]."""
    if ":" not in host:
        return f"/{host}"
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    return "/" + ":".join(f"{group:x}" for group in unpack(">8H", packed))


class ConnectionQuotas:
    """The open connections and their limits.

    Attributes:
        max_request_bytes: socket.request.max.bytes.
        buffered_bytes: unhandled bytes of all connections.
        unread_bytes: responses of connections that are muted because their peers do not read.
        late_logins: connections that were closed because no login came in time, by listener.
        throttling: counts new connections; None without quotas of addresses.
    """

    def __init__(self, environment: Environment, config: Config, most_connections: int) -> None:
        """Start without connections.

        Args:
            environment: its loop, clock and log are used.
            config: the settings.
            most_connections: how many may be open, whatever max.connections is.
        """
        self._most_connections = most_connections
        self._environment = environment
        self._config = config
        self.max_request_bytes = config.get_int("socket.request.max.bytes")
        self._idle_ms = config.get_int("connections.max.idle.ms")
        # Each with its address and its listener.
        self._connections: dict[LimitedConnection, tuple[str, str]] = {}
        self._per_address: dict[str, int] = {}
        self._per_listener: dict[str, int] = {}
        # Until when clients have to log in, in the order of their connections.
        self._login_deadlines_ms: dict[LimitedConnection, int] = {}
        self.late_logins: Counter[str] = Counter()
        self.buffered_bytes = 0
        self.unread_bytes = 0
        self.throttling: Throttling | None = None
        # The rate of all listeners together, and of those that have a limit of their own.
        self._rate = ConnectionRate(config)
        self._rates: dict[str, ConnectionRate] = {}
        # The limits of addresses, and the text that they were made of.
        self._overrides: dict[str, int] = {}
        self._overrides_text = ""
        self._close_lines = 0
        self._last_id = 0
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._connections)

    def principals(self) -> Counter[str]:
        """Return how many connections each principal has."""
        return Counter(each.client.principal for each in self._connections)

    def request_numbers(self) -> dict[int, int]:
        """Return the correlation id of the last request of each connection; in any thread.

        Clients count it up, so two of these tell how many requests were made [console/rates].
        """
        return {each.client.connection_id: each.correlation_id for each in list(self._connections)}

    def next_id(self) -> int:
        """Return a number that no other connection has had since the start."""
        self._last_id += 1
        return self._last_id

    def admit(self, connection: LimitedConnection, address: str, listener: str) -> str | None:
        """Admit a connection; return the reason if it is refused.

        [connections/connection-limits]
        """
        if self._is_closed:
            # The system had accepted it before.
            return "the broker has stopped"
        # Read anew for each connection, because clients may alter all while the broker runs.
        config, prefix = self._config, prefix_of(listener)
        max_connections = config.get_int(MAX_CONNECTIONS)
        if len(self._connections) >= max_connections:
            return f"{max_connections} connections are open ({MAX_CONNECTIONS})"
        if len(self._connections) >= self._most_connections:
            return f"{self._most_connections} connections are open (`ulimit -n` allows no more)"
        at_listener = self._per_listener.get(listener, 0)
        name = prefix + MAX_CONNECTIONS
        most = config.set_text(name)
        if most is not None and at_listener >= int(most):
            return f"{at_listener} connections of listener {listener} are open ({name})"
        here = self._per_address.get(address, 0)
        if here >= self._most_of(address):
            return f"{here} connections from {address} are open (max.connections.per.ip)"
        wait_ms = self._wait_ms(listener, prefix)
        if wait_ms:
            connection.mute_for(wait_ms)
        if self.throttling is not None:
            wait_ms = self.throttling.wait_of_connection_ms(address, self._environment.now_ms())
            if wait_ms:
                connection.close_after(wait_ms)
        self._per_address[address] = here + 1
        self._per_listener[listener] = at_listener + 1
        self._connections[connection] = address, listener
        if self._timer is None:
            self._start_timer()
        return None

    def _wait_ms(self, listener: str, prefix: str) -> int:
        """Count a connection for the rates of the broker and the listener; return its wait."""
        now_ms, wait_ms = self._environment.now_ms(), 0
        rate = self._config.get_int(CREATION_RATE)
        if rate < _ANY_RATE:
            wait_ms = self._rate.wait_ms(rate, now_ms)
        own = self._config.set_text(prefix + CREATION_RATE)
        if own is not None and int(own) < _ANY_RATE:
            if listener not in self._rates:
                self._rates[listener] = ConnectionRate(self._config)
            wait_ms = max(wait_ms, self._rates[listener].wait_ms(int(own), now_ms))
        return wait_ms

    def await_login(self, connection: LimitedConnection) -> None:
        """Close a connection that was just accepted if its client does not log in in time.

        [security/login-deadline] On a listener with the protocol SSL, the end of the handshake is
        the login.
        """
        deadline_ms = self._environment.now_ms() + limits.LOGIN_DEADLINE_MS
        self._login_deadlines_ms[connection] = deadline_ms

    def logged_in(self, connection: LimitedConnection) -> None:
        """Note that the client of a connection has logged in."""
        self._login_deadlines_ms.pop(connection, None)

    def _most_of(self, address: str) -> int:
        """Return how many connections an address may have."""
        text = self._config.get_text(PER_IP_OVERRIDES) or ""
        if text != self._overrides_text:
            self._overrides_text = text
            self._overrides = address_limits(text)
        most = self._overrides.get(address)
        return self._config.get_int("max.connections.per.ip") if most is None else most

    def remove(self, connection: LimitedConnection) -> None:
        """Remove a connection that was lost; one that was refused is not known here."""
        self._login_deadlines_ms.pop(connection, None)
        counted = self._connections.pop(connection, None)
        if counted is not None:
            address, listener = counted
            _count_one_less(self._per_address, address)
            _count_one_less(self._per_listener, listener)

    def reserve_buffer(self, size_bytes: int) -> bool:
        """Count buffered bytes, or with a negative number bytes that are no longer buffered.

        The limit is that of all connections together [connections/input-limits].

        Returns:
            False if all connections together buffer too much.
        """
        self.buffered_bytes += size_bytes
        assert self.buffered_bytes >= 0, "bytes are released once"
        return self.buffered_bytes <= limits.TOTAL_BUFFERED_BYTES

    @property
    def most_response_bytes(self) -> int:
        """How large a response to a Fetch may be, so that all together have a bound.

        [connections/input-limits]
        """
        if self.unread_bytes < limits.TOTAL_UNREAD_BYTES:
            return limits.UNREAD_LIMIT_BYTES
        return limits.UNREAD_HIGH_BYTES

    def log_close(self, peer: str, error: str, reason: str) -> None:
        """Log that a connection was closed, so many lines a second [connections/input-limits]."""
        self._close_lines += 1
        if self._close_lines <= limits.CLOSE_LINES_PER_SWEEP:
            self._environment.loggers.named(SOCKET_SERVER).warning(
                "connection closed", peer=peer, error=error, reason=reason
            )
        if self._timer is None:
            self._start_timer()

    def use_routes(self, routes: Routes) -> None:
        """Give another table of routes to all connections."""
        for connection in self._connections:
            connection.routes = connection.routes.over(routes)

    def stop_reading(self) -> None:
        """Read no more of any connection, because the server stops."""
        for connection in self._connections:
            connection.stop_reading()

    def end_all(self) -> None:
        """End all connections after writing their responses [connections/stop].

        Those that were busy until now may still be sent to; the others are closed.
        """
        busy_since_ms = self._environment.now_ms() - limits.BUSY_MS
        for connection in list(self._connections):
            if connection.closed:
                continue
            if connection.now_ms >= busy_since_ms:
                connection.end()
            else:
                connection.close_quietly()

    def abort_all(self) -> None:
        """Close all sockets at once, also of those that come now, and stop the sweep."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in list(self._connections):
            connection.abort()

    # --- deadlines --------------------------------------------------------------------------------

    def _start_timer(self) -> None:
        self._timer = self._environment.loop.call_later(
            limits.SWEEP_INTERVAL_MS / 1000, self._timer_fired
        )

    def _timer_fired(self) -> None:
        self._timer = None
        self.sweep(self._environment.now_ms())
        if self._connections:
            self._start_timer()

    def sweep(self, now_ms: int) -> None:
        """Check every connection once and close those past their deadline.

        A deadline starts at the first sweep that finds the connection in a state, so it passes up
        to a second late.
        """
        suppressed = self._close_lines - limits.CLOSE_LINES_PER_SWEEP
        if suppressed > 0:
            self._environment.loggers.named(SOCKET_SERVER).warning(
                "connections closed, not shown", count=suppressed
            )
        self._close_lines = 0
        self._close_without_login(now_ms)
        for connection in list(self._connections):
            state = connection.current_state
            if state is not connection.state or (
                state is ConnectionState.IDLE and connection.active
            ):
                self._start_deadline(connection, state, now_ms)
            elif state is ConnectionState.UNREAD:
                self._check_unread(connection, now_ms)
            elif now_ms >= self._deadline_ms(connection, state):
                self._expire(connection, state)
            connection.active = False

    def _close_without_login(self, now_ms: int) -> None:
        late = []
        for connection, deadline_ms in self._login_deadlines_ms.items():
            if deadline_ms > now_ms:
                break
            late.append(connection)
        for connection in late:
            del self._login_deadlines_ms[connection]
            if not connection.closed:
                self.late_logins[connection.client.listener] += 1
                reason = f"no login within {limits.LOGIN_DEADLINE_MS} ms"
                connection.close("LoginTimeout", reason, abort=True)

    def _start_deadline(
        self, connection: LimitedConnection, state: ConnectionState, now_ms: int
    ) -> None:
        connection.state = state
        connection.deadline_ms = now_ms + self._time_allowed_ms(state)
        connection.unsent_at_sweep = (
            connection.unsent_bytes() if state is ConnectionState.UNREAD else 0
        )

    def _time_allowed_ms(self, state: ConnectionState) -> int:
        if state is ConnectionState.RECEIVING:
            return limits.FRAME_DEADLINE_MS
        if state is ConnectionState.CLOSING:
            return limits.CLOSING_DEADLINE_MS
        if state is ConnectionState.UNREAD:
            return limits.UNREAD_DEADLINE_MS
        return self._idle_ms

    def _deadline_ms(self, connection: LimitedConnection, state: ConnectionState) -> int:
        if state is ConnectionState.RECEIVING:
            # A large request on a slow link gets the time that its bytes need.
            extra_ms = connection.buffered_bytes // limits.SLOWEST_LINK_BYTES_PER_MS
            return connection.deadline_ms + extra_ms
        return connection.deadline_ms

    def _check_unread(self, connection: LimitedConnection, now_ms: int) -> None:
        unsent = connection.unsent_bytes()
        if unsent < connection.unsent_at_sweep:
            connection.deadline_ms = now_ms + limits.UNREAD_DEADLINE_MS
            connection.unsent_at_sweep = unsent
        elif now_ms >= connection.deadline_ms:
            self._expire(connection, ConnectionState.UNREAD)

    def _expire(self, connection: LimitedConnection, state: ConnectionState) -> None:
        if state is ConnectionState.CLOSING:
            connection.abort()
        elif state is ConnectionState.RECEIVING:
            received = connection.buffered_bytes
            reason = f"a request was not complete in time, {received} bytes had arrived"
            connection.close("FrameTimeout", reason)
        elif state is ConnectionState.UNREAD:
            reason = f"{connection.unsent_at_sweep} bytes of responses are unread"
            connection.close("UnreadAnswers", reason, abort=True)
        elif state is ConnectionState.IDLE:
            # Without a log line, as in Kafka [connections/input-limits].
            connection.close_quietly()


def _count_one_less(counts: dict[str, int], name: str) -> None:
    left = counts[name] - 1
    assert left >= 0, "a connection is counted once"
    if left:
        counts[name] = left
    else:
        del counts[name]
