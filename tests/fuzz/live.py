"""A running broker with real sockets: malicious connections beside a regular client."""

from contextlib import ExitStack
from typing import Self

from coterie.protocol.messages.api_versions import ApiVersionsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from tests.fuzz.mutation import Mutator
from tests.fuzz.target import Finding
from tests.unit.server.running import RunningBroker

# The largest number of frames on one connection; often the broker closes it earlier.
_FRAMES = 20
_REGULAR = HeartbeatRequest(group_id="regular", generation_id=1, member_id="m")


class LiveTarget:
    """A broker, and the numbers of connections and requests so far."""

    def __init__(self) -> None:
        self.connections = self.sent = self.regular = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._running = self._stack.enter_context(RunningBroker())
        self._running.call(lambda: self._running.broker.controller.create("t", 2, {}))
        self._regular = self._stack.enter_context(self._running.client())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def feed(self, mutator: Mutator) -> None:
        """Send mutated frames on a new connection until the broker closes it or all are sent."""
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

    def regular_request(self) -> None:
        """Check that another client is served."""
        try:
            answer = self._regular.call(_REGULAR, 4)
            versions = ApiVersionsRequest(client_software_name="t", client_software_version="1")
            self._regular.call(versions, 3)
        except (OSError, EOFError) as error:
            raise Finding(b"", f"a regular connection failed: {error!r}") from error
        if answer.error_code != 25:
            raise Finding(b"", f"a regular heartbeat was answered {answer.error_code}")
        self.regular += 2
