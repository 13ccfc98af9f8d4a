"""`GET /metrics`: the ASGI application that Prometheus scrapes.

`prometheus_client` negotiates the format with the scraper and renders the metrics. Concurrent
scrapes share one collection [metrics/collected-in-slices].
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any

from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from coterie.server.network.http_access import has_token

Collect = Callable[[], Awaitable[list[Metric]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
RunBlocking = Callable[[Callable[[], bytes]], Awaitable[bytes]]

_PATH = "/metrics"
_TEXT = "text/plain; charset=utf-8"


class Snapshot(Collector):
    """Metrics that have been collected, as `prometheus_client` takes them."""

    def __init__(self, metrics: list[Metric]) -> None:
        """Keep `metrics`, in their order."""
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        yield from self._metrics


class MetricsEndpoint:
    """The ASGI application."""

    def __init__(
        self,
        collect: Collect,
        report_failure: Callable[[Exception], None],
        run_blocking: RunBlocking,
        token: str | None = None,
    ) -> None:
        """Serve what `collect` returns.

        Args:
            collect: collects all metrics.
            report_failure: called if that fails; the scraper receives a 500.
            run_blocking: renders them, without holding the event loop.
            token: what scrapers send; None for nothing.
        """
        self._token = None if token is None else token.encode()
        self._collect = collect
        self._report_failure = report_failure
        self._run_blocking = run_blocking
        self._collecting: asyncio.Task[list[Metric] | None] | None = None

    async def __call__(
        self, scope: Mapping[str, Any], _receive: Callable[[], Awaitable[Any]], send: Send
    ) -> None:
        """Answer one request."""
        if scope["method"] not in ("GET", "HEAD"):
            await _respond(send, 405, b"only GET and HEAD are served\n", (b"allow", b"GET, HEAD"))
            return
        if scope["path"] != _PATH:
            await _respond(send, 404, f"only {_PATH} is served\n".encode())
            return
        if self._token is not None and not has_token(
            dict(scope["headers"]).get(b"authorization", b""), self._token
        ):
            header = (b"www-authenticate", b"Bearer")
            await _respond(send, 401, b"the token is missing or wrong\n", header)
            return
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
            text = b"the metrics could not be collected; the broker's log says why\n"
            await _respond(send, 500, text)
            return
        # Thousands of topics take a second to render, and the event loop must not wait for that.
        body = await self._run_blocking(partial(encode, Snapshot(metrics)))
        await _respond(send, 200, body, content_type=content_type)

    async def _collect_once(self) -> list[Metric] | None:
        try:
            return await self._collect()
        except Exception as error:  # noqa: BLE001 - a failed scrape must not end the broker
            self._report_failure(error)
            return None
        finally:
            self._collecting = None


async def _respond(
    send: Send,
    status: int,
    body: bytes,
    *headers: tuple[bytes, bytes],
    content_type: str = _TEXT,
) -> None:
    """Answer a request and close the connection."""
    head = [
        (b"content-type", content_type.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
