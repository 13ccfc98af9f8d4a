"""What a broker and a cluster of `coterie serve --control` have in common.

Both are those of a test, with the options of the command. They run in a thread, on asyncio's own
event loop, whose clock can be put forward.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.security.mechanisms import Mechanism
from coterie.server.broker import Broker as Server
from coterie.server.config.listeners import Listener
from coterie.server.data_place import IN_MEMORY
from coterie.server.file_handles import FileHandles
from coterie.server.run import Options, begin_recorder, print_metrics, record
from coterie.testing.in_charge import any_server
from coterie.testing.secured import Secured
from coterie.testing.server_thread import ServerThread
from coterie.testing.users import Users

if TYPE_CHECKING:
    from coterie.recording.recorder import Recorder
    from coterie.server.logging import Logger
    from coterie.server.network.http_server import HttpServer


class Serving(NamedTuple):
    """How something is served.

    Attributes:
        options: those of the command.
        log: of the process.
        handles: how many files and connections may be open.
        when_fatal: called in the thread with the reason if the brokers cannot continue.
    """

    options: Options
    log: "Logger"
    handles: FileHandles
    when_fatal: Callable[[str], None]

    @property
    def data_dir(self) -> str | None:
        """The data directory; None in memory."""
        place = self.options.place
        return None if place.data_dir == IN_MEMORY else place.data_dir


class Served(Secured):
    """Something with the settings and the place of `coterie serve`."""

    _serving: Serving
    _metrics: "HttpServer | None" = None
    _recorder: "Recorder | None" = None

    def _serve_as(self, serving: Serving) -> None:
        """Take how it is served."""
        self._serving = serving
        # Those that are added and revoked; the others are settings or in the data directory.
        self._users = Users((), Mechanism.SCRAM_SHA_512)

    @property
    def has_certificates(self) -> bool:
        """Whether a listener has TLS."""
        return bool(any_server(self).tls_listeners)

    def print_ready(self) -> None:
        """Print the lines that say where it listens, and where its metrics are."""
        self._print_listening()
        if self._metrics is not None:
            print_metrics(self._serving.options, self._metrics.address)

    def _print_listening(self) -> None:
        raise NotImplementedError

    def _new_thread(self) -> ServerThread:
        # With random ids, which those of a test are not.
        return ServerThread(os.urandom)

    def _log(self) -> "Logger":
        return self._serving.log

    async def _begin_in_thread(self) -> None:
        await super()._begin_in_thread()
        options = self._serving.options
        if options.metrics_port is not None:
            self._metrics = await self._serve_metrics(options)
        # They are added once: after a restart there is what clients have changed since.
        once = options._replace(features={}, users=(), acls=())
        self._serving = self._serving._replace(options=once)

    def _record(self, server: Server, listeners: Mapping[int, Sequence[Listener]]) -> None:
        """Record the connections of a server that has not started, if that is wanted.

        A recording goes on after a restart, and its clock is put forward with that of the brokers.
        """
        if self._recorder is None:
            # The environment of a server ends with it.
            environment = self.thread.environment(self._log())
            self._recorder = begin_recorder(self._serving.options, environment, listeners)
        record(self._recorder, server)

    async def _serve_metrics(self, options: Options) -> "HttpServer":
        raise NotImplementedError

    async def _again(
        self, end: Coroutine[Any, Any, None], between: Callable[[], None] = lambda: None
    ) -> None:
        await super()._again(end, between)
        self._renew_users(self.servers)

    async def _finish_in_thread(self) -> list[str]:
        if self._metrics is not None:
            await self._metrics.stop()
        left = await super()._finish_in_thread()
        if self._recorder is not None:
            self._recorder.close()
        return left

    def _failed(self, fatal: "asyncio.Future[str]") -> None:
        if not fatal.cancelled():
            self._serving.when_fatal(fatal.result())
