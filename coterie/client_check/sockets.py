"""The stage of the command: brokers that listen on this machine, and processes."""

import asyncio
import io
from collections.abc import Sequence
from functools import partial

from coterie.address import Address
from coterie.client_check.broker import NODE, OTHER_NODE, ScriptedBroker
from coterie.client_check.connection import LISTENER
from coterie.client_check.program import Process
from coterie.client_check.security import ClientSecurity
from coterie.server.environment import Environment
from coterie.server.logging import make_logger
from coterie.server.network.routes import import_handlers

HOST = "127.0.0.1"


class Sockets:
    """Brokers on free ports, and a command as processes; see `Stage`."""

    def __init__(self, command: Sequence[str], security: ClientSecurity | None = None) -> None:
        """Play with a command, which logs in if there is security."""
        self._security = security
        self._command = tuple(command)
        self._listeners: dict[ScriptedBroker, list[asyncio.Server]] = {}
        for _ in import_handlers():
            pass

    async def open_broker(self) -> ScriptedBroker:
        """Return a broker that listens; see `Stage`."""
        environment = Environment.of_process(make_logger("error", stream=io.StringIO()))
        security = self._security
        needed = None if security is None else security.of_broker(LISTENER)
        context = None if security is None else security.context
        broker = ScriptedBroker(environment, needed)
        loop = asyncio.get_running_loop()
        addresses = {}
        self._listeners[broker] = []
        for node in (NODE, OTHER_NODE):
            server = await loop.create_server(
                partial(broker.connection, node), HOST, 0, ssl=context
            )
            self._listeners[broker].append(server)
            addresses[node] = Address(HOST, server.sockets[0].getsockname()[1])
        await broker.start(addresses)
        return broker

    async def close_broker(self, broker: ScriptedBroker) -> None:
        """Stop a broker; see `Stage`."""
        for each in self._listeners.pop(broker):
            each.close()
        await broker.stop()

    def make_program(self) -> Process:
        """Return the command, which is not started yet; see `Stage`."""
        return Process(self._command)
