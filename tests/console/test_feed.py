"""The groups page over a broker with real consumers: rows, rebalances, and a broker that is away.

Rules: [console/broken], [console/hub], [console/rows].
"""

import json
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from jsonschema import Draft202012Validator

from coterie.client.cluster import Cluster
from coterie.client.offsets import commit_offsets
from coterie.console.api import ROUTES
from coterie.console.places import Place
from coterie.console.recent_day import day_of
from coterie.console.serving import ConsoleServer
from coterie.testing import Broker

LIMIT_S = 90.0


class Page:
    """An open page: the events that it got, each with the time of its arrival."""

    def __init__(self, console: ConsoleServer) -> None:
        self._arrived = threading.Condition()
        self.events: list[tuple[int, str, Any]] = []
        self._answer = asked(console, "/api/events")
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        name = ""
        # It is closed by the test.
        with suppress(OSError, ValueError, AttributeError):
            for line in self._answer:
                text = line.decode().strip()
                if text.startswith("event: "):
                    name = text.removeprefix("event: ")
                elif text:
                    data = json.loads(text.removeprefix("data: "))
                    with self._arrived:
                        self.events.append((now_ms(), name, data))
                        self._arrived.notify_all()

    def wait(self, is_wanted: Callable[[str, Any], bool]) -> tuple[int, Any]:
        """Return arrival and data of the first event that is wanted."""
        begin = 0

        def found() -> tuple[int, Any] | None:
            nonlocal begin
            for at_ms, name, data in self.events[begin:]:
                begin += 1
                if is_wanted(name, data):
                    return at_ms, data
            return None

        with self._arrived:
            seen = self._arrived.wait_for(found, LIMIT_S)
        assert seen, self.events[-5:]
        return seen

    def row(self, group: str, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first row of a group that is wanted."""

        def has_it(name: str, data: Any) -> bool:
            rows = data["changed"] if name == "groups" else []
            return any(each["group"] == group and is_wanted(each) for each in rows)

        _, data = self.wait(has_it)
        return next(each for each in data["changed"] if each["group"] == group)

    def close(self) -> None:
        self._answer.fp.raw._sock.shutdown(2)
        self._thread.join(LIMIT_S)
        self._answer.close()


def now_ms() -> int:
    return int(time.time() * 1000)


def asked(console: ConsoleServer, path: str) -> Any:
    url = f"http://{console.address}{path}"
    headers = {"Authorization": f"Bearer {console.token}"}
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=LIMIT_S)


@contextmanager
def page(console: ConsoleServer) -> Iterator[Page]:
    opened = Page(console)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    """A broker with a topic."""
    with Broker(topics={"orders": 2}) as running:
        yield running


@pytest.fixture(scope="module")
def console(kafka: Broker) -> Iterator[ConsoleServer]:
    """A console of it."""
    servers = kafka.bootstrap_servers
    with ConsoleServer(Place(lambda: Cluster(servers, LIMIT_S), servers)) as running:
        yield running


def consumer(kafka: Broker, group: str, topic: str = "orders") -> Consumer:
    config = kafka.client_config("confluent-kafka", group_id=group)
    found = Consumer({**config, "auto.offset.reset": "earliest"})
    found.subscribe([topic])
    return found


def poll_until(consumers: list[Consumer], is_done: Callable[[], bool]) -> None:
    limit_s = time.monotonic() + LIMIT_S
    while not is_done():
        assert time.monotonic() < limit_s
        for each in consumers:
            each.poll(0.02)


def test_a_rebalance_is_shown_when_it_ends_with_cause_and_member(
    kafka: Broker, console: ConsoleServer, record_property: Callable[[str, object], None]
) -> None:
    kafka.produce("orders", "espresso", "latte")
    late_ms: list[int] = []

    def shown_rebalance(shown: Page, cause: str, since_ms: int) -> int:
        """Wait for a rebalance that ended after a time; return when it ended."""
        at_ms, ended = shown.wait(
            lambda name, data: (
                name == "rebalance"
                and (data["group"], data["cause"]) == ("bar", cause)
                and data["at_ms"] > since_ms
            )
        )
        late_ms.append(at_ms - ended["at_ms"])
        assert ended["who"].endswith("at 127.0.0.1")
        return int(ended["at_ms"])

    with page(console) as shown:
        shown.wait(lambda name, _: name == "groups")
        first = consumer(kafka, "bar")
        poll_until([first], lambda: len(first.assignment()) == 2)
        ended_ms = shown_rebalance(shown, "join", 0)
        second = consumer(kafka, "bar")
        poll_until([first, second], lambda: len(second.assignment()) == 1)
        ended_ms = shown_rebalance(shown, "join", ended_ms)
        second.close()
        poll_until([first], lambda: len(first.assignment()) == 2)
        shown_rebalance(shown, "leave", ended_ms)
        first.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        row = shown.row(
            "bar",
            lambda each: (
                (each["members"], each["state"]) == (1, "Stable")
                and each["lag"] is not None
                and "leave" in [cause for _, _, cause, _ in each["strip"]]
            ),
        )
        with asked(console, "/api/rebalances") as answer:
            of_hour = {each["group"]: each["strip"] for each in json.load(answer)["groups"]}
        with asked(console, "/api/rebalances?hours=24") as answer:
            of_day = {each["group"]: each["strip"] for each in json.load(answer)["groups"]}
    assert [mark[:2] for mark in of_day["bar"]][: len(of_hour["bar"])] == [
        mark[:2] for mark in of_hour["bar"]
    ]
    with Cluster(kafka.bootstrap_servers) as cluster:
        # The groups that were quiet for longest are left out.
        assert len(day_of(cluster, now_ms(), most_facts=1)["groups"]) == 1
    first.close()
    assert [mark[0] for mark in of_hour["bar"]] == [mark[0] for mark in row["strip"]]
    # It is 20 to 60 ms on a machine that has time; the clock of the broker is that of the test.
    record_property("rebalance_shown_after_ms", late_ms)
    assert max(late_ms) < 5_000
    assert row["type"] == "classic"
    assert [cause for _, _, cause, _ in row["strip"]].count("join") >= 2
    assert row["rebalances_1h"] == len(row["strip"])


def test_findings_are_those_of_the_checks(kafka: Broker, console: ConsoleServer) -> None:
    kafka.topic("idle", records=["a", "b"])
    left = consumer(kafka, "left", "idle")
    poll_until([left], lambda: bool(left.assignment()))
    left.commit(offsets=[TopicPartition("idle", 0, 1)], asynchronous=False)
    left.close()
    kafka.produce("idle", "c")
    with page(console) as shown:
        _, found = shown.wait(
            lambda name, data: name == "findings" and any(each["group"] == "left" for each in data)
        )
        (finding,) = [each for each in found if each["group"] == "left"]
        assert finding["check"] == "no-members"
        assert set(finding) == {
            *("group", "severity", "check", "subject", "cause", "remedy", "since_ms")
        }
        row = shown.row("left", lambda each: each["trouble"] > 0)
        assert row["lag"] > 0


def test_groups_that_may_not_be_described_leave_the_others_as_they_are() -> None:
    allow = "User:ANONYMOUS ALLOW"
    closed = f"{allow} READ GROUP closed"
    others = [f"{allow} {each}" for each in ("DESCRIBE CLUSTER", "READ TOPIC *", "READ GROUP open")]
    with Broker(topics={"orders": 1}, acls=[*others, closed]) as kafka:
        servers = kafka.bootstrap_servers
        kafka.produce("orders", "a", "b")
        with Cluster(servers, LIMIT_S) as cluster:
            for name in ("open", "closed"):
                assert set(commit_offsets(cluster, name, {("orders", 0): 1}).values()) == {0}
        kafka.remove_acls(closed)
        with (
            ConsoleServer(Place(lambda: Cluster(servers, LIMIT_S), servers)) as console,
            page(console) as shown,
        ):
            row = shown.row("closed", lambda each: True)
            assert (row["refused"], row["lag"]) == ("GROUP_AUTHORIZATION_FAILED", None)
            with asked(console, "/api/topics/orders/groups") as answer:
                assert [each["group"] for each in json.load(answer)["groups"]] == ["open"]
            assert row["state"] == "Empty"
            row = shown.row("open", lambda each: True)
            assert (row["refused"], row["lag"]) == (None, 1)


def test_twenty_pages_cost_as_one_and_none_costs_nothing(kafka: Broker) -> None:
    servers, opened = kafka.bootstrap_servers, []

    def connect() -> Cluster:
        opened.append(Cluster(servers, LIMIT_S))
        return opened[-1]

    def looks() -> int:
        return len([each for each in kafka.requests if each.api == "ListGroups"])

    with ConsoleServer(Place(connect, servers)) as console:
        before = looks()
        pages = [Page(console) for _ in range(20)]
        for each in pages:
            each.wait(lambda name, _: name == "groups")
        last = pages[-1]
        heard = len(last.events)
        last.wait(lambda name, data: name == "cluster" and data["state"] == "live")
        for each in pages:
            each.close()
        assert len(opened) <= 4
        assert (
            before < looks() <= before + 2 + sum(name == "groups" for _, name, _ in pages[0].events)
        )
        assert heard


def test_a_broker_that_goes_away_is_shown_as_such_and_followed_again(tmp_path: Path) -> None:
    with Broker(topics={"orders": 1}) as kafka:
        servers, port = kafka.bootstrap_servers, kafka.port
        kafka.produce("orders", "espresso")
        console = ConsoleServer(Place(lambda: Cluster(servers, 2.0), servers))
        with console, page(console) as shown:
            first = consumer(kafka, "bar")
            poll_until([first], lambda: bool(first.assignment()))
            shown.wait(lambda name, _: name == "rebalance")
            first.close()
            kafka.close()
            at_ms, head = shown.wait(
                lambda name, data: name == "cluster" and data["state"] == "broken"
            )
            assert head["error"]
            assert head["remedy"]
            # What is shown is as old as it was, and the page says since when.
            assert head["at_ms"] <= head["since_ms"] <= at_ms
            with Broker(port=port, topics={"orders": 1}, data_dir=tmp_path) as again:
                _, head = shown.wait(
                    lambda name, data: (
                        name == "cluster" and data["state"] == "live" and data["at_ms"] > at_ms
                    )
                )
                # It is another broker now.
                assert head["data_dir"] == str(tmp_path)
                with asked(console, "/api/cluster") as answer:
                    assert json.load(answer)["data_dir"] == str(tmp_path)
                second = consumer(again, "later")
                poll_until([second], lambda: bool(second.assignment()))
                _, ended = shown.wait(
                    lambda name, data: name == "rebalance" and data["group"] == "later"
                )
                assert ended["cause"] == "join"
                second.close()


def test_a_console_may_start_before_its_cluster() -> None:
    place = Place(lambda: Cluster("127.0.0.1:1", 2.0), "127.0.0.1:1")
    with ConsoleServer(place) as console, page(console) as shown:
        _, head = shown.wait(lambda name, data: name == "cluster" and data["state"] == "broken")
        assert (head["bootstrap"], head["at_ms"]) == ("127.0.0.1:1", None)


def test_the_document_describes_each_row_with_valid_schemas(console: ConsoleServer) -> None:
    with asked(console, "/openapi.json") as answer:
        document = json.loads(answer.read())
    assert document["openapi"] == "3.1.0"
    for route in ROUTES:
        described = document["paths"][route.path][route.method.lower()]
        (kind,) = described["responses"]["200"]["content"]
        if not route.is_file:
            assert kind == ("text/event-stream" if route.streams else "application/json")
        names = [each["name"] for each in described["parameters"]]
        assert len(names) == len(set(names))
        assert {each["name"] for each in described["parameters"] if each["in"] == "path"} == set(
            re.findall(r"\{(\w+)\}", route.path)
        )
        for each in described["parameters"]:
            Draft202012Validator.check_schema(each["schema"])
            assert each["in"] != "path" or each["required"]
        if route.method == "POST":
            (body,) = described["requestBody"]["content"].values()
            Draft202012Validator.check_schema(body["schema"])
