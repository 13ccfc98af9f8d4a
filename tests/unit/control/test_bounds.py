"""Every number that reaches the control port has bounds, and one that is out of them says which."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from coterie.control.broker_operations import BROKER
from coterie.control.cluster_operations import CLUSTER
from coterie.control.link import all_operations
from coterie.control.operations import ControlOperation, Parameter, Table
from coterie.testing import Broker, Cluster, cluster
from coterie.testing.actions import Action
from coterie.testing.bounds import BOUNDS
from tests.unit.control.asking import Asking

NUMBERS = {"integer", "number"}
# Out of the bounds of every number, and no number of JSON at all.
WRONG = ("1e300", "-1e300", str(2**80), str(-(2**80)), "1" * 5000, "NaN", "Infinity", "-Infinity")
# What is sent besides the number.
GIVEN: dict[str, Any] = {
    "name": "new",
    "action": {"kind": "CloseBefore"},
    "values": ["a"],
    "since_generation": 0,
    "seconds": 1,
    "to": 1,
    "to_offset": 0,
    "isr": [1],
}
PATH = {
    "name": "t", "topic": "t", "group_id": "g", "fault_id": "1", "api": "Heartbeat", "node_id": "1",
    "transactional_id": "tx",
}  # fmt: skip


def is_number(parameter: Parameter) -> bool:
    return any(part.get("type") in NUMBERS for part in parameter.shape.alternatives)


def numbers_of(table: Table) -> list[tuple[ControlOperation, Parameter]]:
    """Return the numbers that the operations of a port take."""
    return [
        (operation, parameter)
        for operation in all_operations(table).values()
        for parameter in operation.all_parameters
        if is_number(parameter)
    ]


CASES = numbers_of(BROKER)
CASES_OF_SEVERAL = numbers_of(CLUSTER)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker that only wrong numbers meet."""
    with Broker(topics={"t": 1}) as running:
        yield running


@pytest.fixture(scope="module")
def brokers() -> Iterator[Cluster]:
    """Several brokers that only wrong numbers meet."""
    with cluster(brokers=2, topics={"t": 1}) as running:
        yield running


def ask(asking: Asking, operation: ControlOperation, name: str, number: str) -> Any:
    """Send a request in which one number is a text of JSON."""
    path, body, query = dict(PATH), dict(GIVEN), ""
    place = next(each.place for each in operation.all_parameters if each.name == name)
    known = {each.name for each in operation.all_parameters if each.place == "body"}
    body = {key: value for key, value in body.items() if key in known and key != name}
    text = json.dumps(body)
    if place == "path":
        path[name] = number
    elif place == "query":
        query = f"{name}={number}"
    else:
        text = text[:-1] + (", " if body else "") + f'"{name}": {number}}}'
    url, method = operation.row.path.format(**path), operation.row.method
    return asking.ask(method, url, query=query, data=text.encode() if method == "POST" else b"")


@pytest.mark.parametrize("number", WRONG, ids=lambda number: number[:9])
@pytest.mark.parametrize(
    ("operation", "parameter"), CASES, ids=lambda each: getattr(each, "name", "")
)
def test_wrong_number_is_refused(
    broker: Broker, operation: ControlOperation, parameter: Parameter, number: str
) -> None:
    answered = ask(Asking(broker), operation, parameter.name, number)
    assert answered.status == 400, answered
    assert len(answered.body["error"]) < 1000
    # The broker still has a clock that goes on and a thread that answers.
    assert broker.topics == {"t": 1}
    assert broker.server.now_ms() < 2e12


@pytest.mark.parametrize("number", WRONG, ids=lambda number: number[:9])
@pytest.mark.parametrize(
    ("operation", "parameter"), CASES_OF_SEVERAL, ids=lambda each: getattr(each, "name", "")
)
def test_wrong_number_is_refused_by_several_brokers(
    brokers: Cluster, operation: ControlOperation, parameter: Parameter, number: str
) -> None:
    answered = ask(Asking(brokers), operation, parameter.name, number)
    assert answered.status == 400, answered
    assert len(answered.body["error"]) < 1000
    assert (brokers.brokers, brokers.paused_brokers) == ([1, 2], [])
    assert brokers.epoch_of("t") == 0


def test_every_number_has_bounds_in_one_place() -> None:
    assert {parameter.name for _, parameter in CASES + CASES_OF_SEVERAL} <= set(BOUNDS)
    fields = {
        name
        for action in Action.__args__
        for name, kind in action.__annotations__.items()
        if kind in (int, float)
    }
    assert fields == {"seconds", "milliseconds", "sent_bytes"}


def test_error_and_document_say_the_range(broker: Broker) -> None:
    asking = Asking(broker)
    answered = asking.ask("POST", "/advance", {"seconds": 1e300})
    text = "seconds is a number from 0 to 315,576,000, not 1e+300"
    assert (answered.status, answered.body["error"]) == (400, text)
    schema = asking.application.document["paths"]["/advance"]["post"]
    assert '"maximum": 315576000.0' in json.dumps(schema)


def test_clock_is_not_put_forward_without_end() -> None:
    with Broker() as kafka:
        asking = Asking(kafka)
        assert asking.ask("POST", "/advance", {"seconds": 3e8}).status == 200
        assert asking.ask("POST", "/advance", {"seconds": 3e8}).status == 400
