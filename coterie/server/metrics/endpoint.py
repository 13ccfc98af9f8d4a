"""`GET /metrics`: the ASGI application that Prometheus scrapes.

`prometheus_client` negotiates the format with the scraper and renders the metrics. Concurrent
scrapes share one collection.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from coterie.server.network.http_application import HttpApplication
from coterie.server.network.http_errors import Kind, Refused
from coterie.server.network.http_exchange import Answer, Headers, Receive, Scope, Send

Collect = Callable[[], Awaitable[list[Metric]]]
RunBlocking = Callable[[Callable[[], bytes]], Awaitable[bytes]]

_PATH = "/metrics"


class Snapshot(Collector):
    """Metrics that have been collected, as `prometheus_client` takes them."""

    def __init__(self, metrics: list[Metric]) -> None:
        """Keep `metrics`, in their order."""
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        yield from self._metrics


class MetricsFailed(Exception):  # noqa: N818 - the name says what happened
    """The metrics could not be collected; why has been reported."""


class MetricsEndpoint(HttpApplication):
    """The application."""

    raised = {MetricsFailed: Kind(500, "the broker's log says why")}
    remedies = {
        "MethodNotAllowed": "use GET",
        "NotFound": f"ask for {_PATH}",
        "Unauthorized": "send the header `Authorization: Bearer TOKEN`, with --metrics-token",
    }

    def __init__(
        self,
        collect: Collect,
        report_failure: Callable[[BaseException], None],
        run_blocking: RunBlocking,
        token: str | None = None,
        *,
        is_local: bool = False,
    ) -> None:
        """Serve what `collect` returns.

        Args:
            collect: collects all metrics.
            report_failure: called if that fails; the scraper receives a 500.
            run_blocking: renders them, without holding the event loop.
            token: what scrapers send; None for nothing.
            is_local: whether the port is that of the loopback.
        """
        super().__init__(token, report_failure, is_local=is_local)
        self._collect = collect
        self._run_blocking = run_blocking
        self._collecting: asyncio.Task[list[Metric] | None] | None = None

    async def _serve(
        self,
        scope: Scope,
        headers: Headers,
        receive: Receive,  # noqa: ARG002 - nothing else is read
        send: Send,  # noqa: ARG002 - answers have one part
    ) -> Answer:
        if scope["method"] not in ("GET", "HEAD"):
            text = "only GET and HEAD are served"
            raise Refused("MethodNotAllowed", text, (b"allow", b"GET, HEAD"))
        if scope["path"] != _PATH:
            raise Refused("NotFound", f"only {_PATH} is served")
        self._check_token(headers)
        # A header may be there several times.
        accept = b",".join(value for name, value in scope["headers"] if name == b"accept")
        try:
            encode, content_type = choose_encoder(accept.decode("latin-1"))
        except (TypeError, ValueError):
            # prometheus_client raises these for a version that is no number.
            encode, content_type = choose_encoder("")
        if self._collecting is None:
            self._collecting = asyncio.create_task(self._collect_once())
        metrics = await self._collecting
        if metrics is None:
            raise MetricsFailed("the metrics could not be collected")
        # Thousands of topics take a second to render, and the event loop must not wait for that.
        body = await self._run_blocking(partial(encode, Snapshot(metrics)))
        return Answer(200, body, content_type)

    async def _collect_once(self) -> list[Metric] | None:
        try:
            return await self._collect()
        except Exception as error:  # noqa: BLE001 - a failed scrape must not end the broker
            self._report_failure(error)
            return None
        finally:
            self._collecting = None
