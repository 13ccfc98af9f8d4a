"""The broker of `coterie serve --control`: that of a test, with the options of the command.

Several brokers are in `served_cluster`.
"""

from typing import TYPE_CHECKING

from coterie.control.serving import Served, Serving
from coterie.server.broker import Broker as Server
from coterie.server.environment import Environment
from coterie.server.listening import CannotStart
from coterie.server.run import Options, open_broker, print_ready
from coterie.testing.broker import Broker

if TYPE_CHECKING:
    from coterie.server.network.http_server import HttpServer


class ServedBroker(Served, Broker):
    """A broker with the settings and the place of `coterie serve`."""

    def __init__(self, serving: Serving) -> None:
        """Describe it."""
        options, place = serving.options, serving.options.place
        super().__init__(
            data_dir=serving.data_dir, host=place.host, port=place.port, flush=str(options.flush)
        )
        self._serve_as(serving)
        self._listeners = place.listeners

    def _print_listening(self) -> None:
        print_ready(self._serving.options, [each.address for each in self._listeners])

    async def _serve_metrics(self, options: Options) -> "HttpServer":
        # Imported here, because most brokers serve no metrics.
        from coterie.server.metrics.serving import serve_metrics

        return await serve_metrics(lambda: self.server, options.metrics_address, options.http)

    def _make(self, environment: Environment) -> Server:
        serving = self._serving
        server = open_broker(serving.options, environment, serving.handles, self.disk)
        server.fatal.add_done_callback(self._failed)
        try:
            self._record(server, {server.node_id: self._listeners})
        except CannotStart:
            server.shared.close()
            raise
        return server
