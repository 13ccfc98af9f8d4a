"""What a broker and a cluster of `coterie serve --control` have in common.

Both are those of a test, with the options of the command. They run in a thread, on asyncio's own
event loop, whose clock can be put forward.
"""

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from coterie.server.data_place import IN_MEMORY
from coterie.server.file_handles import FileHandles
from coterie.server.run import Options, print_metrics
from coterie.testing.lifetime import Lifetime
from coterie.testing.server_thread import ServerThread

if TYPE_CHECKING:
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


class Served(Lifetime):
    """Something with the settings and the place of `coterie serve`."""

    _serving: Serving
    _metrics: "HttpServer | None" = None

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

    async def _finish_in_thread(self) -> list[str]:
        if self._metrics is not None:
            await self._metrics.stop()
        return await super()._finish_in_thread()

    def _failed(self, fatal: "asyncio.Future[str]") -> None:
        if not fatal.cancelled():
            self._serving.when_fatal(fatal.result())
