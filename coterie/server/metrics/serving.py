"""Serving the metrics of a broker over HTTP.

Most brokers serve none and start faster without importing this module.
"""

from coterie.server.broker import Broker
from coterie.server.metrics.endpoint import MetricsEndpoint
from coterie.server.metrics.metrics import collect
from coterie.server.network.http_access import OPEN, HttpAccess
from coterie.server.network.http_server import HttpServer


async def serve_metrics(
    broker: Broker, host: str, port: int, access: HttpAccess = OPEN
) -> HttpServer:
    """Serve the metrics; return the server, whose address has the port that 0 has picked.

    Raises:
        OSError: the address cannot be used.
    """
    endpoint = MetricsEndpoint(
        lambda: collect(broker),
        lambda error: broker.log.error("metrics failed", exc_info=error),
        broker.environment.run_blocking,
        access.token,
    )
    server = HttpServer(endpoint, broker.loop, certificate=access.certificate)
    await server.start(host, port)
    return server
