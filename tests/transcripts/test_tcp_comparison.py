"""The comparison of responses over TCP with a transcript, and the mapping of names."""

from pathlib import Path

import pytest

from coterie.conformance.comparison import deviations
from coterie.conformance.core_broker import Output
from coterie.conformance.core_lines import is_core_line
from coterie.conformance.patterns import FieldDifference, Variables, compare, parse_fields
from coterie.conformance.patterns import substitute as substituted
from coterie.conformance.transcript import Block, parse
from coterie.conversation.learnt_names import LearntNames
from coterie.conversation.names import Names

EXPECTED = """\
# Two clients.

c1> DescribeGroups v5
c2> JoinGroup v9 member=c2-1
----
c1< DescribeGroups v5
c1<   orders Stable protocol=consumer/range
c1<     a client=c1 host=/h subscription=[sales] assignment=[sales-0]
c1<     b client=c2 host=/h subscription=[sales] assignment=[sales-1]
00:03.000 orders Stable -> PreparingRebalance cause="join" by=c2-1
log+ group orders generation=1 members=[]
timer join 00:03.000
c2  (delayed)
c2< JoinGroup v9 generation=1 protocol=c/range leader=a member=a members=[a, b]
"""


def block() -> Block:
    return parse(EXPECTED, Path("x.txt")).blocks[0]


def differ(lines: list[str]) -> bool:
    return bool(deviations(block(), [Output(lines)], Names(), {}))


def test_order_between_clients_and_within_lists_does_not_matter() -> None:
    assert not differ(
        [
            "c2< JoinGroup v9 generation=1 protocol=c/range leader=a member=a members=[b, a]",
            "c1< DescribeGroups v5",
            "c1<   orders Stable protocol=consumer/range",
            "c1<     b client=c2 host=/h subscription=[sales] assignment=[sales-1]",
            "c1<     a client=c1 host=/h subscription=[sales] assignment=[sales-0]",
        ],
    )


def test_missing_wrong_and_additional_responses_are_differences() -> None:
    good = [line for line in block().expected if not is_core_line(line)]
    assert not differ(good)
    assert differ(good[:-1])
    assert differ([*good[:-1], good[-1].replace("[a, b]", "[a, c]")])
    assert differ([*good, good[-1]])
    assert differ([*good, "c3< Heartbeat v4 ok"])
    assert differ([good[0], good[1], good[2], good[2], *good[4:]])


def test_differing_fields_of_a_line_are_named() -> None:
    good = [line for line in block().expected if not is_core_line(line)]
    wrong = [*good[:-1], good[-1].replace("generation=1", "generation=2")]
    (found,) = deviations(block(), [Output(wrong)], Names(), {})
    assert found.fields == [FieldDifference("generation", "1", "2")]


@pytest.mark.parametrize(
    ("pattern", "received", "fits"),
    [
        ("a=1", {"a": "1", "b": "2"}, True),
        ("a=1 b=3", {"a": "1", "b": "2"}, False),
        ("a=*", {"a": "7"}, True),
        ("a=*", {"b": "7"}, False),
        ("a=>=3", {"a": "3"}, True),
        ("a=>=3", {"a": "2"}, False),
        ("a=!=-1", {"a": "-1"}, False),
        ("a=ok|NONE", {"a": "ok"}, True),
        ("a=~Text", {"a": "some text here"}, True),
        ("a=[{x: 1}, {x: 2}]", {"a": [{"x": "2"}, {"x": "1"}]}, True),
        ("a=[{x: 1}]", {"a": [{"x": "2"}, {"x": "1"}]}, False),
        ("a=[{x: 1}, ...]", {"a": [{"x": "2"}, {"x": "1"}]}, True),
        ("a=[]", {"a": []}, True),
        ("a=[]", {"a": ["1"]}, False),
    ],
)
def test_expectations_name_the_fields_that_matter(
    pattern: str, received: dict[str, object], *, fits: bool
) -> None:
    assert (compare(parse_fields(pattern), received, {}) == []) is fits


def test_value_of_a_response_can_be_used_in_later_requests() -> None:
    variables: Variables = {}
    assert not compare(parse_fields("id=$id"), {"id": "41"}, variables)
    assert compare(parse_fields("id=$id"), {"id": "42"}, variables)
    assert substituted("c1> Fetch v7 session_id=$id session_epoch=$id+1", variables) == (
        "c1> Fetch v7 session_id=41 session_epoch=42"
    )


def test_member_ids_are_named_in_order_of_appearance() -> None:
    names = LearntNames("run7-")
    for owner in ("i", "c1", "i-1"):
        names.uses(owner)
    first = "c1-aaaaaaaa-0000-4000-8000-000000000001"
    second = "c1-aaaaaaaa-0000-4000-8000-000000000002"
    static = "i-1-aaaaaaaa-0000-4000-8000-000000000003"
    assert [names.member_text(each) for each in (first, static, second, first)] == [
        "c1-1",
        "i-1-1",
        "c1-2",
        "c1-1",
    ]
    assert names.member("c1-2") == second
    assert names.member("c1-9") == "c1-9"
    assert names.member("stranger") == "stranger"
    assert names.member_text("") == ""


def test_names_have_the_prefix_of_their_run() -> None:
    names = LearntNames("run7-", "run-")
    assert names.group("orders") == "run7-orders"
    assert names.group("") == ""
    assert names.group_text("run7-orders") == "orders"
    assert names.message_text("Group run7-orders not found.") == "Group orders not found."
    assert names.is_ours("run7-orders")
    assert not names.is_ours("run8-orders")
    assert (names.topic("sales"), names.topic_text("run-sales")) == ("run-sales", "sales")
    assert (names.own("sales"), names.own_text("run7-sales")) == ("run7-sales", "@sales")


def test_group_gets_a_name_that_the_broker_coordinates() -> None:
    names = LearntNames("run7-", is_here=lambda group: group.startswith("run7-2-"))
    assert names.group("orders") == "run7-2-orders"
    assert names.group_text("run7-2-orders") == "orders"


@pytest.mark.parametrize("member_id", ["c1-82f51b5a31a46db3", "82f51b5a31a46db3", "7", "a b", "ü"])
def test_member_id_of_any_form_gets_the_name_of_its_client(member_id: str) -> None:
    names = LearntNames("run7-")
    names.uses("c1")
    names.give(member_id, "c1")
    assert names.member_text(member_id) == "c1-1"
    assert names.member("c1-1") == member_id
    assert names.member_ids == [member_id]


def test_text_that_was_sent_as_a_member_id_is_not_renamed() -> None:
    names = LearntNames("run7-")
    names.uses("c1")
    assert names.member("c1-made-up") == "c1-made-up"
    names.give("c1-made-up", "c1")
    assert names.member_text("c1-made-up") == "c1-made-up"


def test_member_id_that_nobody_was_given_is_shown_as_it_is() -> None:
    names = LearntNames("run7-")
    assert names.member_text("opaque") == "opaque"
    assert names.nameless == {"opaque"}
    names.give("opaque", "c1")
    assert (names.member_text("opaque"), names.nameless) == ("c1-1", set())
