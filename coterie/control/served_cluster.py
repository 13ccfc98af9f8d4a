"""The brokers of `coterie serve --brokers N --control`: a cluster of a test, with the options of
the command.
"""

from collections.abc import Sequence

from coterie.control.serving import Served, Serving
from coterie.server.config.listeners import Listener
from coterie.server.run import begin_with, open_shared_parts
from coterie.server.run_cluster import listeners_of, print_brokers_ready
from coterie.server.shared_parts import SharedParts
from coterie.testing.cluster import Cluster
from coterie.testing.disk_workers import DiskEnvironment


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
        self._serving = serving
        self._release = options.release

    @property
    def has_certificates(self) -> bool:
        """Whether a listener has TLS."""
        return bool(self.server_cluster.any_broker.tls_listeners)

    def _print_listening(self) -> None:
        print_brokers_ready(self._serving.options, list(self._addresses.values()))

    def _listeners(self, node_ids: Sequence[int]) -> dict[int, Sequence[Listener]]:
        place = self._serving.options.place
        return {node_id: listeners_of(place, number) for number, node_id in enumerate(node_ids)}

    def _shared_parts(self) -> SharedParts:
        serving = self._serving
        environment = DiskEnvironment(self.thread.environment(serving.log), self._interception)
        shared = open_shared_parts(serving.options, environment, serving.handles, self.disk)
        shared.failures.fatal.add_done_callback(self._failed)
        return shared

    async def _begin_in_thread(self) -> None:
        await super()._begin_in_thread()
        options = self._serving.options
        begin_with(self.server_cluster.any_broker, options)
        if options.metrics_port is not None:
            # Imported here, because most brokers serve no metrics.
            from coterie.server.metrics.serving import serve_cluster_metrics

            self._metrics = await serve_cluster_metrics(
                self.server_cluster, options.metrics_address, options.http
            )
