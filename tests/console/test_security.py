"""Who may ask a console, and what it tells: every row, its files, and malformed requests.

A request is refused for its Host, for its Origin, without the token, and if it changes something in
a console that is read-only. No answer is without the content security policy, or has the token.
"""

import json
import re
import socket
from collections.abc import Iterator
from importlib.resources import files

import pytest

from coterie.client.cluster import Cluster
from coterie.console import serving
from coterie.console.api import CONTROL_ROUTES, ROUTES
from coterie.console.application import POLICY
from coterie.console.places import Place
from coterie.console.routes import Route
from coterie.console.serving import ConsoleServer
from coterie.control.console_control import ConsoleControl
from coterie.control.control import Control
from coterie.server.network.http_exchange import BODY_BYTES
from coterie.server.network.http_server import HEADER_BYTES, Bounds
from coterie.testing import Broker
from tests.console.raw_requests import (
    LIMIT_S,
    Answered,
    ask,
    body_of,
    exchange,
    head,
    path_of,
    received,
)

# A console whose broker has a control has more rows, and no others.
EVERY = (*ROUTES, *CONTROL_ROUTES)
ALL_ROWS = pytest.mark.parametrize("route", EVERY, ids=lambda each: f"{each.method} {each.path}")


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    """A broker with a topic."""
    with Broker(topics={"orders": 2}) as running:
        yield running


@pytest.fixture(scope="module")
def console(kafka: Broker) -> Iterator[ConsoleServer]:
    """A console of it, which is read-only, with a control."""
    servers, control = kafka.bootstrap_servers, ConsoleControl(Control(kafka))
    place = Place(lambda: Cluster(servers, LIMIT_S), servers, control=control)
    with ConsoleServer(place) as running:
        yield running


def refused(answered: Answered, status: int, kind: str) -> None:
    assert (answered.status, answered.json["kind"]) == (status, kind), answered.body
    assert answered.json["error"]
    assert answered.json["remedy"]
    guarded(answered)


def guarded(answered: Answered) -> None:
    """Check the headers that every answer has."""
    assert answered.headers["content-security-policy"] == POLICY
    assert answered.headers["x-content-type-options"] == "nosniff"
    assert answered.headers["referrer-policy"] == "no-referrer"
    assert answered.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answered.headers
    names = [name for name, _ in answered.lines]
    assert len(names) == len(set(names)), "a header that is there twice may be read in two ways"


def asked(console: ConsoleServer, route: Route, **headers: str | None) -> Answered:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(console, route.method, path_of(route), body_of(route), headers=given)


# --- every row ------------------------------------------------------------------------------------


@ALL_ROWS
def test_foreign_host_is_refused(console: ConsoleServer, route: Route) -> None:
    port = console.address.port
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", "[::2]"):
        refused(asked(console, route, Host=host), 403, "HostRefused")


@ALL_ROWS
def test_page_of_another_origin_is_refused(console: ConsoleServer, route: Route) -> None:
    port = console.address.port
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", f"ftp://127.0.0.1:{port}"):
        refused(asked(console, route, Origin=origin), 403, "OriginRefused")


@ALL_ROWS
def test_token_is_needed(console: ConsoleServer, route: Route) -> None:
    for given in (None, "", "Bearer", "Bearer wrong", f"Basic {console.token}", console.token):
        refused(asked(console, route, Authorization=given), 401, "Unauthorized")
    # No row reads a token from elsewhere: what is in an address is in histories and logs.
    path = f"{path_of(route)}?token={console.token}"
    cookie = {"Authorization": None, "Cookie": f"token={console.token}"}
    answered = ask(console, route.method, path, body_of(route), headers=cookie)
    refused(answered, 401, "Unauthorized")


@ALL_ROWS
def test_other_methods_are_refused(console: ConsoleServer, route: Route) -> None:
    other = "GET" if route.method == "POST" else "POST"
    for method in (other, "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        answered = ask(console, method, path_of(route))
        refused(answered, 405, "MethodNotAllowed")
        assert route.method in answered.headers["allow"]


@ALL_ROWS
def test_unknown_parameter_is_refused(console: ConsoleServer, route: Route) -> None:
    if route.changes:
        pytest.skip("a console that is read-only refuses the row before it reads the parameters")
    if route.method == "POST":
        answered = ask(console, "POST", path_of(route), {**(body_of(route) or {}), "nothing": 1})
    else:
        answered = ask(console, "GET", f"{path_of(route)}?nothing=1")
    refused(answered, 400, "BadRequest")


@pytest.mark.parametrize(
    "route", [each for each in EVERY if each.changes], ids=lambda each: each.path
)
def test_change_is_refused_while_read_only(console: ConsoleServer, route: Route) -> None:
    for body in (body_of(route), {}, b"no JSON"):
        answered = ask(console, "POST", path_of(route), body)
        refused(answered, 403, "ReadOnly")


def test_only_post_changes() -> None:
    assert [each.path for each in EVERY if each.changes and each.method != "POST"] == []


# --- what is served -------------------------------------------------------------------------------


def test_own_page_is_served(console: ConsoleServer) -> None:
    port = console.address.port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}"):
        headers = {"Host": host, "Origin": f"http://{host}"}
        answered = ask(console, "GET", "/api/cluster", headers=headers)
        assert answered.status == 200, answered.body
        guarded(answered)
        assert answered.headers["content-type"] == "application/json"


def test_files_are_served_without_token_and_have_no_data(console: ConsoleServer) -> None:
    assets = files("coterie.console") / "assets"
    names = [each.name for each in assets.iterdir() if each.is_file()]
    assert "index.html" in names
    for name in ["", *names]:
        answered = ask(console, "GET", f"/{name}", headers={"Authorization": None})
        assert answered.status == 200, name
        guarded(answered)
        assert answered.body == (assets / (name or "index.html")).read_bytes()


def test_policy_has_no_exceptions() -> None:
    assert "unsafe" not in POLICY
    assert "*" not in POLICY
    assert "data:" not in POLICY
    for each in ("default-src 'none'", "base-uri 'none'", "form-action 'none'"):
        assert each in POLICY
    page = (files("coterie.console") / "assets" / "index.html").read_text("utf-8")
    assert not re.search(r"\son\w+=|\sstyle=|<script>|<style|https?://", page), "the policy forbids"


def test_token_is_in_no_answer(console: ConsoleServer) -> None:
    paths = [path_of(each) for each in EVERY if each.method == "GET" and not each.streams]
    for path in ["/", "/console.js", "/nothing", "/api/nothing", "/openapi.json", *paths]:
        answered = ask(console, "GET", path)
        text = answered.body + repr(answered.lines).encode()
        assert console.token.encode() not in text, path
    assert console.token not in console.url.partition("#")[0]


@pytest.mark.parametrize(
    "path",
    [
        "/../application.py",
        "/%2e%2e/application.py",
        "/..%2fapplication.py",
        "/..%2Findex.html",
        "/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/vendor/../../application.py",
        "/..\\application.py",
        "/..%5capplication.py",
        "/%5c%5cserver%5cshare.js",
        "/c:%5cwindows.js",
        "//etc/passwd",
        "/etc/passwd",
        "/console.js%00.html",
        "/%00.js",
        "/%ff.js",
        "/%",
        "/.%2f",
        "/index",
        "/__init__.py",
        "/index.html/",
        "/index.html/x.js",
        f"/{'a' * 3000}.js",
        f"/{'a/' * 1000}a.js",
    ],
)
def test_no_other_file_can_be_read(console: ConsoleServer, path: str) -> None:
    answered = ask(console, "GET", path)
    # The slash at the end of a name means nothing.
    if path == "/index.html/":
        assert answered.status == 200
    else:
        refused(answered, 404, "NotFound")


def test_files_can_only_be_read(console: ConsoleServer) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        answered = ask(console, method, "/console.js")
        refused(answered, 405, "MethodNotAllowed")
        assert answered.headers["allow"] == "GET, HEAD"
    answered = ask(console, "HEAD", "/console.js")
    assert (answered.status, answered.body) == (200, b"")
    guarded(answered)


# --- malformed requests ---------------------------------------------------------------------------


def test_body_that_is_too_large_is_refused(console: ConsoleServer) -> None:
    answered = ask(console, "GET", "/api/cluster", b" " * (BODY_BYTES + 1))
    refused(answered, 413, "BodyTooLarge")


@pytest.mark.parametrize(
    "body", [b"[]", b"1", b'"x"', b"{", b'{"a": NaN}', b"\xff", b"[" * 100_000]
)
def test_body_that_is_no_object_is_refused(console: ConsoleServer, body: bytes) -> None:
    refused(ask(console, "GET", "/api/cluster", body), 400, "BadRequest")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_body_of_a_form_is_refused(console: ConsoleServer, kind: str | None) -> None:
    answered = ask(console, "GET", "/api/cluster", {}, headers={"Content-Type": kind})
    refused(answered, 415, "NotJson")


@pytest.mark.parametrize(
    "request_bytes",
    [
        # More than the bound without an end: a request that is read at once is no burden.
        head("GET", "/", {"Host": "127.0.0.1", "X": "x" * 2 * HEADER_BYTES})[:-2],
        head("GET", "/" + "x" * 2 * HEADER_BYTES, {"Host": "127.0.0.1"})[:-2],
        head("GET", "/", {"X": "no Host"}),
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"nothing of HTTP\r\n\r\n",
    ],
    ids=["header", "path", "no-host", "two-hosts", "length", "tls", "text"],
)
def test_malformed_request_is_refused(console: ConsoleServer, request_bytes: bytes) -> None:
    answered = exchange(console.address, request_bytes)
    assert answered.status == 400
    assert answered.headers["x-content-type-options"] == "nosniff"
    assert answered.headers["content-security-policy"] == "default-src 'none'"
    assert answered.headers["content-type"].startswith("text/plain")
    assert ask(console, "GET", "/api/cluster").status == 200


def test_host_of_http_1_0_is_needed(console: ConsoleServer) -> None:
    refused(exchange(console.address, b"GET / HTTP/1.0\r\n\r\n"), 403, "HostRefused")


@pytest.mark.parametrize(
    "host", ["127.0.0.1:x@evil.example", "localhost:1:2", "127.0.0.1:", "localhost:99999999"]
)
def test_host_with_more_than_a_port_is_refused(console: ConsoleServer, host: str) -> None:
    refused(ask(console, "GET", "/", headers={"Host": host}), 403, "HostRefused")


def test_slow_request_is_cut_off(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = Bounds(connections=120, request_s=0.3, answer_s=60.0)
    monkeypatch.setattr(serving, "_BOUNDS", bounds)
    servers = kafka.bootstrap_servers
    with (
        ConsoleServer(Place(lambda: Cluster(servers), servers)) as console,
        socket.create_connection(console.address, timeout=LIMIT_S) as half,
        socket.create_connection(console.address, timeout=LIMIT_S) as without_body,
    ):
        whole = head("GET", "/", {"Host": str(console.address)})
        half.sendall(whole[:-2])
        without_body.sendall(whole[:-2] + b"Content-Length: 10\r\n\r\n")
        assert not ended(half)
        # A file is answered without its body being read; the connection ends in both cases.
        ended(without_body)
        assert ask(console, "GET", "/api/cluster").status == 200


def ended(connection: socket.socket) -> bytes:
    """Return what comes until a connection ends or is cut off."""
    try:
        return received(connection)
    except ConnectionResetError:
        return b""


# --- names that are HTML --------------------------------------------------------------------------


def test_names_that_are_html_come_back_as_json(console: ConsoleServer) -> None:
    answered = ask(console, "GET", "/api/%3Cscript%3Ealert(1)%3C%2Fscript%3E")
    refused(answered, 404, "NotFound")
    assert answered.headers["content-type"] == "application/json"
    assert "<script>" in json.loads(answered.body)["error"]


def test_answer_of_a_broker_that_is_gone_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        servers = f"127.0.0.1:{reserved.getsockname()[1]}"
    with ConsoleServer(Place(lambda: Cluster(servers, 5.0), servers)) as console:
        answered = ask(console, "GET", "/api/cluster")
        refused(answered, 502, "BrokerUnreachable")
