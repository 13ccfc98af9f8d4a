"""The brokers of `coterie serve --brokers N --control`: a cluster of a test, with the options of
the command.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from coterie.server.config.listeners import Listener
from coterie.server.data_place import IN_MEMORY
from coterie.server.file_handles import FileHandles
from coterie.server.run import Options, begin_with, open_shared_parts, print_metrics
from coterie.server.run_cluster import listeners_of, print_brokers_ready
from coterie.server.shared_parts import SharedParts
from coterie.testing.cluster import Cluster
from coterie.testing.disk_workers import DiskEnvironment
from coterie.testing.server_thread import ServerThread

if TYPE_CHECKING:
    from coterie.server.logging import Logger
    from coterie.server.network.http_server import HttpServer


class ServedCluster(Cluster):
    """A cluster with the settings and the place of `coterie serve`."""

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
            when_fatal: called in the thread with the reason if the brokers cannot continue.
        """
        place = options.place
        data_dir = None if place.data_dir == IN_MEMORY else place.data_dir
        super().__init__(
            options.brokers, data_dir=data_dir, host=place.host, flush=str(options.flush)
        )
        self._release = options.release
        self._options = options
        self._process_log = log
        self._handles = handles
        self._when_fatal = when_fatal
        self._metrics: HttpServer | None = None

    @property
    def has_certificates(self) -> bool:
        """Whether a listener has TLS."""
        return bool(self.server_cluster.any_broker.tls_listeners)

    def print_ready(self) -> None:
        """Print the lines that say where they listen, and where their metrics are."""
        print_brokers_ready(self._options, list(self._addresses.values()))
        if self._metrics is not None:
            print_metrics(self._options, self._metrics.address)

    def _new_thread(self) -> ServerThread:
        # With random ids, which those of a test are not.
        return ServerThread(os.urandom)

    def _listeners(self, node_ids: Sequence[int]) -> dict[int, Sequence[Listener]]:
        place = self._options.place
        return {node_id: listeners_of(place, number) for number, node_id in enumerate(node_ids)}

    def _shared_parts(self) -> SharedParts:
        environment = DiskEnvironment(
            self.thread.environment(self._process_log), self._interception
        )
        shared = open_shared_parts(self._options, environment, self._handles, self.disk)
        shared.failures.fatal.add_done_callback(self._failed)
        return shared

    async def _begin_in_thread(self) -> None:
        await super()._begin_in_thread()
        begin_with(self.server_cluster.any_broker, self._options)
        if self._options.metrics_port is not None:
            # Imported here, because most brokers serve no metrics.
            from coterie.server.metrics.serving import serve_cluster_metrics

            self._metrics = await serve_cluster_metrics(
                self.server_cluster, self._options.metrics_address, self._options.http
            )

    async def _finish_in_thread(self) -> list[str]:
        if self._metrics is not None:
            await self._metrics.stop()
        return await super()._finish_in_thread()

    def _failed(self, fatal: "asyncio.Future[str]") -> None:
        if not fatal.cancelled():
            self._when_fatal(fatal.result())
