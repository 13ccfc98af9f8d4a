"""The control port, asked in memory: who is answered, what, and with which errors."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from coterie.control.broker_operations import BROKER
from coterie.control.openapi import document
from coterie.control.operations import operations_of
from coterie.control.special_shapes import new_shapes
from coterie.server.network.http_exchange import BODY_BYTES
from coterie.testing import Broker, BrokerLeak
from tests.unit.control.asking import Answered, Asking

JOIN = {"kind": "AnswerError", "error": "NOT_COORDINATOR"}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    """A broker with a topic and a record."""
    with Broker(topics={"orders": 2}) as running:
        running.produce("orders", "espresso")
        yield running


@pytest.fixture
def asking(kafka: Broker) -> Asking:
    """Its control port."""
    return Asking(kafka)


def refused(answered: Answered, status: int, kind: str, text: str) -> None:
    assert (answered.status, answered.body["kind"]) == (status, kind)
    assert text in answered.body["error"]
    assert answered.body["remedy"]


# --- who is answered ------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", "Basic secret", "secret"])
def test_token_is_needed(asking: Asking, given: str) -> None:
    answered = asking.ask("GET", "/topics", headers={"authorization": given})
    refused(answered, 401, "Unauthorized", "token")
    assert answered.headers[b"www-authenticate"] == b"Bearer"


@pytest.mark.parametrize("path", ["/health", "/ready", "/openapi.json", "/docs"])
def test_health_and_documents_need_no_token(asking: Asking, path: str) -> None:
    assert asking.ask("GET", path, headers={"authorization": ""}).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:1234", "", "127.0.0.1.evil:1", "a:b"]
)
@pytest.mark.parametrize("path", ["/topics", "/health", "/docs"])
def test_foreign_host_is_refused(asking: Asking, host: str, path: str) -> None:
    refused(asking.ask("GET", path, headers={"host": host}), 403, "HostRefused", host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9", "LOCALHOST", "[::1]", "[::1]:9"])
def test_own_host_is_served(asking: Asking, host: str) -> None:
    assert asking.ask("GET", "/topics", headers={"host": host}).status == 200


# --- what is asked --------------------------------------------------------------------------------


def test_unknown_path_and_method_are_refused(asking: Asking) -> None:
    refused(asking.ask("GET", "/nothing"), 404, "NotFound", "/nothing")
    refused(asking.ask("GET", "/groups//state"), 404, "NotFound", "/groups//state")
    answered = asking.ask("PUT", "/topics")
    refused(answered, 405, "MethodNotAllowed", "PUT")
    assert answered.headers[b"allow"] == b"GET, POST"


@pytest.mark.parametrize(
    ("method", "path", "body", "text"),
    [
        ("POST", "/topics", {"nmae": "t"}, "nmae: unknown field; known: name, partitions"),
        ("POST", "/topics", {}, "name: missing"),
        ("POST", "/topics", {"name": 7}, "name: text is wanted, not 7"),
        ("POST", "/faults", {"action": {"kind": "Delay", "second": 1}}, "action.second: unknown"),
        ("POST", "/groups/g/wait/stable", {"timeout_s": 601}, "timeout_s: at most 600"),
        ("GET", "/faults/x", None, "fault_id: a whole number is wanted, not 'x'"),
        ("POST", "/advance", {"seconds": "1"}, "seconds: a number is wanted"),
        ("POST", "/restart", {"now": True}, "now: unknown field; none is known"),
    ],
)
def test_wrong_field_is_named(asking: Asking, method: str, path: str, body: Any, text: str) -> None:
    refused(asking.ask(method, path, body), 400, "BadRequest", text)


def test_wrong_query_is_named(asking: Asking) -> None:
    path = "/topics/orders/records"
    refused(asking.ask("GET", path, query="part=1"), 400, "BadRequest", "part: unknown field")
    refused(asking.ask("GET", path, query="partition=x"), 400, "BadRequest", "partition: a whole")
    assert asking.ask("GET", path, query="partition=1").body == []


@pytest.mark.parametrize("data", [b"{", b"[]", b"7", b"\xff", b"[" * 100_000])
def test_body_is_a_json_object(asking: Asking, data: bytes) -> None:
    refused(asking.ask("POST", "/topics", data=data), 400, "BadRequest", "the body is no JSON")


def test_body_is_declared_and_bounded(asking: Asking) -> None:
    plain = {"content-type": "text/plain"}
    refused(asking.ask("POST", "/topics", {"name": "t"}, headers=plain), 415, "NotJson", "JSON")
    large = asking.ask("POST", "/topics", data=b" " * (BODY_BYTES + 1))
    refused(large, 413, "BodyTooLarge", f"{BODY_BYTES} bytes")


# --- operations -----------------------------------------------------------------------------------


def test_topics_and_records(asking: Asking) -> None:
    values = ["a", None, {"base64": "/w=="}]
    body = {"name": "t", "partitions": 2, "config": {"retention.ms": "60000"}}
    assert asking.ask("POST", "/topics", body).body == "t"
    more = {"values": values, "key": "k", "partition": 1, "headers": [["h", "1"]]}
    assert asking.ask("POST", "/topics/t/records", {**more, "timestamp_ms": 7}).body == 0
    assert asking.ask("GET", "/topics").body["t"] == 2
    records = asking.ask("GET", "/topics/t/records").body
    assert [each["value"] for each in records] == values
    assert {each["partition"] for each in records} == {1}
    assert records[0] == {
        "partition": 1, "offset": 0, "key": "k", "value": "a", "headers": [["h", "1"]],
        "timestamp_ms": 7,
    }  # fmt: skip
    refused(asking.ask("POST", "/topics", body), 400, "WrongUse", "TOPIC_ALREADY_EXISTS")
    assert asking.ask("DELETE", "/topics/t").status == 200
    refused(asking.ask("GET", "/topics/u/records"), 400, "WrongUse", "topic 'u' does not exist")


def test_group_that_does_not_exist(asking: Asking) -> None:
    state = asking.ask("GET", "/groups/a%2Fb%20c").body
    assert (state["group_id"], state["state"], state["generation"]) == ("a/b c", "Dead", -1)
    for name in ("state", "generation", "members", "assignment", "offsets", "lag", "history"):
        assert asking.ask("GET", f"/groups/g/{name}").status == 200
    assert "does not exist" in asking.ask("GET", "/groups/g/stuck").body
    assert asking.ask("POST", "/groups/g/wait/empty").body["group_id"] == "g"
    refused(asking.ask("POST", "/groups/g/rebalance"), 400, "WrongUse", "no rebalance can begin")
    expelled = asking.ask("POST", "/groups/g/expel", {"member": "a"})
    refused(expelled, 400, "WrongUse", "no member has the id 'a'")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("stable", {"members": 2}),
        ("assigned", {"topics": ["orders"]}),
        ("committed", {"offsets": {"orders-0": 1}}),
        ("rebalanced", {"since_generation": 3}),
    ],
)
def test_failed_wait_is_answered_with_the_picture(asking: Asking, path: str, body: Any) -> None:
    answered = asking.ask("POST", f"/groups/g/wait/{path}", {**body, "timeout_s": 0.02})
    refused(answered, 408, "WaitTimedOut", "not so within 0.02 s\ngroup 'g' does not exist")


def test_fault_is_installed_counted_and_removed(asking: Asking, kafka: Broker) -> None:
    body = {"action": JOIN, "api": "Heartbeat", "client_id": "a", "times": 2}
    state = asking.ask("POST", "/faults", body).body
    assert (state["action"], state["hits"], state["is_removed"]) == (JOIN, 0, False)
    assert (state["scope"]["api"], state["scope"]["client_id"]) == ("Heartbeat", "a")
    path = f"/faults/{state['fault_id']}"
    assert asking.ask("GET", "/faults").body == [state]
    assert asking.ask("GET", path).body == state
    refused(asking.ask("POST", f"{path}/must_have_hit"), 409, "FaultNotHit", "; 0 before")
    kafka._interception.faults[-1].hits = 2
    assert asking.ask("POST", f"{path}/must_have_hit", {"times": 2}).body is None
    assert asking.ask("DELETE", path).status == 200
    assert asking.ask("GET", path).body == {**state, "hits": 2, "is_removed": True}
    assert asking.ask("GET", "/faults").body == []
    refused(asking.ask("GET", "/faults/99"), 400, "WrongUse", "there is no fault 99")
    wrong = {"action": {"kind": "AnswerError", "error": "NO"}}
    refused(asking.ask("POST", "/faults", wrong), 400, "WrongUse", "'NO' is no error")
    refused(asking.ask("POST", "/faults", {"action": JOIN, "api": "X"}), 400, "WrongUse", "no API")


def test_requests_are_listed_and_forgotten(asking: Asking) -> None:
    assert asking.ask("DELETE", "/requests").status == 200
    assert asking.ask("GET", "/requests").body == []
    assert asking.ask("GET", "/requests/JoinGroup", query="client_id=7&version=3").body == []
    refused(asking.ask("GET", "/requests/Fetch/last"), 404, "RequestNotSeen", "no Fetch was sent")


@pytest.mark.parametrize("path", ["/restart", "/kill", "/lose_power"])
def test_broker_is_started_again_with_its_data(asking: Asking, path: str) -> None:
    before = asking.ask("GET", "/ready").body
    assert asking.ask("POST", "/flush").status == 200
    assert asking.ask("POST", path).status == 200
    assert asking.ask("GET", "/ready").body == before
    assert asking.ask("GET", "/topics/orders/records").body[0]["value"] == "espresso"
    assert asking.ask("POST", "/advance", {"seconds": 3}).status == 200
    refused(asking.ask("POST", "/advance", {"seconds": -1}), 400, "WrongUse", "from 0 to")


def test_closed_broker_is_not_ready() -> None:
    with Broker() as kafka:
        asking = Asking(kafka)
        assert asking.ask("GET", "/ready").status == 200
        assert not asking.was_closed
        assert asking.ask("POST", "/close").status == 200
        assert asking.was_closed
        refused(asking.ask("GET", "/ready"), 503, "BrokerNotStarted", "does not run")
        assert asking.ask("GET", "/health").status == 200


def test_wait_ends_when_its_client_goes_away(asking: Asking) -> None:
    async def go() -> None:
        gone = asyncio.Event()
        wait = asking.asked("POST", "/groups/g/wait/stable", {"timeout_s": 600}, gone=gone)
        task = asyncio.create_task(wait)
        await asyncio.sleep(0)
        gone.set()
        assert (await asyncio.wait_for(task, 20)).status == 0

    asyncio.run(go())


def test_bug_of_ours_is_reported(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Broker) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Broker, "topics", property(fail))
    refused(asking.ask("GET", "/topics"), 500, "InternalError", "ZeroDivisionError: a bug")
    assert [str(each) for each in asking.failures] == ["a bug"]


def test_leak_is_reported(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    def close(_: Broker) -> None:
        raise BrokerLeak("a task is left")

    monkeypatch.setattr(Broker, "close", close)
    refused(asking.ask("POST", "/close"), 500, "BrokerLeak", "a task is left")
    assert asking.was_closed


def test_page_lists_every_operation_and_loads_nothing(asking: Asking) -> None:
    page = asking.ask("GET", "/docs")
    for operation in asking.application.operations:
        assert operation.row.path in page.body
    assert b"default-src 'none'" in page.headers[b"content-security-policy"]
    assert "src=" not in page.body
    assert "<script" not in page.body


def test_document_is_made_from_the_table(asking: Asking) -> None:
    shapes = new_shapes()
    assert asking.ask("GET", "/openapi.json").body == document(
        operations_of(shapes, BROKER), shapes
    )
