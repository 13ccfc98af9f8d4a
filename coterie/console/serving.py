"""A console that is served: a thread with an event loop of its own.

Whatever the console does, the process beside it (a broker, a test, or only the command) goes on.
"""

import asyncio
import secrets
import threading
from typing import Self

from coterie.address import LOOPBACK, Address
from coterie.console.application import THREADS, ConsoleApplication
from coterie.console.hub import report_failure
from coterie.console.places import Place
from coterie.server.network.http_server import Bounds, HttpServer

# A browser opens six connections to one address at most; twenty pages may be open.
_BOUNDS = Bounds(connections=6 * 20, request_s=10.0, answer_s=86_400.0)
_TOKEN_BYTES = 24
_STOP_S = 10.0

assert _BOUNDS.connections > THREADS


class ConsoleServer:
    """A running console. It is a context manager.

    Attributes:
        address: where it listens.
        token: what a page sends.
    """

    def __init__(self, place: Place, port: int = 0, host: str = LOOPBACK[0]) -> None:
        """Listen, and serve until `close`.

        Args:
            place: what it looks at; closed with the console.
            port: 0 for a free one.
            host: an address of the loopback.

        Raises:
            OSError: the address cannot be used.
        """
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._place = place
        self._application = ConsoleApplication(place, self.token, report_failure)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="coterie-console-loop", daemon=True
        )
        self._thread.start()
        self._server = HttpServer(self._application, self._loop, _BOUNDS)
        try:
            asyncio.run_coroutine_threadsafe(self._server.start(host, port), self._loop).result()
        except BaseException:
            self._end()
            raise
        self.address: Address = self._server.address

    @property
    def url(self) -> str:
        """The address for a browser; the token is in the fragment, which is never sent."""
        return f"http://{self.address}/#token={self.token}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cut the pages off and end the thread."""
        stopping = asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop)
        stopping.result(_STOP_S)
        self._end()

    def _end(self) -> None:
        self._place.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S)
        self._loop.close()
