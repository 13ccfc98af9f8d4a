"""The console of a test's brokers, and the pages of groups that failed tests keep."""

import asyncio
import http.client
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from coterie.testing import Broker, Cluster, Delay, ProcessBroker, WrongUse
from coterie.testing.console import Console
from tests.live.testing.pytest_runs import run_pytest

_LIMIT_S = 60.0
ROOT = Path(__file__).parents[3]


def brokers_seen(console: Console) -> list[str]:
    """Return the addresses of the brokers that a console sees."""
    return [each["address"] for each in asked(console, "GET", "/api/cluster")["brokers"]]


def asked(console: Console, method: str, path: str, body: Any = None) -> Any:
    """Return what a console answers."""
    parts = urlsplit(console.url)
    token = parts.fragment.removeprefix("token=")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(parts.netloc, timeout=_LIMIT_S)
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, headers)
    return json.load(connection.getresponse())


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser was asked to open."""
    found: list[str] = []
    monkeypatch.setattr("webbrowser.open", found.append)
    return found


def test_console_is_closed_with_its_broker(opened: list[str]) -> None:
    with Broker(topics={"orders": 1}) as kafka:
        console = kafka.console()
        assert brokers_seen(console) == [kafka.bootstrap_servers]
        kafka.restart()
        # The first request meets the connection that has ended.
        with suppress(KeyError):
            brokers_seen(console)
        assert brokers_seen(console) == [kafka.bootstrap_servers], "it finds the broker again"
    with pytest.raises(ConnectionRefusedError):
        brokers_seen(console)
    assert "closed" in repr(console)
    console.close()
    assert opened == [], "no person is there"


def test_browser_is_opened_if_asked(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker() as kafka:
        with kafka.console(browser=True) as console:
            assert opened == [console.url]
        monkeypatch.setattr("coterie.testing.console._has_terminal", lambda: True)
        with kafka.console(browser=False):
            assert len(opened) == 1
        with kafka.console() as console:
            assert opened[1:] == [console.url]


def test_console_logs_in_to_a_broker_with_certificates() -> None:
    with Broker(security="SASL_SSL", users=["alice"]) as kafka:
        assert brokers_seen(kafka.console()) == [kafka.bootstrap_servers]


def test_console_of_several_brokers() -> None:
    with Cluster(2) as kafka:
        assert ",".join(brokers_seen(kafka.console())) == kafka.bootstrap_servers


@pytest.mark.parametrize("kind", [ProcessBroker, partial(Cluster, 2)], ids=["process", "two"])
def test_console_has_the_faults_and_the_clock(kind: Callable[[], Broker | Cluster]) -> None:
    with kind() as kafka:
        console = kafka.console(allow_changes=True)
        fault = kafka.fault(Delay(1), api="Heartbeat")
        (shown,) = asked(console, "GET", "/api/control")["faults"]
        assert shown["action"] == {"kind": "Delay", "seconds": 1}
        asked(console, "POST", f"/api/control/faults/{shown['fault_id']}/remove", {})
        assert fault.is_removed
        before_ms = kafka.moment().at_ms
        assert asked(console, "POST", "/api/control/advance", {"seconds": 60})["ahead_s"] == 60
        assert kafka.moment().at_ms - before_ms >= 60_000


def test_console_of_a_broker_in_a_process_goes_on_after_its_kill() -> None:
    with ProcessBroker(topics={"orders": 1}) as kafka:
        console = kafka.console(allow_changes=True)
        shown = asked(console, "POST", "/api/changes/create-topic/preview", {"topic": "kept"})
        fields = {"token": shown["token"]}
        assert asked(console, "POST", "/api/changes/create-topic", fields)["carried_out"]
        kafka.kill()
        # The first request meets the connection that has ended.
        with suppress(KeyError):
            brokers_seen(console)
        assert brokers_seen(console) == [kafka.bootstrap_servers]
        assert {each["topic"] for each in asked(console, "GET", "/api/topics")["topics"]} >= {
            "kept",
            "orders",
        }
    with pytest.raises(ConnectionRefusedError):
        brokers_seen(console)


@pytest.mark.asyncio
async def test_console_beside_an_event_loop() -> None:
    async with Broker() as kafka:
        console = kafka.console()
        assert await asyncio.to_thread(brokers_seen, console) == [kafka.bootstrap_servers]


@pytest.mark.asyncio
async def test_virtual_time_has_no_console() -> None:
    async with Broker() as kafka, kafka.virtual_time():
        with pytest.raises(WrongUse, match="virtual time"):
            kafka.console()


FAILING = f"""
    import sys
    sys.path.insert(0, {str(ROOT)!r})
    from coterie.client.cluster import Cluster
    from tests.unit.cli.live_member import join

    def test_group(kafka):
        kafka.topic("orders", partitions=2)
        with Cluster(kafka.bootstrap_servers) as cluster:
            join(cluster, group_id="billing <b>", orders=[0, 1])
        assert False

    def test_without_group(kafka):
        assert False
"""


def test_failed_test_keeps_the_page_of_its_groups(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [FAILING], "-o", "kafka_pages=pages")
    assert (code, "2 failed" in output) == (1, True), output
    (page,) = (tmp_path / "pages").iterdir()
    assert page.name == "test_0.py-test_group-kafka.html"
    assert output.count("page of the groups of kafka") == 1
    assert str(page) in output
    text = page.read_text(encoding="utf-8")
    assert "billing \\u003cb>" in text, "a name is data, not a tag"


def test_pages_can_be_switched_off(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [FAILING], "-o", "kafka_pages=off", "-k", "test_group")
    assert code == 1
    assert "page of the groups" not in output
