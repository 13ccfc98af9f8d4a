"""GET /metrics over real sockets: what Prometheus reads, and what any peer may send."""

import asyncio
import json
import logging
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from coterie.server.metrics.endpoint import Collect, MetricsEndpoint
from coterie.server.network.http_server import (
    CONNECTIONS,
    HEADER_BYTES,
    METRICS_BOUNDS,
    Bounds,
    HttpServer,
)

PATIENCE_S = 60.0
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"


def new_server(collect: Collect, report_failure: Callable[[BaseException], None]) -> HttpServer:
    endpoint = MetricsEndpoint(collect, report_failure, asyncio.to_thread)
    return HttpServer(endpoint, asyncio.get_running_loop())


@asynccontextmanager
async def listening(
    collect: Collect, failures: list[BaseException] | None = None, bounds: Bounds = METRICS_BOUNDS
) -> AsyncIterator[int]:
    failures = [] if failures is None else failures
    endpoint = MetricsEndpoint(collect, failures.append, asyncio.to_thread)
    server = HttpServer(endpoint, asyncio.get_running_loop(), bounds)
    port = await server.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        await server.stop()


async def some_metrics() -> list[Metric]:
    return [GaugeMetricFamily("a", "A.", 1)]


BODY = b"# HELP a A.\n# TYPE a gauge\na 1.0\n"


async def ask(port: int, request: bytes) -> bytes:
    """Return everything that the server answers to `request` before it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def fetched(collect: Collect, path: str = "/metrics", **headers: str) -> tuple[str, str]:
    """Return content type and body as urllib receives them."""

    async def go() -> tuple[str, str]:
        async with listening(collect) as port:
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)

            def fetch() -> tuple[str, str]:
                with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                    assert response.status == 200
                    return response.headers["Content-Type"], response.read().decode()

            return await asyncio.to_thread(fetch)

    return asyncio.run(go())


class TestFormats:
    async def awkward(self) -> list[Metric]:
        done = CounterMetricFamily("done", "By name.", labels=["name"])
        done.add_metric(['a "name" with \\ and\na line'], 7)
        done.add_metric(["é"], 0)
        return [
            GaugeMetricFamily("temperature", "How warm: a \\ and a\nline.", 21.5),
            CounterMetricFamily("things", "Things.", 3),
            done,
            GaugeMetricFamily("large", "Beyond 2^53.", 2**60),
            GaugeMetricFamily("none", "No sample yet.", labels=["name"]),
            # OpenMetrics gives this suffix a meaning, which must not change a gauge of this name.
            GaugeMetricFamily("connection_count", "Connections.", 4),
        ]

    @pytest.mark.parametrize(
        ("accept", "content_type", "parse"),
        [
            ("", PLAIN, text_string_to_metric_families),
            ("*/*", PLAIN, text_string_to_metric_families),
            (
                "application/openmetrics-text;version=1.0.0",
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                openmetrics_families,
            ),
            ("text/plain;version=abc", PLAIN, text_string_to_metric_families),
        ],
    )
    def test_prometheus_own_parser_reads_the_metrics(
        self, accept: str, content_type: str, parse: Callable[[str], list[Metric]]
    ) -> None:
        answered, text = fetched(self.awkward, Accept=accept)
        assert answered.startswith(content_type)
        read = {family.name: family for family in parse(text)}
        assert read["temperature"].documentation == "How warm: a \\ and a\nline."
        assert read["temperature"].samples[0].value == 21.5
        assert (read["things"].type, read["things"].samples[0].value) == ("counter", 3)
        assert read["things"].samples[0].name == "things_total"
        values = {sample.labels["name"]: sample.value for sample in read["done"].samples}
        assert values == {'a "name" with \\ and\na line': 7, "é": 0}
        assert read["large"].samples[0].value == 2**60
        assert read["none"].samples == []
        assert read["connection_count"].samples[0].value == 4

    def test_without_accept_header_the_answer_is_plain_text(self) -> None:
        assert fetched(some_metrics) == (PLAIN, BODY.decode())
        assert fetched(some_metrics, "/metrics?name=a") == (PLAIN, BODY.decode())


def refused(kind: str, text: str) -> bytes:
    """Return the body of a refusal."""
    body = {"error": text, "remedy": MetricsEndpoint.remedies[kind], "kind": kind}
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    ("request_bytes", "status", "body"),
    [
        (GET, 200, BODY),
        (b"GET /metrics?name=a HTTP/1.0\r\n\r\n", 200, BODY),
        (b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200, b""),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404, refused("NotFound", "only /metrics is served")),
        (
            b"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
            405,
            refused("MethodNotAllowed", "only GET and HEAD are served"),
        ),
        (b"nonsense\r\n\r\n", 400, b"Invalid HTTP request received."),
        (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03 \r\n\r\n", 400, None),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * HEADER_BYTES + b"\r\n\r\n", 400, None),
        (b"x" * (HEADER_BYTES + 1), 400, None),
        (GET + GET, 200, BODY),
    ],
)
def test_every_request_gets_one_answer_and_the_end(
    request_bytes: bytes, status: int, body: bytes | None
) -> None:
    async def go() -> bytes:
        async with listening(some_metrics) as port:
            return await ask(port, request_bytes)

    head, _, content = asyncio.run(go()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nconnection: close" in head.lower()
    assert body is None or content == body


def test_a_request_may_arrive_byte_by_byte() -> None:
    async def go() -> None:
        async with listening(some_metrics) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for at in range(len(GET)):
                writer.write(GET[at : at + 1])
                await writer.drain()
                await asyncio.sleep(0)
            assert (await reader.read()).endswith(BODY)
            writer.close()

    asyncio.run(go())


@pytest.mark.parametrize("answer_s", [None, PATIENCE_S])
@pytest.mark.parametrize("sent", [b"", GET[:-1], GET[:3]])
def test_an_incomplete_request_is_cut_at_the_deadline(sent: bytes, answer_s: float | None) -> None:
    async def go() -> None:
        bounds = Bounds(request_s=0.05, answer_s=answer_s)
        async with listening(some_metrics, bounds=bounds) as port:
            assert await ask(port, sent) == b""

    asyncio.run(go())


@pytest.mark.parametrize(
    "bounds", [Bounds(request_s=0.05), Bounds(answer_s=0.05)], ids=["as a whole", "of its own"]
)
def test_a_slow_answer_is_cut_at_its_deadline(bounds: Bounds) -> None:
    async def never() -> list[Metric]:
        await asyncio.Event().wait()
        return []

    async def go() -> None:
        async with listening(never, bounds=bounds) as port:
            assert not (await ask(port, GET)).startswith(b"HTTP/1.1 200 ")

    asyncio.run(go())


def test_a_complete_request_may_wait_longer_than_its_sending() -> None:
    late_s = 0.0

    async def slow() -> list[Metric]:
        nonlocal late_s
        late_s = 0.75 * PATIENCE_S
        # Two turns: what is due now is called in the first.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return await some_metrics()

    async def go() -> None:
        loop = asyncio.get_running_loop()
        loop_s = loop.time
        # The clock of the loop jumps over the deadline of the sending while the answer is made.
        loop.time = lambda: loop_s() + late_s  # type: ignore[method-assign]
        bounds = Bounds(request_s=PATIENCE_S / 2, answer_s=3 * PATIENCE_S)
        async with listening(slow, bounds=bounds) as port:
            assert (await ask(port, GET)).endswith(BODY)

    asyncio.run(go())


def test_connections_are_bounded_and_metrics_collected_once_for_all() -> None:
    collected = 0

    async def go() -> None:
        began, go_on = asyncio.Event(), asyncio.Event()

        async def slowly() -> list[Metric]:
            nonlocal collected
            collected += 1
            began.set()
            await go_on.wait()
            return await some_metrics()

        async with listening(slowly) as port:
            asking = [asyncio.create_task(ask(port, GET)) for _ in range(CONNECTIONS)]
            await began.wait()
            # The connection above the limit is closed without an answer.
            assert await ask(port, GET) == b""
            go_on.set()
            answers = await asyncio.gather(*asking)
            assert all(answer.endswith(BODY) for answer in answers)
            assert collected == 1
            assert (await ask(port, GET)).endswith(BODY)
            assert collected == 2

    asyncio.run(go())


def test_a_failure_is_reported_and_the_next_request_is_served() -> None:
    failures: list[BaseException] = []
    broken = True

    async def collect() -> list[Metric]:
        if broken:
            raise ValueError("no number")
        return await some_metrics()

    async def go() -> None:
        nonlocal broken
        async with listening(collect, failures) as port:
            assert (await ask(port, GET)).startswith(b"HTTP/1.1 500 ")
            broken = False
            assert (await ask(port, GET)).startswith(b"HTTP/1.1 200 ")
        assert [str(error) for error in failures] == ["no number"]

    asyncio.run(go())


def test_stopping_cuts_waiting_requests_at_once() -> None:
    async def go() -> None:
        collecting = asyncio.Event()

        async def never() -> list[Metric]:
            collecting.set()
            await asyncio.Event().wait()
            return []

        # If the stop waited for the bounds of the requests, it would take longer than the test.
        bounds = Bounds(request_s=10 * PATIENCE_S)
        async with listening(never, bounds=bounds) as port:
            asking = asyncio.create_task(ask(port, GET))
            idle = asyncio.create_task(ask(port, b""))
            await collecting.wait()
        assert not (await asking).startswith(b"HTTP/1.1 200 ")
        assert await idle == b""
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(go())


def test_a_port_in_use_is_an_error() -> None:
    async def go() -> None:
        async with listening(some_metrics) as port:
            server = HttpServer(
                MetricsEndpoint(some_metrics, print, asyncio.to_thread), asyncio.get_running_loop()
            )
            with pytest.raises(OSError, match="ddress already in use"):
                await server.start("127.0.0.1", port)
            await server.stop()

    asyncio.run(go())


def test_every_address_of_a_name_is_served() -> None:
    async def go() -> None:
        server = HttpServer(
            MetricsEndpoint(some_metrics, print, asyncio.to_thread), asyncio.get_running_loop()
        )
        port = await server.start("localhost", 0)
        try:
            for address in await asyncio.get_running_loop().getaddrinfo("localhost", port):
                reader, writer = await asyncio.open_connection(*address[4][:2])
                writer.write(GET)
                assert (await reader.read()).endswith(BODY)
                writer.close()
        finally:
            await server.stop()

    asyncio.run(go())


def test_urllib_sees_404_for_other_paths() -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        fetched(some_metrics, "/")
    caught.value.close()
    assert caught.value.code == 404


def test_signals_and_logging_of_the_process_stay_untouched(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def state() -> list[object]:
        loggers = [logging.getLogger(name) for name in ("", "uvicorn", "uvicorn.access")]
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        return [
            *handlers,
            *((each.handlers[:], each.level, each.propagate) for each in loggers),
        ]

    before = state()
    during: list[object] = []

    async def go() -> None:
        async with listening(some_metrics) as port:
            before_requests = signal.getsignal(signal.SIGTERM)
            during.extend([before_requests, await ask(port, b"nonsense\r\n\r\n")])
            await ask(port, GET)

    asyncio.run(go())
    assert during[0] == signal.getsignal(signal.SIGTERM)
    assert state() == before
    # In its debug mode asyncio warns of slow callbacks.
    ours = [each for each in caplog.records if each.name != "asyncio"]
    assert [each for each in ours if each.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"Host: 127.0.0.1:9404\r\n", 200),
        (b"Host: broker.example\r\n", 403),
        (b"", 403),
        (b"Host: localhost\r\nOrigin: http://localhost\r\n", 200),
        (b"Host: localhost\r\nOrigin: http://evil.example\r\n", 403),
    ],
)
def test_on_the_loopback_no_web_page_reaches_the_metrics(headers: bytes, status: int) -> None:
    async def go() -> bytes:
        endpoint = MetricsEndpoint(some_metrics, print, asyncio.to_thread, is_local=True)
        server = HttpServer(endpoint, asyncio.get_running_loop())
        port = await server.start("127.0.0.1", 0)
        try:
            return await ask(port, b"GET /metrics HTTP/1.0\r\n" + headers + b"\r\n")
        finally:
            await server.stop()

    assert asyncio.run(go()).startswith(b"HTTP/1.1 %d " % status)
