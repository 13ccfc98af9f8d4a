"""The comparison of responses over TCP with a transcript, and the mapping of names."""

from pathlib import Path

from coterie.conformance.core_lines import is_core_line
from coterie.conformance.tcp_driver import client_differences
from coterie.conformance.tcp_names import TcpNames
from coterie.conformance.transcript import Block, parse

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


def test_order_between_clients_and_within_lists_does_not_matter() -> None:
    assert not client_differences(
        block(),
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
    assert not client_differences(block(), good)
    assert client_differences(block(), good[:-1])
    assert client_differences(block(), [*good[:-1], good[-1].replace("[a, b]", "[a, c]")])
    assert client_differences(block(), [*good, good[-1]])
    assert client_differences(block(), [*good, "c3< Heartbeat v4 ok"])
    assert client_differences(block(), [good[0], good[1], good[2], good[2], *good[4:]])


def test_member_ids_are_named_in_order_of_appearance() -> None:
    names = TcpNames("-run7", lambda _: bytes(16))
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


def test_groups_have_the_suffix_of_their_run() -> None:
    names = TcpNames("-run7", lambda _: bytes(16))
    assert names.group("orders") == "orders-run7"
    assert names.group("") == ""
    assert names.group_text("orders-run7") == "orders"
    assert names.message_text("Group orders-run7 not found.") == "Group orders not found."
    assert names.is_ours("orders-run7")
    assert not names.is_ours("orders-run8")
