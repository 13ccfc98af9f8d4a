"""`coterie groups list`, `describe`, `delete` and `delete-offsets`, against a scripted broker."""

import json
from typing import Any

import pytest

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.connect_protocol import (
    ConnectAssignment,
    ConnectorTasks,
    ConnectWorkerMetadata,
    encode_assignment,
    encode_metadata,
)
from coterie.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember,
    DescribedAssignment,
    DescribedTopicPartitions,
)
from coterie.protocol.messages.delete_groups import DeleteGroupsResponse, DeleteGroupsResponseResult
from coterie.protocol.messages.describe_groups import DescribeGroupsResponseMember
from coterie.protocol.messages.list_groups import ListGroupsResponse, ListGroupsResponseGroup
from coterie.protocol.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tests.unit.cli.command import (
    cells_of,
    committed,
    described,
    group,
    listed_offsets,
    member,
    rows_of,
    run,
)
from tests.unit.client.fake_broker import FakeBroker

LISTED = ListGroupsResponse(
    error_code=0,
    groups=[
        ListGroupsResponseGroup(
            group_id=name, protocol_type=protocol, group_state=state, group_type=kind
        )
        for name, protocol, state, kind in [
            ("orders", "consumer", "Stable", "classic"),
            ("billing", "consumer", "Empty", "classic"),
            ("next", "consumer", "Stable", "consumer"),
        ]
    ],
)

OFFSET_HEADER = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
OFFSET_HEADER += ["CONSUMER-ID", "HOST", "CLIENT-ID"]
MEMBER_HEADER = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]


def deleting(**errors: int) -> Any:
    def respond(request: Any, _: int) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(
            results=[
                DeleteGroupsResponseResult(group_id=name, error_code=errors.get(name, 0))
                for name in request.groups_names
            ]
        )

    return respond


def deleting_offsets(group_error: int = 0, **errors: int) -> Any:
    def respond(request: Any, _: int) -> OffsetDeleteResponse:
        topics = [
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=part.partition_index, error_code=errors.get(topic.name, 0)
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return OffsetDeleteResponse(error_code=group_error, topics=[] if group_error else topics)

    return respond


def describing(*groups: Any, **topics: dict[int, int]) -> FakeBroker:
    """Return a broker with these groups, each of which has committed `topics`."""
    responses = {
        ApiKey.DESCRIBE_GROUPS: described(*groups),
        ApiKey.OFFSET_FETCH: committed(**topics),
        ApiKey.LIST_OFFSETS: listed_offsets,
        ApiKey.LIST_GROUPS: ListGroupsResponse(error_code=0, groups=[]),
    }
    return FakeBroker(responses, topics={"t": 3, "u": 1})


def test_list_prints_one_id_per_line() -> None:
    with FakeBroker({ApiKey.LIST_GROUPS: LISTED}) as broker:
        result = run(broker, "groups", "list")
    assert (result.exit_code, result.stdout) == (0, "billing\nnext\norders\n")


@pytest.mark.parametrize(
    ("options", "header"),
    [
        (["--state"], ["GROUP", "STATE"]),
        (["--type"], ["GROUP", "TYPE"]),
        (["--state", "--type"], ["GROUP", "TYPE", "STATE"]),
        (["--verbose"], ["GROUP", "TYPE", "PROTOCOL", "STATE"]),
    ],
)
def test_list_has_the_columns_of_kafkas_tool(options: list[str], header: list[str]) -> None:
    with FakeBroker({ApiKey.LIST_GROUPS: LISTED}) as broker:
        table = cells_of(run(broker, "groups", "list", *options))
    assert table[0] == header
    assert len(table) == 4
    assert table[2][0] == "next"


def test_list_filters_the_response_of_old_brokers() -> None:
    with FakeBroker({ApiKey.LIST_GROUPS: LISTED}) as broker:
        result = run(broker, "groups", "list", "--state", "stable,Dead", "--type", "CLASSIC")
        (request,) = broker.seen(ApiKey.LIST_GROUPS)
    assert cells_of(result)[1:] == [["orders", "Classic", "Stable"]]
    assert (request.states_filter, request.types_filter) == (["Stable", "Dead"], ["classic"])


@pytest.mark.parametrize("option", ["--state", "--type"])
def test_list_refuses_an_unknown_state_or_type(option: str) -> None:
    result = run(None, "groups", "list", option, "stabel")
    assert result.exit_code == 2
    assert f"Invalid value for {option}: 'stabel' is not one of" in result.stderr


def test_list_as_json_has_every_key() -> None:
    with FakeBroker({ApiKey.LIST_GROUPS: LISTED}) as broker:
        rows = rows_of(run(broker, "groups", "list", "--json"))
    assert rows[2] == {
        "group": "orders",
        "type": "classic",
        "protocol_type": "consumer",
        "state": "Stable",
    }


def test_describe_joins_offsets_ends_and_owners() -> None:
    broker = describing(
        group("orders", "Stable", member("one", t=[0, 2]), member("two", u=[0])),
        t={0: 15, 1: 20},
        u={0: 25},
    )
    with broker:
        result = run(broker, "groups", "describe", "orders")
    assert result.exit_code == 0
    assert result.stderr == ""
    header, *table = cells_of(result)
    assert header == OFFSET_HEADER
    assert table == [
        ["orders", "t", "0", "15", "20", "5", "one-id", "/10.0.0.1", "one"],
        ["orders", "t", "1", "20", "20", "0", "-", "-", "-"],
        ["orders", "t", "2", "-", "20", "-", "one-id", "/10.0.0.1", "one"],
        # A negative lag is shown unchanged: it reveals a topic that was deleted and created again.
        ["orders", "u", "0", "25", "20", "-5", "two-id", "/10.0.0.1", "two"],
    ]


def test_describe_has_the_layout_of_kafkas_tool() -> None:
    with describing(group("orders", "Stable", member("one", t=[0])), t={0: 15}) as broker:
        lines = run(broker, "groups", "describe", "orders").stdout.splitlines()
    assert lines == [
        (
            "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG"
            "             CONSUMER-ID     HOST            CLIENT-ID"
        ),
        (
            "orders          t               0          15              20              5"
            "               one-id          /10.0.0.1       one"
        ),
    ]


def test_describe_shows_offsets_of_a_deleted_topic() -> None:
    with describing(group("orders", "Empty"), deleted={0: 5}) as broker:
        result = run(broker, "groups", "describe", "orders")
    assert cells_of(result)[1] == ["orders", "deleted", "0", "5", "-", "-", "-", "-", "-"]
    assert "Group 'orders' has no active members." in result.stderr


def test_describe_reports_a_group_without_offsets() -> None:
    with describing(group("orders", "Empty")) as broker:
        result = run(broker, "groups", "describe", "orders")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no committed offsets" in result.stderr


def test_describe_as_json_has_every_key() -> None:
    broker = describing(group("orders", "Stable", member("one", instance="i-1", t=[0])), t={0: 15})
    with broker:
        (row,) = rows_of(run(broker, "groups", "describe", "orders", "--json"))
    assert row == {
        "group": "orders",
        "topic": "t",
        "partition": 0,
        "leader_epoch": None,
        "current_offset": 15,
        "log_end_offset": 20,
        "lag": 5,
        "metadata": "",
        "consumer_id": "one-id",
        "group_instance_id": "i-1",
        "host": "/10.0.0.1",
        "client_id": "one",
        "consumed_per_s": None,
        "produced_per_s": None,
        "last_commit": None,
    }


def test_describe_members_decodes_assignments() -> None:
    static = member("two", instance="i-2", u=[0])
    broker = describing(group("orders", "Stable", static, member("one", t=[2, 0])))
    with broker:
        plain = cells_of(run(broker, "groups", "describe", "--members", "orders"))
        verbose = cells_of(run(broker, "groups", "describe", "--members", "--verbose", "orders"))
        rows = rows_of(run(broker, "groups", "describe", "--members", "--json", "orders"))
    assert plain[0] == MEMBER_HEADER
    assert plain[1] == ["orders", "one-id", "-", "/10.0.0.1", "one", "2"]
    assert verbose[0][-1] == "SUBSCRIPTION"
    assert verbose[1][-4:] == ["t:0,2", "-", "-", "-"]
    assert rows[1] == {
        "group": "orders",
        "consumer_id": "two-id",
        "group_instance_id": "i-2",
        "host": "/10.0.0.1",
        "client_id": "two",
        "partition_count": 1,
        "member_epoch": None,
        "assignment": {"u": [0]},
        "target_epoch": None,
        "target_assignment": None,
        "worker": None,
        "streams": None,
        "subscription": None,
        "regex": None,
        "client_software": None,
        "client_software_version": None,
        "principal": None,
    }


def test_describe_members_decodes_connect_workers() -> None:
    metadata = ConnectWorkerMetadata(url="http://w/", config_offset=7)
    assignment = ConnectAssignment(
        assigned=[ConnectorTasks(connector="sink", tasks=[-1, 0, 1])], revoked=[], delay_ms=5
    )
    worker = DescribeGroupsResponseMember(
        member_id="w-1",
        client_id="w",
        client_host="/h",
        member_metadata=encode_metadata(metadata),
        member_assignment=encode_assignment(assignment),
    )
    described = group("cluster", "Stable", worker)
    described.protocol_type = "connect"
    with describing(described) as broker:
        (row,) = rows_of(run(broker, "groups", "describe", "--members", "--json", "cluster"))
    assert row["worker"] == {
        "url": "http://w/",
        "config_offset": 7,
        "running": {"sink": [-1, 0, 1]},
        "revoked": {},
        "delay_ms": 5,
        "error": 0,
    }


def test_describe_members_does_not_decode_other_protocols() -> None:
    worker = DescribeGroupsResponseMember(
        member_id="w",
        client_id="connect",
        client_host="/h",
        member_metadata=b"\1",
        member_assignment=b"\xff\xff\xff",
    )
    with describing(group("orders", "Stable", worker)) as broker:
        (row,) = rows_of(run(broker, "groups", "describe", "--members", "--json", "orders"))
    assert (row["assignment"], row["partition_count"]) == (None, 0)


def test_describe_state_shows_coordinator_strategy_and_size() -> None:
    with describing(group("orders", "Stable", member("one"))) as broker:
        result = run(broker, "groups", "describe", "--state", "orders")
        (row,) = rows_of(run(broker, "groups", "describe", "--state", "--json", "orders"))
    assert cells_of(result) == [
        ["GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"],
        ["orders", broker.bootstrap, "(1)", "range", "Stable", "1"],
    ]
    assert row == {
        "group": "orders",
        "coordinator": broker.bootstrap,
        "coordinator_id": 1,
        "type": "classic",
        "protocol_type": "consumer",
        "assignment_strategy": "range",
        "state": "Stable",
        "group_epoch": None,
        "target_assignment_epoch": None,
        "member_count": 1,
        "topology": None,
    }


def test_describe_reports_a_group_of_another_type() -> None:
    broker = describing()
    broker.responses[ApiKey.LIST_GROUPS] = ListGroupsResponse(
        error_code=0,
        groups=[ListGroupsResponseGroup(group_id="s", protocol_type="future", group_type="future")],
    )
    with broker:
        named = run(broker, "groups", "describe", "s")
        every = run(broker, "groups", "describe", "--all-groups")
    assert named.exit_code == 1
    assert "Group 's' is a future group." in named.stderr
    assert (every.exit_code, every.stdout) == (0, "")


def test_describe_reports_a_rebalance() -> None:
    with describing(group("orders", "PreparingRebalance", member("one"))) as broker:
        result = run(broker, "groups", "describe", "--state", "orders")
    assert "Group 'orders' is rebalancing (PreparingRebalance)" in result.stderr


def test_describe_all_groups_separates_tables_by_a_blank_line() -> None:
    broker = describing(group("orders"), group("billing", "Empty"), group("next"))
    broker.responses[ApiKey.LIST_GROUPS] = LISTED
    with broker:
        result = run(broker, "groups", "describe", "--all-groups", "--state")
    assert [line.split()[:1] for line in result.stdout.splitlines()] == [
        ["GROUP"], ["billing"], [], ["GROUP"], ["next"], [], ["GROUP"], ["orders"],
    ]  # fmt: skip


def test_describe_shows_existing_groups_and_fails_for_missing_ones() -> None:
    with describing(group("orders")) as broker:
        result = run(broker, "groups", "describe", "--state", "lost", "orders", "gone")
    assert result.exit_code == 1
    assert cells_of(result)[1][0] == "orders"
    assert "Error: Groups 'lost', 'gone' do not exist." in result.stderr
    assert "`coterie groups list`" in result.stderr


@pytest.mark.parametrize("arguments", [[], ["orders", "--all-groups"]])
def test_describe_needs_names_or_all_groups(arguments: list[str]) -> None:
    result = run(None, "groups", "describe", *arguments)
    assert result.exit_code == 2
    assert "Name groups, or use --all-groups." in result.stderr


def test_describe_shows_groups_of_the_consumer_protocol() -> None:
    """DescribeGroups responds GROUP_ID_NOT_FOUND for a group of type consumer (KIP-848)."""
    part = DescribedTopicPartitions(topic_id=bytes(16), topic_name="t", partitions=[1, 0])
    assigned = DescribedAssignment(topic_partitions=[part])
    one = ConsumerGroupDescribeResponseMember(
        member_id="m",
        member_epoch=4,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["t"],
        subscribed_topic_regex="a.*",
        assignment=assigned,
        target_assignment=assigned,
    )
    response = ConsumerGroupDescribeResponse(
        groups=[
            ConsumerGroupDescribeResponseGroup(
                error_code=0,
                group_id="next",
                group_state="Stable",
                group_epoch=5,
                assignment_epoch=4,
                assignor_name="uniform",
                members=[one],
            )
        ]
    )
    broker = describing()
    broker.ranges[ApiKey.CONSUMER_GROUP_DESCRIBE] = (0, 1)
    broker.responses[ApiKey.CONSUMER_GROUP_DESCRIBE] = response
    with broker:
        state = cells_of(run(broker, "groups", "describe", "--state", "--verbose", "next"))
        members = cells_of(run(broker, "groups", "describe", "--members", "--verbose", "next"))
    assert state[1][-5:] == ["uniform", "Stable", "5", "4", "1"]
    assert members[1][-5:] == ["4", "t:0,1", "4", "t:0,1", "t,/a.*/"]


def test_old_brokers_describe_a_missing_group_as_dead() -> None:
    """Before DescribeGroups v6 there is no error for a group that does not exist."""
    broker = describing(group("lost", "Dead"))
    broker.ranges = {**SERVED_VERSIONS, ApiKey.DESCRIBE_GROUPS: (0, 5)}
    with broker:
        result = run(broker, "groups", "describe", "lost")
    assert result.exit_code == 1
    assert "Group 'lost' does not exist." in result.stderr


def test_delete_reports_each_group() -> None:
    with FakeBroker({ApiKey.DELETE_GROUPS: deleting()}) as broker:
        result = run(broker, "groups", "delete", "a", "b")
    assert (result.exit_code, result.stdout) == (0, "Deleted group 'a'.\nDeleted group 'b'.\n")


def test_delete_names_the_members_of_a_group() -> None:
    errors = {"orders": ErrorCode.NON_EMPTY_GROUP, "lost": ErrorCode.GROUP_ID_NOT_FOUND}
    members = [member(f"m{n}") for n in range(7)]
    broker = describing(group("orders", "Stable", *members))
    broker.responses[ApiKey.DELETE_GROUPS] = deleting(**errors)
    with broker:
        result = run(broker, "groups", "delete", "orders", "lost", "free")
        as_json = run(broker, "groups", "delete", "orders", "free", "--json")
    assert result.exit_code == 1
    assert result.stdout == "Deleted group 'free'.\n"
    assert "Group 'orders' is not empty: 7 live members: m0-id (client m0 at /10.0.0.1)" in (
        result.stderr
    )
    assert "m4-id (client m4 at /10.0.0.1) and 2 more. Stop its members first." in result.stderr
    assert "Group 'lost' does not exist." in result.stderr
    assert json.loads(as_json.stdout) == [
        {"group": "orders", "deleted": False, "error": "NON_EMPTY_GROUP"},
        {"group": "free", "deleted": True, "error": None},
    ]


def test_delete_reports_other_errors_by_name() -> None:
    response = deleting(a=ErrorCode.GROUP_AUTHORIZATION_FAILED, b=999)
    with FakeBroker({ApiKey.DELETE_GROUPS: response}) as broker:
        result = run(broker, "groups", "delete", "a", "b")
    assert "Group 'a' was not deleted: GROUP_AUTHORIZATION_FAILED" in result.stderr
    assert "Group 'b' was not deleted: error 999" in result.stderr


def test_delete_offsets_of_topics_and_partitions() -> None:
    with FakeBroker({ApiKey.OFFSET_DELETE: deleting_offsets()}, topics={"t": 3, "u": 1}) as broker:
        options = ["--group", "g", "--topic", "t:2,0", "--topic", "u"]
        result = run(broker, "groups", "delete-offsets", *options)
        rows = rows_of(run(broker, "groups", "delete-offsets", *options, "--json"))
    assert result.exit_code == 0
    assert cells_of(result) == [
        ["TOPIC", "PARTITION", "STATUS"],
        ["t", "0", "Successful"],
        ["t", "2", "Successful"],
        ["u", "0", "Successful"],
    ]
    assert rows[0] == {"group": "g", "topic": "t", "partition": 0, "deleted": True, "error": None}


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (deleting_offsets(ErrorCode.GROUP_ID_NOT_FOUND), "Group 'g' does not exist."),
        (deleting_offsets(t=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC), "still subscribed"),
        (deleting_offsets(ErrorCode.NON_EMPTY_GROUP), "NON_EMPTY_GROUP"),
    ],
)
def test_delete_offsets_reports_the_cause(response: Any, error: str) -> None:
    with FakeBroker({ApiKey.OFFSET_DELETE: response}, topics={"t": 1}) as broker:
        result = run(broker, "groups", "delete-offsets", "--group", "g", "--topic", "t")
    assert result.exit_code == 1
    assert error in result.stderr
    assert cells_of(result)[1][2] != "Successful"


def test_names_cannot_control_the_terminal() -> None:
    bad = ListGroupsResponse(
        error_code=0, groups=[ListGroupsResponseGroup(group_id="\x1b[31mred\n", protocol_type="")]
    )
    with FakeBroker({ApiKey.LIST_GROUPS: bad}) as broker:
        assert run(broker, "groups", "list").stdout == "\\x1b[31mred\\n\n"
        assert "\x1b" not in run(broker, "groups", "list", "--verbose").stdout
        assert rows_of(run(broker, "groups", "list", "--json"))[0]["group"] == "\x1b[31mred\n"
