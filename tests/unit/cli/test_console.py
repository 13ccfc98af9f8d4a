"""`coterie console` and `coterie serve --console` as processes: lines, errors, the end."""

import asyncio
import gc
import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from coterie.address import Address
from coterie.cli.console_options import ConsoleArguments
from coterie.server.config.config import Config
from coterie.server.config.place import PlaceOptions, decide_place
from coterie.server.data_place import IN_MEMORY
from coterie.server.listening import CannotStart
from coterie.server.logs.flusher import parse_flush_mode
from coterie.server.run import Options, try_http_ports
from tests.unit.cli.command import run
from tests.unit.server.process import serving
from tests.unit.server.running import PATIENCE_S

LINE = re.compile(r"console on (http://127\.0\.0\.1:\d+)/#token=([\w-]+)\n")


@contextmanager
def console(*words: str) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen(
        [sys.executable, "-m", "coterie", "console", "--no-browser", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def first_head(line: str, state: str) -> dict[str, object]:
    """Return the first head of the page that has a state; the page stays open."""
    found = LINE.fullmatch(line)
    assert found, line
    headers = {"Authorization": f"Bearer {found[2]}"}
    request = urllib.request.Request(f"{found[1]}/api/events", headers=headers)
    opened = urllib.request.urlopen(request, timeout=PATIENCE_S)
    for each in opened:
        if each.startswith(b"data: "):
            head: dict[str, object] = json.loads(each.removeprefix(b"data: "))
            if head["state"] == state:
                # A page that is open must not keep the process from ending.
                OPENED.append(opened)
                return head
    raise AssertionError("the page was cut off")


OPENED: list[object] = []


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_console_starts_without_its_cluster_and_ends_at_once() -> None:
    nobody = free_address()
    with console("--bootstrap-server", nobody) as process:
        assert process.stdout is not None
        head = first_head(process.stdout.readline(), "broken")
        assert nobody in str(head["error"])
        assert head["allows_changes"] is False
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert f"It shows {nobody}, read-only." in errors
    assert "Traceback" not in errors


def test_a_port_in_use_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        given = ("--bootstrap-server", free_address(), "--port", str(port))
        refused = run(None, "console", "--no-browser", *given)
        assert refused.exit_code == 1
        assert f"cannot listen on port {port}" in refused.stderr
        config = Config.load((), {})
        place = decide_place(config, PlaceOptions(port=0, data_dir=IN_MEMORY))
        beside = ConsoleArguments(port, allow_changes=False, console_config=None).beside(place)
        options = Options(place, config, parse_flush_mode("never"), "info", "console", 0)
        # It is the exit code 1 and this text of a process.
        with pytest.raises(CannotStart, match=rf":{port} is in use .*--console 0"):
            asyncio.run(try_http_ports(options._replace(beside=beside)))


@pytest.mark.parametrize("more", [("--brokers", "2"), ("--control", "0")])
def test_a_broker_serves_its_console_and_both_end(more: tuple[str, ...]) -> None:
    with serving("--data-dir", ":memory:", "--console", "--allow-changes", *more) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3 if "--control" in more else 2)]
        ready = re.search(r"ready on (\S+)", lines[0])
        assert ready
        head = first_head(lines[-1], "live")
        assert head["bootstrap"] == ready[1]
        assert head["allows_changes"] is True
        assert head["has_control"] is ("--control" in more)
        # In memory nothing is synced.
        assert head["flush"] == "never"
        assert 0 < int(str(head["started_ms"])) <= time.time() * 1000
        assert int(str(head["connections"])) >= 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(Address.parse(str(head["bootstrap"]).split(",", maxsplit=1)[0]))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--allow-changes",), "need --console"),
        (("--console", "--config", "listeners=SSL://127.0.0.1:0"), "--console-config"),
    ],
)
def test_options_that_make_no_sense_are_refused(words: tuple[str, ...], text: str) -> None:
    threshold = gc.get_threshold()
    try:
        refused = run(None, "serve", "--data-dir", ":memory:", *words)
    finally:
        # The start of a broker changes it for its process.
        gc.set_threshold(*threshold)
    assert refused.exit_code == 2
    assert text in refused.stderr
