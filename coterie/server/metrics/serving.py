"""Serving the metrics of a broker, or of several, over HTTP.

Most brokers serve none and start faster without importing this module.
"""

from collections.abc import Callable

from coterie.server.broker import Broker
from coterie.server.brokers import Cluster
from coterie.server.metrics.cluster_metrics import collect_brokers
from coterie.server.metrics.endpoint import Collect, MetricsEndpoint
from coterie.server.metrics.metrics import collect
from coterie.server.network.http_server import HttpServer
from coterie.server.run import CannotStart, Options, listening_failed
from coterie.server.shared_parts import SharedParts


async def serve_metrics(current: Callable[[], Broker], options: Options) -> HttpServer:
    """Serve the metrics of the only broker; return the server.

    Args:
        current: returns the broker, which may be another one after a restart.
        options: say where.

    Raises:
        CannotStart: the address cannot be used.
    """
    return await _serve(lambda: collect(current()), current().shared, options)


async def serve_cluster_metrics(cluster: Cluster, options: Options) -> HttpServer:
    """Serve the metrics of several brokers at one address; see `serve_metrics`."""
    return await _serve(lambda: collect_brokers(cluster), cluster.shared, options)


async def _serve(collect_all: Collect, shared: SharedParts, options: Options) -> HttpServer:
    environment, access = shared.environment, options.http
    endpoint = MetricsEndpoint(
        collect_all,
        lambda error: environment.log.error("metrics failed", exc_info=error),
        environment.run_blocking,
        access.token,
    )
    server = HttpServer(endpoint, environment.loop, certificate=access.certificate)
    try:
        # The server then has the port that 0 has picked.
        await server.start(*options.metrics_address)
    except OSError as error:
        text = listening_failed(options.metrics_address, "--metrics-port", error)
        raise CannotStart(text) from error
    return server
