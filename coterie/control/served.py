"""The broker of `coterie serve --control`: that of a test, with the options of the command.

Several brokers are in `served_cluster`.

It runs in a thread, on asyncio's own event loop, whose clock can be put forward.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from coterie.security.mechanisms import Mechanism
from coterie.server.broker import Broker as Server
from coterie.server.data_place import IN_MEMORY
from coterie.server.environment import Environment
from coterie.server.file_handles import FileHandles
from coterie.server.run import Options, open_broker, print_metrics, print_ready
from coterie.server.security.user_changes import add_user, revoke_user
from coterie.testing.broker import Broker
from coterie.testing.server_thread import ServerThread
from coterie.testing.users import Users

if TYPE_CHECKING:
    from coterie.server.logging import Logger
    from coterie.server.network.http_server import HttpServer


class ServedBroker(Broker):
    """A broker with the settings and the place of `coterie serve`."""

    def __init__(
        self,
        options: Options,
        log: "Logger",
        handles: FileHandles,
        when_fatal: Callable[[str], None],
    ) -> None:
        """Describe it.

        Args:
            options: those of the command.
            log: of the process.
            handles: how many files and connections may be open.
            when_fatal: called in the thread with the reason if the broker cannot continue.
        """
        place = options.place
        data_dir = None if place.data_dir == IN_MEMORY else place.data_dir
        super().__init__(
            data_dir=data_dir, host=place.host, port=place.port, flush=str(options.flush)
        )
        self._listeners = place.listeners
        # Those that are added and revoked; the others are settings or in the data directory.
        changed = self._users = Users((), Mechanism.SCRAM_SHA_512)
        self._changed = changed
        self._options = options
        self._process_log = log
        self._handles = handles
        self._when_fatal = when_fatal
        self._metrics: HttpServer | None = None

    @property
    def has_certificates(self) -> bool:
        """Whether a listener has TLS."""
        return bool(self.server.tls_listeners)

    def print_ready(self) -> None:
        """Print the lines that say where it listens, and where its metrics are."""
        print_ready(self._options, [each.address for each in self._listeners])
        if self._metrics is not None:
            print_metrics(self._options, self._metrics.address)

    async def _begin_in_thread(self) -> None:
        await super()._begin_in_thread()
        if self._options.metrics_port is not None:
            # Imported here, because most brokers serve no metrics.
            from coterie.server.metrics.serving import serve_metrics

            self._metrics = await serve_metrics(
                lambda: self.server, self._options.metrics_address, self._options.http
            )

    async def _finish_in_thread(self) -> list[str]:
        if self._metrics is not None:
            await self._metrics.stop()
        return await super()._finish_in_thread()

    async def _again(
        self, end: Coroutine[Any, Any, None], between: Callable[[], None] = lambda: None
    ) -> None:
        await super()._again(end, between)
        # The settings, which have the users of PLAIN, are those of the first start.
        for user, password in self._changed.passwords.items():
            add_user(self.server, user, password)
        for user in self._changed.revoked:
            revoke_user(self.server, user)

    def _new_thread(self) -> ServerThread:
        # With random ids, which those of a test are not.
        return ServerThread(os.urandom)

    def _log(self) -> "Logger":
        return self._process_log

    def _make(self, environment: Environment) -> Server:
        server = open_broker(self._options, environment, self._handles, self.disk)
        server.fatal.add_done_callback(self._failed)
        return server

    def _failed(self, fatal: "asyncio.Future[str]") -> None:
        if not fatal.cancelled():
            self._when_fatal(fatal.result())
