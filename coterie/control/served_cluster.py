"""The brokers of `coterie serve --brokers N --control`: a cluster of a test, with the options of
the command.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coterie.control.serving import Served, Serving
from coterie.server.broker import Broker as Server
from coterie.server.config.listeners import Listener
from coterie.server.environment import Environment
from coterie.server.run import Options, open_shared_parts
from coterie.server.run_cluster import listeners_of, print_brokers_ready
from coterie.server.shared_parts import SharedParts
from coterie.testing.cluster import Cluster

if TYPE_CHECKING:
    from coterie.server.network.http_server import HttpServer


class ServedCluster(Served, Cluster):
    """A cluster with the settings and the place of `coterie serve`."""

    def __init__(self, serving: Serving) -> None:
        """Describe it."""
        options = serving.options
        super().__init__(
            options.brokers,
            data_dir=serving.data_dir,
            host=options.place.host,
            flush=str(options.flush),
        )
        self._serve_as(serving)
        self._release = options.release

    def _print_listening(self) -> None:
        print_brokers_ready(self._serving.options, list(self._addresses.values()))

    def _first_listeners(self, node_ids: Sequence[int]) -> dict[int, Sequence[Listener]]:
        place = self._serving.options.place
        return {node_id: listeners_of(place, number) for number, node_id in enumerate(node_ids)}

    def _shared_parts(self, environment: Environment) -> SharedParts:
        serving = self._serving
        shared = open_shared_parts(serving.options, environment, serving.handles, self.disk)
        shared.failures.fatal.add_done_callback(self._failed)
        return shared

    def _prepare_server(self, server: Server) -> None:
        # Behind the gate of a pause, which is laid around what is there already.
        self._record(server, self._first_listeners(server.shared.node_ids))
        super()._prepare_server(server)

    async def _serve_metrics(self, options: Options) -> "HttpServer":
        # Imported here, because most brokers serve no metrics.
        from coterie.server.metrics.serving import serve_cluster_metrics

        return await serve_cluster_metrics(
            lambda: self.server_cluster, options.metrics_address, options.http
        )
