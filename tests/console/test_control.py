"""Faults and the clock in the console of brokers with a control: the rows, and bad requests."""

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.client.cluster import Cluster
from coterie.console.api import CONTROL_ROUTES
from coterie.console.places import Place
from coterie.console.serving import ConsoleServer
from coterie.control.console_control import ConsoleControl
from coterie.control.control import Control
from coterie.protocol.errors import ErrorCode
from coterie.testing import AnswerError, Broker
from tests.console.changing import refused
from tests.console.raw_requests import LIMIT_S, Answered, ask, body_of, path_of


class Controlled:
    """A console that may change its broker, and the control that a control port would share."""

    def __init__(self, kafka: Broker) -> None:
        self.kafka, self.control, servers = kafka, Control(kafka), kafka.bootstrap_servers
        place = Place(
            lambda: Cluster(servers, LIMIT_S),
            servers,
            allows_changes=True,
            control=ConsoleControl(self.control),
        )
        self.console = ConsoleServer(place)

    def asked(self, path: str, body: Any = None) -> Answered:
        method = "GET" if body is None else "POST"
        return ask(self.console, method, f"/api/control{path}", body)

    def state(self, path: str = "", body: Any = None) -> dict[str, Any]:
        answered = self.asked(path, body)
        assert answered.status == 200, answered.body
        found: dict[str, Any] = answered.json
        assert found["allows_changes"] is True
        return found


@pytest.fixture
def controlled() -> Iterator[Controlled]:
    with Broker(topics={"orders": 1}) as kafka:
        found = Controlled(kafka)
        with found.console:
            yield found


def test_clock_is_put_forward(controlled: Controlled) -> None:
    before = controlled.state()
    assert (before["ahead_s"], before["faults"]) == (0, [])
    after = controlled.state("/advance", {"seconds": 7200.25})
    assert after["ahead_s"] == 7200
    assert after["now_ms"] - before["now_ms"] >= 7_200_250
    # What another one does is seen, too.
    controlled.kafka.advance(3600)
    assert controlled.state()["ahead_s"] == 10_800


def test_fault_is_installed_met_and_removed(controlled: Controlled) -> None:
    action = {"kind": "AnswerError", "error": "COORDINATOR_LOAD_IN_PROGRESS"}
    scope = {"api": "findcoordinator", "group": "billing", "client_id": "one", "topic": "orders"}
    controlled.state("/faults", {"action": action, **scope, "times": 3})
    state = controlled.state("/faults", {"action": action, "api": "Metadata", "times": 1})
    first, second = state["faults"]
    assert first["action"] == action
    found = {name: each for name, each in first["scope"].items() if each is not None}
    assert found == {**scope, "api": "FindCoordinator"}
    # The second one meets one request of this console's, and is over.
    ask(controlled.console, "GET", "/api/cluster")
    assert controlled.state()["faults"] == [first]
    assert controlled.control.fault(second["fault_id"]).hits == 1
    assert controlled.state(f"/faults/{first['fault_id']}/remove", {})["faults"] == []
    assert ask(controlled.console, "GET", "/api/cluster").json["has_control"] is True


def test_faults_of_others_are_listed_and_can_be_removed(controlled: Controlled) -> None:
    fault = controlled.kafka.fault(AnswerError(ErrorCode.NOT_COORDINATOR), api="Heartbeat")
    number = controlled.control.fault_state(fault).fault_id
    (shown,) = controlled.state()["faults"]
    assert (shown["fault_id"], shown["hits"]) == (number, 0), "it has the number of the port"
    controlled.state(f"/faults/{number}/remove", {})
    assert fault.is_removed


def test_names_are_those_that_faults_may_have(controlled: Controlled) -> None:
    names = controlled.asked("/names").json
    assert {"JoinGroup", "Fetch"} <= set(names["apis"])
    assert "NONE" not in names["errors"]
    for api in names["apis"]:
        controlled.kafka.fault(AnswerError(names["errors"][0]), api=api).remove()


_DELAY = {"kind": "Delay", "seconds": 1}
_FAULTS = "/faults"


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("/advance", {}, "seconds: missing"),
        ("/advance", {"seconds": "1"}, "seconds: a number"),
        ("/advance", {"seconds": True}, "seconds: a number"),
        ("/advance", {"seconds": -0.5}, "seconds: -0.5 is not between"),
        ("/advance", {"seconds": 1e300}, "seconds is a number from 0 to 315,576,000"),
        (_FAULTS, {"action": "Delay"}, "action: an object"),
        (_FAULTS, {"action": {}}, "action.kind: one of AnswerError"),
        (_FAULTS, {"action": {"kind": "Delay"}}, "action.seconds: missing"),
        (_FAULTS, {"action": {"kind": "Delay", "seconds": -1}}, "seconds is a number"),
        (_FAULTS, {"action": {**_DELAY, "x": 1}}, "action.x: unknown field"),
        (_FAULTS, {"action": {"kind": "AnswerError", "error": "NO"}}, "'NO' is no error"),
        (_FAULTS, {"action": {"kind": "DiskFull"}, "api": "Fetch"}, "about files, not requests"),
        (_FAULTS, {"action": _DELAY, "api": "Fech"}, "'Fech' is no API of Kafka"),
        (_FAULTS, {"action": _DELAY, "times": 0}, "times: 0 is not between"),
        (_FAULTS, {"action": _DELAY, "group": ""}, "group: it is empty"),
        (_FAULTS, {"action": _DELAY, "node_id": 1}, "node_id: there is no such parameter"),
        ("/faults/x/remove", {}, "'x' is no whole number"),
        ("/faults/0/remove", {}, "fault_id is a whole number from 1"),
        ("/faults/7/remove", {}, "there is no fault 7; installed so far: none"),
    ],
)
def test_wrong_request_is_refused(
    controlled_once: Controlled, path: str, body: Any, text: str
) -> None:
    refused(controlled_once.asked(path, body), 400, text)
    state = controlled_once.state()
    assert (state["ahead_s"], state["faults"]) == (0, []), "nothing has changed"


@pytest.fixture(scope="module")
def controlled_once() -> Iterator[Controlled]:
    """A console for requests that change nothing."""
    with Broker() as kafka:
        found = Controlled(kafka)
        with found.console:
            yield found


def test_broker_that_was_closed_is_an_error() -> None:
    with Broker() as kafka:
        controlled = Controlled(kafka)
    with controlled.console:
        answered = controlled.asked("")
        refused(answered, 503, "does not run")
        assert answered.json["kind"] == "BrokerDown"


def test_rows_exist_only_with_a_control(controlled: Controlled) -> None:
    servers = controlled.kafka.bootstrap_servers
    place = Place(lambda: Cluster(servers, LIMIT_S), servers, allows_changes=True)
    with ConsoleServer(place) as console:
        assert ask(console, "GET", "/api/cluster").json["has_control"] is False
        there, here = (
            ask(each, "GET", "/openapi.json").json["paths"]
            for each in (console, controlled.console)
        )
        for route in CONTROL_ROUTES:
            answered = ask(console, route.method, path_of(route), body_of(route))
            refused(answered, 404, "there is no /api/control")
            assert route.path not in there
            assert here[route.path][route.method.lower()]["summary"] == route.about
