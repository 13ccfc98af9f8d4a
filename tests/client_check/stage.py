"""The stage of tests: brokers and consumers in one event loop, in virtual time."""

import asyncio
import io
from collections.abc import Callable, Mapping

from coterie.address import Address
from coterie.client_check.broker import NODE, OTHER_NODE, ScriptedBroker
from coterie.client_check.connection import LISTENER
from coterie.client_check.membership import CONSUMER
from coterie.client_check.program import OutputLine
from coterie.client_check.security import ClientSecurity
from coterie.server.logging import make_logger
from coterie.server.network.routes import import_handlers
from coterie.testing.virtual_time import VirtualClock
from coterie.virtual.environment import SeededEnvironment
from tests.client_check.consumer import Consumer
from tests.client_check.consumer_protocol import ConsumerOfProtocol
from tests.client_check.program import Program

_HOST = "127.0.0.1"
_FIRST_PORT = 20_000


class InProcess:
    """A consumer as a program; see `Program`."""

    def __init__(self, flaws: frozenset[str]) -> None:
        self.lines: list[OutputLine] = []
        self.exit_code: int | None = None
        self._flaws = flaws
        self._consumer: Program | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, values: Mapping[str, str], printed: Callable[[str], int]) -> None:
        """Start it."""

        def note(text: str) -> None:
            self.lines.append(OutputLine(printed(text), text))

        is_consumer = values["protocol"] == CONSUMER
        if "speaks-the-other-protocol" in self._flaws:
            is_consumer = not is_consumer
        cls = ConsumerOfProtocol if is_consumer else Consumer
        consumer = self._consumer = cls(dict(values), note, self._flaws)

        async def run() -> None:
            self.exit_code = await consumer.run()

        self._task = asyncio.create_task(run())

    def terminate(self) -> None:
        """Ask it to end."""
        assert self._consumer is not None, "it was started"
        self._consumer.stopped.set()

    async def ended(self, within_s: float) -> bool:
        """Wait until it has ended."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=within_s)
        return self.exit_code is not None

    async def kill(self) -> None:
        """End it; an error of its own is raised here."""
        if self._task is None:
            return
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        elif not self._task.cancelled():
            self._task.result()

    def last_errors(self) -> list[str]:
        """Return the last lines on its standard error."""
        return [] if self._consumer is None else self._consumer.errors[-3:]


class InMemory:
    """Brokers on a virtual clock; see `Stage`."""

    def __init__(
        self,
        clock: VirtualClock,
        flaws: frozenset[str] = frozenset(),
        security: ClientSecurity | None = None,
    ) -> None:
        self._clock = clock
        self._security = security
        self._flaws = flaws
        self._port = _FIRST_PORT
        for _ in import_handlers():
            pass

    async def open_broker(self) -> ScriptedBroker:
        """Return a broker that listens."""
        clock = self._clock
        environment = SeededEnvironment(
            clock.loop,
            make_logger("error", stream=io.StringIO()),
            self._port,
            now_ms=clock.now_ms,
            monotonic_s=clock.monotonic_s,
        )
        security = self._security
        broker = ScriptedBroker(
            environment, None if security is None else security.of_broker(LISTENER)
        )
        addresses = {}
        for node in (NODE, OTHER_NODE):
            self._port += 1
            addresses[node] = Address(_HOST, self._port)
            clock.listeners[addresses[node]] = self._accept(broker, node)
        await broker.start(addresses)
        return broker

    def _accept(
        self, broker: ScriptedBroker, node: int
    ) -> Callable[[asyncio.Transport], asyncio.BaseProtocol]:
        def accept(transport: asyncio.Transport) -> asyncio.BaseProtocol:
            protocol = broker.connection(node)
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
            return protocol

        return accept

    async def close_broker(self, broker: ScriptedBroker) -> None:
        """Stop a broker."""
        for address in broker.addresses.values():
            del self._clock.listeners[address]
        await broker.stop()
        self._clock.trace.clear()

    def make_program(self) -> InProcess:
        """Return the consumer."""
        return InProcess(self._flaws)
