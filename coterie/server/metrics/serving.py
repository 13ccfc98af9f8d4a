"""Serving the metrics of a broker, or of several, over HTTP.

Most brokers serve none and start faster without importing this module.
"""

from collections.abc import Callable

from coterie.address import LOOPBACK, Address
from coterie.server.broker import Broker
from coterie.server.brokers import Cluster
from coterie.server.metrics.cluster_metrics import collect_brokers
from coterie.server.metrics.endpoint import Collect, MetricsEndpoint
from coterie.server.metrics.metrics import collect
from coterie.server.network.http_access import HttpAccess
from coterie.server.network.http_server import HttpServer
from coterie.server.shared_parts import SharedParts


async def serve_metrics(
    current: Callable[[], Broker], address: Address, access: HttpAccess
) -> HttpServer:
    """Serve the metrics of the only broker; return the server.

    Args:
        current: returns the broker, which may be another one after a restart.
        address: where to listen; the server then has the port that 0 has picked.
        access: how the port is secured.

    Raises:
        OSError: the address cannot be used.
    """
    return await _serve(lambda: collect(current()), lambda: current().shared, address, access)


async def serve_cluster_metrics(
    current: Callable[[], Cluster], address: Address, access: HttpAccess
) -> HttpServer:
    """Serve the metrics of several brokers at one address; see `serve_metrics`."""
    return await _serve(
        lambda: collect_brokers(current()), lambda: current().shared, address, access
    )


async def _serve(
    collect_all: Collect, current: Callable[[], SharedParts], address: Address, access: HttpAccess
) -> HttpServer:
    shared = current()

    async def run_blocking(work: Callable[[], bytes]) -> bytes:
        # In a thread of the present broker: those of one before it have ended.
        return await current().environment.run_blocking(work)

    endpoint = MetricsEndpoint(
        collect_all,
        lambda error: shared.log.error("metrics failed", exc_info=error),
        run_blocking,
        access.token,
        is_local=address.host in LOOPBACK,
    )
    server = HttpServer(endpoint, shared.loop, certificate=access.certificate)
    await server.start(*address)
    return server
