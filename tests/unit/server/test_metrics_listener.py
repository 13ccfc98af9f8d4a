"""GET /metrics over real sockets: the text as Prometheus reads it, and what a stranger may send."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from coterie.server.metrics import listener as metrics_listener
from coterie.server.metrics.exposition import CONTENT_TYPE, Family, by_label, counter, gauge, render
from coterie.server.metrics.listener import CONNECTIONS, REQUEST_BYTES, MetricsListener

PATIENCE_S = 20.0
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


class TestText:
    def test_prometheus_own_parser_reads_what_was_meant(self) -> None:
        awkward = 'a "name" with \\ and\na line'
        families = [
            gauge("temperature", "How warm: a \\ and a\nline.", 21.5),
            counter("things_total", "Things.", 3),
            by_label("counter", "done_total", "By name.", "name", [(awkward, 7), ("é", 0)]),
            Family("both", "gauge", "Two labels.", [((("a", "1"), ("b", "2")), -1)]),
            gauge("large", "Beyond 2^53.", 2**60),
            by_label("gauge", "none", "No sample yet.", "name", []),
        ]
        read = {
            family.name: family
            for family in text_string_to_metric_families(render(families).decode())
        }
        assert read["temperature"].documentation == "How warm: a \\ and a\nline."
        assert read["temperature"].samples[0].value == 21.5
        assert (read["things"].type, read["things"].samples[0].value) == ("counter", 3)
        values = {sample.labels["name"]: sample.value for sample in read["done"].samples}
        assert values == {awkward: 7, "é": 0}
        assert read["both"].samples[0].labels == {"a": "1", "b": "2"}
        assert read["large"].samples[0].value == 2**60
        assert read["none"].samples == []

    def test_whole_numbers_have_no_exponent(self) -> None:
        assert render([gauge("g", "G.", 1e18)]).endswith(b"\ng 1000000000000000000\n")
        assert render([gauge("g", "G.", 0.25)]).endswith(b"\ng 0.25\n")


@asynccontextmanager
async def listening(
    collect: Callable[[], Awaitable[bytes]], failures: list[Exception] | None = None
) -> AsyncIterator[int]:
    loop = asyncio.get_running_loop()
    told = failures if failures is not None else []
    listener = MetricsListener(loop, collect, told.append)
    port = await listener.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        listener.stop()


async def some_metrics() -> bytes:
    return b"a 1\n"


async def ask(port: int, request: bytes) -> bytes:
    """Everything the listener says to these bytes, until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def test_an_ordinary_client_is_answered() -> None:
    async def go() -> None:
        async with listening(some_metrics) as port:
            url = f"http://127.0.0.1:{port}/metrics"

            def fetch() -> tuple[int, str, bytes]:
                with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
                    return response.status, response.headers["Content-Type"], response.read()

            assert await asyncio.to_thread(fetch) == (200, CONTENT_TYPE, b"a 1\n")

    asyncio.run(go())


@pytest.mark.parametrize(
    ("request_bytes", "status", "body"),
    [
        (GET, 200, b"a 1\n"),
        (b"GET /metrics?name=a HTTP/1.0\r\n\r\n", 200, b"a 1\n"),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", 200, b""),
        (b"GET / HTTP/1.1\r\n\r\n", 404, b"there is only /metrics\n"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405, b"only GET and HEAD\n"),
        (b"nonsense\r\n\r\n", 400, b"this is no HTTP request\n"),
        (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03 \r\n\r\n", 400, b"this is no HTTP request\n"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * REQUEST_BYTES + b"\r\n\r\n", 431, b""),
        (b"x" * (REQUEST_BYTES + 1), 431, b""),
        (GET + GET, 200, b"a 1\n"),
    ],
)
def test_one_answer_and_the_end(request_bytes: bytes, status: int, body: bytes) -> None:
    async def go() -> bytes:
        async with listening(some_metrics) as port:
            return await ask(port, request_bytes)

    head, _, content = asyncio.run(go()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nConnection: close" in head
    assert content == body


def test_a_request_may_come_byte_by_byte() -> None:
    async def go() -> None:
        async with listening(some_metrics) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for at in range(len(GET)):
                writer.write(GET[at : at + 1])
                await writer.drain()
                await asyncio.sleep(0)
            assert (await reader.read()).endswith(b"a 1\n")
            writer.close()

    asyncio.run(go())


def test_who_says_nothing_is_cut_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_listener, "DEADLINE_S", 0.05)

    async def go() -> None:
        async with listening(some_metrics) as port:
            assert await ask(port, GET[:-1]) == b""

    asyncio.run(go())


def test_connections_are_bounded_and_the_metrics_gathered_once_for_all() -> None:
    gathered = 0
    gathering, go_on = asyncio.Event(), asyncio.Event()

    async def slowly() -> bytes:
        nonlocal gathered
        gathered += 1
        gathering.set()
        await go_on.wait()
        return b"a 1\n"

    async def go() -> None:
        async with listening(slowly) as port:
            asking = [asyncio.create_task(ask(port, GET)) for _ in range(CONNECTIONS)]
            await gathering.wait()
            # The one too many is closed unanswered, and only when the others are connected.
            assert await ask(port, GET) == b""
            go_on.set()
            answers = await asyncio.gather(*asking)
            assert all(answer.endswith(b"a 1\n") for answer in answers)
            assert gathered == 1
            assert (await ask(port, GET)).endswith(b"a 1\n")
            assert gathered == 2

    asyncio.run(go())


def test_a_failure_is_told_and_not_the_end() -> None:
    failures: list[Exception] = []
    wrong = True

    async def collect() -> bytes:
        if wrong:
            raise ValueError("no number")
        return b"a 1\n"

    async def go() -> None:
        nonlocal wrong
        async with listening(collect, failures) as port:
            assert (await ask(port, GET)).startswith(b"HTTP/1.1 500 ")
            wrong = False
            assert (await ask(port, GET)).startswith(b"HTTP/1.1 200 ")
        assert [str(error) for error in failures] == ["no number"]

    asyncio.run(go())


def test_stopping_cuts_who_waits() -> None:
    gathering = asyncio.Event()

    async def never() -> bytes:
        gathering.set()
        await asyncio.Event().wait()
        return b""

    async def go() -> None:
        async with listening(never) as port:
            asking = asyncio.create_task(ask(port, GET))
            await gathering.wait()
        assert not (await asking).startswith(b"HTTP/1.1 200 ")

    asyncio.run(go())


def test_a_port_that_is_taken_is_an_error() -> None:
    async def go() -> None:
        async with listening(some_metrics) as port:
            listener = MetricsListener(asyncio.get_running_loop(), some_metrics, print)
            with pytest.raises(OSError, match="address already in use"):
                await listener.start("127.0.0.1", port)

    asyncio.run(go())


def test_urllib_is_told_of_other_paths() -> None:
    async def go() -> None:
        async with listening(some_metrics) as port:

            def fetch() -> int:
                with pytest.raises(urllib.error.HTTPError) as caught:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE_S)
                caught.value.close()
                return caught.value.code

            assert await asyncio.to_thread(fetch) == 404

    asyncio.run(go())
