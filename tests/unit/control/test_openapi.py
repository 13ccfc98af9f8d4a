"""The OpenAPI document: complete, well-formed, and true of the answers."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from coterie.control.operations import ROWS
from coterie.testing import Broker
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
}
VARIABLES = {
    "topic": "orders", "name": "none", "group_id": "g", "fault_id": "1", "api": "Fetch",
    "user": "alice",
}  # fmt: skip


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    """The control port of a broker."""
    with Broker(topics={"orders": 1}) as kafka:
        kafka.produce("orders", "a", None, b"\xff", key="k")
        yield Asking(kafka)


@pytest.fixture(scope="module")
def document(asking: Asking) -> Any:
    """The document as a client reads it."""
    return asking.ask("GET", "/openapi.json").body


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


def test_every_row_is_described(document: Any) -> None:
    described = {
        (method.upper(), path) for path, item in document["paths"].items() for method in item
    }
    assert described == {(row.method, row.path) for row in ROWS}
    ids = [each["operationId"] for item in document["paths"].values() for each in item.values()]
    assert len(set(ids)) == len(ids) == len(ROWS)
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
    "row", [row for row in ROWS if row.path != "/close"], ids=lambda row: f"{row.method} {row.path}"
)
def test_answer_has_the_described_form(asking: Asking, document: Any, row: Any) -> None:
    if "fault_id" in row.path and not asking.ask("GET", "/faults/1").body.get("fault_id"):
        asking.ask("POST", "/faults", BODIES["POST /faults"])
    body = BODIES.get(f"{row.method} {row.path}")
    answered = asking.ask(row.method, row.path.format(**VARIABLES), body)
    operation = document["paths"][row.path][row.method.lower()]
    described = operation["responses"].get(str(answered.status), operation["responses"]["default"])
    schema = described["content"]["application/json"]["schema"]
    whole = {**schema, "components": document["components"]}
    Draft202012Validator(whole).validate(answered.body)
    if body is not None:
        asked = operation["requestBody"]["content"]["application/json"]["schema"]
        Draft202012Validator({**asked, "components": document["components"]}).validate(body)
