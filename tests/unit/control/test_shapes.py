"""Values of the typed API as JSON and back."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from coterie.control.control import FaultState
from coterie.control.shapes import Shape
from coterie.control.special_shapes import new_shapes
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.server.network.json_values import BadValue
from coterie.testing import (
    AnswerError,
    AnswerGarbage,
    CloseAfter,
    CloseBefore,
    CoordinatorLoads,
    CoordinatorMoves,
    CutAnswer,
    Delay,
    DiskFull,
    ErrorCode,
    Member,
    NeverAnswer,
    NoLeader,
    Record,
    Request,
    SlowDisk,
    Throttle,
)
from coterie.testing.actions import Action
from coterie.testing.faults import Scope
from coterie.testing.members import Partition

SHAPES = new_shapes()
MEMBER = Member("a-1", None, "a", "127.0.0.1", ("t",), (("t", 0), ("a-b", 12)), None)
JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=1,
    member_id="",
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\xff")],
)
DELETE = DeleteTopicsRequest(
    topics=[DeleteTopicsRequestTopic(name=None, topic_id=bytes(range(16)))], timeout_ms=1
)


def validated(shape: Shape, data: Any) -> Any:
    """Return JSON as the other end reads it, after a check against its schema."""
    schema = {**shape.schema, "components": {"schemas": SHAPES.components}}
    Draft202012Validator(schema).validate(data)
    return json.loads(json.dumps(data))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (str, "text"),
        (int | None, None),
        (int | None, 7),
        (float, 0.5),
        (float | None, 2),
        (bool, True),
        (bytes, b"text"),
        (bytes, b"\xff\x00"),
        (bytes | None, None),
        (bytes | None, b"text"),
        (bytes | str | None, "text"),
        (list[str], ["a", "b"]),
        (tuple[str, ...], ("a", "b")),
        (tuple[tuple[str, bytes], ...], (("h", b"\xff"),)),
        (dict[Partition, int], {("orders", 0): 3, ("a-b", 12): 4}),
        (dict[str, int], {"orders": 3}),
        (Member, MEMBER),
        (Member | str, MEMBER),
        (Member | str, "worker-1"),
        (ErrorCode, ErrorCode.NOT_COORDINATOR),
        (ApiKey, ApiKey.JOIN_GROUP),
        (Record, Record(0, 1, None, b"v", (("h", None),), 7)),
        (Request, Request(1, "JoinGroup", 5, "a", 3, 1, JOIN)),
        (Request, Request(1, "DeleteTopics", 6, "a", 3, 1, DELETE)),
        (
            list[FaultState],
            [FaultState(1, Delay(0.5), Scope(ApiKey.FETCH, topic="t"), 2, None, is_removed=False)],
        ),
        (type(None), None),
    ],
    ids=str,
)
def test_value_comes_back_as_it_was(annotation: Any, value: Any) -> None:
    shape = SHAPES.of(annotation)
    data = validated(shape, shape.encode(value))
    assert shape.decode(data, "") == value


@pytest.mark.parametrize(
    ("action", "data"),
    [
        (
            AnswerError(ErrorCode.NOT_COORDINATOR),
            {"kind": "AnswerError", "error": "NOT_COORDINATOR"},
        ),
        (Delay(0.5), {"kind": "Delay", "seconds": 0.5}),
        (NeverAnswer(handle=True), {"kind": "NeverAnswer", "handle": True}),
        (CloseBefore(), {"kind": "CloseBefore"}),
        (CloseAfter(), {"kind": "CloseAfter"}),
        (CutAnswer(9), {"kind": "CutAnswer", "sent_bytes": 9}),
        (AnswerGarbage(b"\xff"), {"kind": "AnswerGarbage", "body": {"base64": "/w=="}}),
        (Throttle(50), {"kind": "Throttle", "milliseconds": 50}),
        (CoordinatorLoads(), {"kind": "CoordinatorLoads"}),
        (CoordinatorMoves(), {"kind": "CoordinatorMoves"}),
        (NoLeader(), {"kind": "NoLeader"}),
        (DiskFull(), {"kind": "DiskFull"}),
        (SlowDisk(0.1), {"kind": "SlowDisk", "seconds": 0.1}),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_action_of_a_fault_is_an_object_with_its_kind(action: Action, data: Any) -> None:
    shape = SHAPES.of(Action)
    assert validated(shape, shape.encode(action)) == data
    assert shape.decode(data, "") == action


def test_fields_with_defaults_may_be_left_out() -> None:
    assert SHAPES.of(Action).decode({"kind": "CutAnswer"}, "") == CutAnswer()


@pytest.mark.parametrize(
    ("annotation", "data", "text"),
    [
        (str, 7, "x: text is wanted, not 7"),
        (int, True, "x: a whole number is wanted, not True"),
        (int, "7", "x: a whole number"),
        (int | None, "7", "x: a whole number"),
        (str, None, "x: text is wanted"),
        (list[int], [1, "b"], r"x\[1\]: a whole number"),
        (list[int], 1, "x: a list"),
        (tuple[str, bytes], ["a"], "x: 2 parts are wanted, not 1"),
        (dict[Partition, int], {"orders": 1}, 'x: a partition such as "orders-0"'),
        (dict[Partition, int], {"orders-0": "1"}, "x.orders-0: a whole number"),
        (bytes, 7, "x: text, null or"),
        (bytes, None, "x: text is wanted"),
        (bytes, {"base64": "?"}, "x.base64: no base64"),
        (Action, {"kind": "Explode"}, "x.kind: one of AnswerError, .*, not 'Explode'"),
        (Action, [], "x: an object"),
        (Action, {"kind": "Delay"}, "x.seconds: missing"),
        (Action, {"kind": "Delay", "minutes": 1}, "x.minutes: unknown field; known: seconds"),
        (Action, {"kind": "CloseBefore", "now": 1}, "x.now: unknown field; none is known"),
        (ErrorCode, "NOT_A_CODE", "x: 'NOT_A_CODE' is no error"),
        (ApiKey, "JoinGruop", "x: .* did you mean JoinGroup"),
    ],
)
def test_wrong_json_is_refused_with_its_place(annotation: Any, data: Any, text: str) -> None:
    with pytest.raises(BadValue, match=text):
        SHAPES.of(annotation).decode(data, "x")


def test_type_without_a_form_is_our_mistake() -> None:
    with pytest.raises(TypeError, match="has no form as JSON"):
        SHAPES.of(object)
