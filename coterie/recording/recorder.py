"""Keeps what connections see, and lets a worker write it to the disk.

The event loop only appends to a list: cutting, redacting and writing happen in the thread of the
worker. Order is that of the list, so it is kept between connections
[recording/order]. When the disk is so slow that
too much is waiting, connections are given up instead of the loop being held [recording/slow-disk].
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from coterie.recording.connection_frames import ConnectionFrames
from coterie.recording.files import Limits, RotatingFile
from coterie.recording.format import Entry, Flag, Header, Kind

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from coterie.server.environment import Environment

# How long an observation may wait for the disk, and how many bytes of them begin a write earlier.
_FLUSH_INTERVAL_S = 0.2
_FLUSH_BYTES = 256 * 1024
# How much may wait for a slow disk, besides what is being written.
_WAITING_BYTES = 64 * 1024 * 1024
# What an observation costs beside its bytes.
_OBSERVATION_BYTES = 200


class Observation(NamedTuple):
    """Something that happened on a connection: OPENED, CLOSED, LOST, or bytes of a direction."""

    kind: Kind
    connection: int
    at_ms: int
    data: bytes


class RecordingWriter:
    """Makes entries of observations and writes them; used in the thread of a worker."""

    def __init__(self, path: str, header: Header, limits: Limits) -> None:
        """Begin a recording.

        Raises:
            OSError, NotARecording: see `RotatingFile`.
        """
        self._file = RotatingFile(path, header, limits)
        self._with_payloads = header.with_payloads
        self._connections: dict[int, ConnectionFrames] = {}

    def write(self, observations: list[Observation]) -> Iterator[None]:
        """Write observations, one at each step.

        Raises:
            OSError: the disk fails.
        """
        for observed in observations:
            entries = list(self._entries(observed))
            self._file.write(entries, (each.opened for each in self._connections.values()))
            yield
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _entries(self, observed: Observation) -> Iterator[Entry]:
        kind, connection, at_ms, data = observed
        if kind is Kind.OPENED:
            entry = Entry(kind, Flag(0), connection, at_ms, data)
            self._connections[connection] = ConnectionFrames(
                entry, with_payloads=self._with_payloads
            )
            yield entry
        elif kind is Kind.CLOSED:
            self._connections.pop(connection, None)
            yield Entry(kind, Flag(0), connection, at_ms, data)
        elif (frames := self._connections.get(connection)) is None:
            return
        elif kind is Kind.LOST:
            yield frames.lost(at_ms)
        else:
            yield from frames.arrived(kind, at_ms, data)


class Recorder:
    """The recording of one program, for its event loop."""

    def __init__(
        self, environment: "Environment", path: str, header: Header, limits: Limits
    ) -> None:
        """Begin a recording.

        Raises:
            OSError, NotARecording: see `RotatingFile`.
        """
        self._environment = environment
        self._path = path
        self._writer = RecordingWriter(path, header, limits)
        self._worker = environment.workers("coterie-recording", 1)
        self._waiting: list[Observation] = []
        self._waiting_bytes = 0
        self._is_writing = False
        self._timer: TimerHandle | None = None
        self._connections = 0
        # The connections that were given up.
        self._lost: set[int] = set()
        self._is_over = False

    def opened(self, peer: str, node_id: int | None = None) -> int:
        """Note a new connection; return its number.

        Args:
            peer: the address of the client.
            node_id: the broker that has accepted it, if there are several.
        """
        self._connections += 1
        text = peer if node_id is None else f"{peer}@{node_id}"
        self._observe(Kind.OPENED, self._connections, text.encode())
        return self._connections

    def closed(self, connection: int) -> None:
        """Note the end of a connection."""
        self._lost.discard(connection)
        self._observe(Kind.CLOSED, connection, b"")

    def sent(self, connection: int, data: bytes, *, by_client: bool) -> None:
        """Note bytes that one end of a connection has sent."""
        if connection in self._lost:
            return
        if self._waiting_bytes > _WAITING_BYTES:
            self._lost.add(connection)
            self._observe(Kind.LOST, connection, b"")
            self._environment.log.warning(
                "connection not recorded", reason="the disk is too slow", connection=connection
            )
            return
        self._observe(Kind.REQUEST if by_client else Kind.RESPONSE, connection, data)

    def close(self) -> None:
        """Write what is left, and wait for it."""
        self._write()
        self._worker.stop()
        try:
            # What came while the worker wrote; it has ended now.
            for _ in self._writer.write(self._take()):
                pass
            self._writer.close()
        except OSError as error:
            self._end(error)
        # Connections may end later.
        self._is_over = True

    def _observe(self, kind: Kind, connection: int, data: bytes) -> None:
        if self._is_over:
            return
        self._waiting.append(Observation(kind, connection, self._environment.now_ms(), data))
        self._waiting_bytes += len(data) + _OBSERVATION_BYTES
        if self._waiting_bytes >= _FLUSH_BYTES:
            self._write()
        elif self._timer is None:
            self._timer = self._environment.loop.call_later(_FLUSH_INTERVAL_S, self._write)

    def _take(self) -> list[Observation]:
        observations, self._waiting = self._waiting, []
        self._waiting_bytes = 0
        return observations

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting and not self._is_writing and not self._is_over:
            self._is_writing = True
            self._worker.submit(self._writer.write(self._take()), self._written)

    def _written(self, error: Exception | None) -> None:
        self._is_writing = False
        if error is None:
            self._write()
            return
        self._end(error)

    def _end(self, error: Exception) -> None:
        """Record nothing more; the broker goes on."""
        self._is_over = True
        self._take()
        self._environment.log.error(
            "recording ended", file=self._path, cause=str(error), remedy="make room on its disk"
        )
