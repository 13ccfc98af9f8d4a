"""The OpenAPI document: complete, well-formed, and true of the answers."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft202012Validator

from coterie.control.broker_operations import ROWS
from coterie.control.cluster_operations import CLUSTER_ROWS
from coterie.testing import Broker, Cluster, cluster
from tests.unit.control.asking import Asking

# What it takes for an operation to be answered in the form that it has in the document.
BODIES: dict[str, Any] = {
    "POST /advance": {"seconds": 1},
    "POST /topics": {"name": "t", "records": ["a", {"base64": "/w=="}]},
    "POST /topics/{topic}/records": {"values": ["b"], "headers": [["h", "v"]]},
    "POST /faults": {"action": {"kind": "Delay", "seconds": 0.1}, "api": "Fetch"},
    "POST /users": {"user": "alice", "password": "secret"},
    "POST /acls": {"rules": ["User:alice ALLOW READ TOPIC orders"]},
    "POST /acls/remove": {"rules": ["User:alice ALLOW READ TOPIC orders"]},
    "POST /groups/{group_id}/wait/stable": {"timeout_s": 0.01},
    "POST /groups/{group_id}/wait/empty": {"timeout_s": 1},
    "POST /groups/{group_id}/wait/assigned": {"timeout_s": 0.01},
    "POST /groups/{group_id}/wait/committed": {"timeout_s": 0.01},
    "POST /groups/{group_id}/wait/rebalanced": {"since_generation": 1, "timeout_s": 0.01},
    "POST /groups/{group_id}/wait/acquired": {"timeout_s": 0.01},
    "POST /groups/{group_id}/wait/acknowledged": {"timeout_s": 0.01},
    "POST /groups/{group_id}/wait/tasks": {"timeout_s": 0.01},
    "POST /groups/{group_id}/wait/archived": {"offsets": {"orders-0": 1}, "timeout_s": 0.01},
    "POST /groups/{group_id}/settings": {"settings": {"share.auto.offset.reset": "earliest"}},
    "POST /cluster/metadata_delay": {"milliseconds": 1},
    "POST /cluster/elect": {"topic": "orders", "partition": 0},
    "POST /brokers/{node_id}/kill": {"detect_ms": 1},
    "POST /brokers/{node_id}/pause": {"detect_ms": 1},
    "POST /topics/{topic}/move": {"to": 1},
    "POST /topics/{topic}/cut": {"to_offset": 0},
    "POST /topics/{topic}/wait/leader": {"node_id": 1, "timeout_s": 0.01},
    "POST /topics/{topic}/wait/isr": {"isr": [1, 2], "timeout_s": 0.01},
    "POST /groups/{group_id}/move": {"to": 1},
    "POST /groups/{group_id}/wait/coordinator": {"timeout_s": 0.01},
    "POST /transactions/{transactional_id}/move": {"to": 1},
}
# A topic of several brokers begins without records.
OTHER_BODIES: dict[str, Any] = {"POST /topics": {"name": "t", "replicas": [[1, 2], [2, 1]]}}
VARIABLES = {
    "topic": "orders", "name": "none", "group_id": "g", "fault_id": "1", "api": "Fetch",
    "user": "alice", "node_id": "2", "transactional_id": "tx",
}  # fmt: skip
KINDS = ("broker", "cluster")
ROWS_OF = dict(zip(KINDS, (ROWS, CLUSTER_ROWS), strict=True))
ANSWERED = [(kind, row) for kind, rows in ROWS_OF.items() for row in rows if row.path != "/close"]


class Port(NamedTuple):
    """A control port, and its document as a client reads it."""

    asking: Asking
    document: Any


def port(kafka: Broker | Cluster) -> Port:
    asking = Asking(kafka)
    return Port(asking, asking.ask("GET", "/openapi.json").body)


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, Port]]:
    """The control ports of a broker and of three."""
    with Broker(topics={"orders": 1}) as kafka, cluster(topics={"orders": 1}) as three:
        kafka.produce("orders", "a", None, b"\xff", key="k")
        yield {"broker": port(kafka), "cluster": port(three)}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """One broker or several."""
    found: str = request.param
    return found


@pytest.fixture
def document(ports: dict[str, Port], kind: str) -> Any:
    """The document as a client reads it."""
    return ports[kind].document


def schemas_in(node: Any) -> Iterator[Any]:
    """Yield every schema of the document."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "schema":
                yield value
            else:
                yield from schemas_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from schemas_in(value)


def test_every_row_is_described(document: Any, kind: str) -> None:
    rows = ROWS_OF[kind]
    described = {
        (method.upper(), path) for path, item in document["paths"].items() for method in item
    }
    assert described == {(row.method, row.path) for row in rows}
    ids = [each["operationId"] for item in document["paths"].values() for each in item.values()]
    assert len(set(ids)) == len(ids) == len(rows)
    for path, item in document["paths"].items():
        for operation in item.values():
            variables = [
                each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"
            ]
            assert variables == re.findall(r"\{(\w+)\}", path)
            assert {"200", "default"} <= set(operation["responses"])


def test_schemas_are_json_schemas_whose_references_resolve(document: Any) -> None:
    components = document["components"]["schemas"]
    for schema in [*schemas_in(document["paths"]), *components.values()]:
        Draft202012Validator.check_schema(schema)
    for name in re.findall(r"#/components/schemas/(\w+)", str(document)):
        assert name in components


def test_only_health_needs_no_token(document: Any) -> None:
    assert document["security"] == [{"token": []}]
    free = [
        path
        for path, item in document["paths"].items()
        for each in item.values()
        if each.get("security") == []
    ]
    assert free == ["/health", "/ready"]


@pytest.mark.parametrize(
    ("kind", "row"), ANSWERED, ids=[f"{kind} {row.method} {row.path}" for kind, row in ANSWERED]
)
def test_answer_has_the_described_form(ports: dict[str, Port], kind: str, row: Any) -> None:
    asking, document = ports[kind]
    if "fault_id" in row.path and not asking.ask("GET", "/faults/1").body.get("fault_id"):
        asking.ask("POST", "/faults", BODIES["POST /faults"])
    bodies = BODIES if kind == "broker" else {**BODIES, **OTHER_BODIES}
    body = bodies.get(f"{row.method} {row.path}")
    answered = asking.ask(row.method, row.path.format(**VARIABLES), body)
    assert answered.status != 500, answered.body
    operation = document["paths"][row.path][row.method.lower()]
    described = operation["responses"].get(str(answered.status), operation["responses"]["default"])
    schema = described["content"]["application/json"]["schema"]
    whole = {**schema, "components": document["components"]}
    Draft202012Validator(whole).validate(answered.body)
    if body is not None:
        asked = operation["requestBody"]["content"]["application/json"]["schema"]
        Draft202012Validator({**asked, "components": document["components"]}).validate(body)
