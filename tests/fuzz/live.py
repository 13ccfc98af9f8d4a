"""A running broker on real sockets, fed by hostile connections beside an honest one."""

from contextlib import ExitStack
from typing import Self

from coterie.protocol.messages.api_versions import ApiVersionsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from tests.fuzz.mutation import Mutator
from tests.fuzz.target import Finding
from tests.unit.server.running import RunningBroker

# Frames a hostile connection sends at most before it goes; it is often closed earlier.
_FRAMES = 20
_HONEST = HeartbeatRequest(group_id="honest", generation_id=1, member_id="m")


class LiveTarget:
    """A broker, and how much it was fed with."""

    def __init__(self) -> None:
        self.connections = self.sent = self.honest = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._running = self._stack.enter_context(RunningBroker())
        self._running.call(lambda: self._running.broker.topics.create("t", 2, {}))
        self._honest = self._stack.enter_context(self._running.client())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def feed(self, mutator: Mutator) -> None:
        """Open a connection, send mutated frames until it is closed or enough, leave."""
        self.connections += 1
        data = b""
        with self._running.connect() as connection:
            connection.setblocking(False)
            for _ in range(_FRAMES):
                data = mutator.next()
                try:
                    connection.send(data)
                    self.sent += 1
                    connection.recv(1 << 16)
                except BlockingIOError:
                    continue
                except OSError:
                    break
        for event in ("request failed", "group append failed"):
            for fields in self._running.log.named(event):
                raise Finding(data, f"{event}: {fields['exc_info']!r}")
        del self._running.log.lines[:]

    def honest_request(self) -> None:
        """Somebody else is served as ever."""
        try:
            answer = self._honest.call(_HONEST, 4)
            versions = ApiVersionsRequest(client_software_name="t", client_software_version="1")
            self._honest.call(versions, 3)
        except (OSError, EOFError) as error:
            raise Finding(b"", f"an honest connection was harmed: {error!r}") from error
        if answer.error_code != 25:
            raise Finding(b"", f"an honest heartbeat was answered {answer.error_code}")
        self.honest += 2
