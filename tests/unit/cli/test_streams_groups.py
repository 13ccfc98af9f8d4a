"""The commands of groups on a streams group (KIP-1071) of a running broker, and its page in the
console [client/streams-groups]."""

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.cli.groups.streams_tables import work_columns
from coterie.client.cluster import Cluster
from coterie.console.group.look import GroupMemory
from coterie.console.group.rows import group_json
from coterie.console.recent_past import RecentPast
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsHeartbeatEndpoint,
)
from coterie.testing import Broker
from tests.live.deadlines import eventually
from tests.unit.cli.command import rows_of
from tests.unit.cli.group_commands import groups, refused, rows
from tests.unit.coordinator.streams.harness import subtopology, topology

GROUP = "sums"
TOPOLOGY = {
    "epoch": 0,
    "subtopologies": [
        {
            "subtopology_id": "0",
            "source_topics": {"bills": 1, "orders": 2},
            "repartition_source_topics": {},
            "repartition_sink_topics": [],
            "state_changelog_topics": {"store": 2},
            "task_count": 2,
        }
    ],
}
NO_WAIT = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.num.standby.replicas": "1",
}
ORDERS = {"orders": 2, "bills": 1}
RESET = ("reset-offsets", "--group", GROUP, "--topic", "orders", "--to-offset", "1")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics=ORDERS, config=NO_WAIT) as broker:
        for number in range(3):
            broker.produce("orders", f"{number}", partition=0)
        yield broker


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers) as cluster:
        yield cluster


def beat(cluster: Cluster, member_id: str, epoch: int, **fields: Any) -> Any:
    """Send a heartbeat of a member that is a process of its own; return the response."""
    if epoch == 0:
        sums = subtopology("0", *ORDERS, changelogs=["store"])
        fields |= {
            "rebalance_timeout_ms": 60_000,
            "topology": topology(sums),
            "process_id": f"process-{member_id}",
            "user_endpoint": StreamsHeartbeatEndpoint(host="localhost", port=8080),
        }
    if epoch >= 0:
        fields = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []} | fields
    request = StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        endpoint_information_epoch=0,
        **fields,
    )
    return cluster.call_coordinators(
        [GROUP],
        lambda _: request,
        StreamsGroupHeartbeatResponse,
        lambda response: {GROUP: (response.error_code, response)},
    )[GROUP]


def offsets(broker: Broker) -> list[tuple[str, int, int | None, int | None, str | None]]:
    return [
        (row["topic"], row["partition"], row["current_offset"], row["lag"], row["consumer_id"])
        for row in rows(broker, "describe", GROUP)
    ]


def roles(active: dict[str, list[int]], standby: dict[str, list[int]]) -> Any:
    return {"active": active, "standby": standby, "warmup": {}}


def has_tasks(cluster: Cluster) -> bool:
    """Join again until the changelog exists and the member has both tasks."""
    found = beat(cluster, "m1", 0).active_tasks
    return bool(found) and len(found[0].partitions) == 2


def test_commands_in_the_life_of_a_streams_group(broker: Broker, cluster: Cluster) -> None:
    """One test, because a broker takes as long to start as all of this."""
    eventually(lambda: has_tasks(cluster), "the member is assigned tasks")
    described_with_one_member(broker)
    beat(cluster, "m2", 0)
    described_with_two_members(broker, cluster)
    refused_with_members(broker)
    for each in ("m1", "m2"):
        beat(cluster, each, -1)
    changed_without_members(broker, cluster)

    def history() -> list[str]:
        return [row["event"] for row in rows(broker, "history", GROUP)]

    # The journal is written a little late.
    eventually(lambda: "group_deleted" in history(), "the journal has the end")
    assert history().count("member_joined") == history().count("member_removed") == 3
    assert {"group_epoch_raised", "target_computed", "group_converged"} <= set(history())
    told = groups(broker, "history", GROUP).stdout
    assert "m1 left" in told
    assert "1 task to move" in told
    assert "partition" not in told


def described_with_one_member(broker: Broker) -> None:
    ((listed),) = rows(broker, "list", "--type", "streams")
    assert (listed["group"], listed["type"], listed["state"]) == (GROUP, "streams", "Stable")
    (state,) = rows(broker, "describe", GROUP, "--state")
    assert (state["type"], state["group_epoch"], state["member_count"]) == (
        "streams", state["target_assignment_epoch"], 1,
    )  # fmt: skip
    assert state["topology"] == TOPOLOGY
    table = groups(broker, "describe", GROUP, "--state", "--verbose").stdout.splitlines()
    assert table[-1].split() == [GROUP, "0", "2", "bills(1),orders(2)", "-", "store(2)"]
    (member,) = rows(broker, "describe", GROUP, "--members")
    assert (member["consumer_id"], member["assignment"]) == (
        "m1", {"bills": [0], "orders": [0, 1]},
    )  # fmt: skip
    both = roles({"0": [0, 1]}, {})
    assert member["streams"] == {
        "process_id": "process-m1",
        "endpoint": "localhost:8080",
        "topology_epoch": 0,
        "tasks": both,
        "target": both,
    }
    assert offsets(broker) == [
        ("bills", 0, None, None, "m1"), ("orders", 0, None, None, "m1"),
        ("orders", 1, None, None, "m1"),
    ]  # fmt: skip


def described_with_two_members(broker: Broker, cluster: Cluster) -> None:
    """The first member has yet to give up a task, of which it is to have the standby."""
    work = [row["streams"] for row in rows(broker, "describe", GROUP, "--members")]
    assert work[0]["tasks"] == roles({"0": [0, 1]}, {})
    targets = [each["target"] for each in work]
    assert [len(each["active"]["0"]) for each in targets] == [1, 1]
    assert [each["standby"] for each in targets] == [each["active"] for each in targets[::-1]]
    first = groups(broker, "describe", GROUP, "--members").stdout.splitlines()[1]
    (kept,), (waits,) = targets[0]["active"]["0"], targets[0]["standby"]["0"]
    assert "active 0:0,1 " in first
    assert f"active 0:{kept} standby 0:{waits} " in first

    # The page of the console has the same.
    memory = GroupMemory(GROUP, RecentPast())
    seen = memory.look(cluster)
    assert seen is not None
    page = group_json(seen)
    assert (page["type"], page["state"], page["member_count"]) == ("streams", "Reconciling", 2)
    assert page["topology"] == TOPOLOGY
    assert [each["streams"] for each in page["members"]] == work
    assert [each["topic"] for each in page["partitions"]] == ["bills", "orders", "orders"]


def refused_with_members(broker: Broker) -> None:
    assert "2 live members: m" in refused(broker, *RESET)
    assert "2 live members: m" in refused(broker, "delete", GROUP)
    assert f"Group '{GROUP}' is a streams group." in refused(
        broker, "assign", GROUP, "--assignor", "range"
    )
    # The first member has sent no heartbeat since the second one joined.
    checked = groups(broker, "check", "--all-groups", "--interval", "0", "--json")
    assert [(row["group"], row["check"], row["subject"]) for row in rows_of(checked)] == [
        (GROUP, "held-back-tasks", "coterie-cli m1")
    ]


def changed_without_members(broker: Broker, cluster: Cluster) -> None:
    assert [row["committed"] for row in rows(broker, *RESET, "--execute")] == [True, True]
    assert offsets(broker) == [("orders", 0, 1, 2, None), ("orders", 1, 0, 0, None)]
    (totals,) = rows(broker, "list", "--lag", "--type", "streams")
    assert (totals["partition_count"], totals["uncommitted_count"], totals["lag"]) == (2, 0, 2)
    delete = ("delete-offsets", "--group", GROUP, "--topic", "orders")
    beat(cluster, "m3", 0)
    assert "still subscribed" in refused(broker, *delete)
    beat(cluster, "m3", -1)
    assert [row["deleted"] for row in rows(broker, *delete)] == [True, True]
    assert offsets(broker) == []
    (deleted,) = rows(broker, "delete", GROUP)
    assert deleted["deleted"]
    assert "does not exist" in refused(broker, "describe", GROUP)


def test_a_target_of_nothing_is_not_one_that_is_reached() -> None:
    some, none = roles({"0": [0]}, {}), roles({}, {})
    texts = [
        [column.text(work) for column in work_columns([{"streams": work}])[:2]]
        for tasks, target in ((some, none), (none, some), (some, some))
        for work in [{"tasks": tasks, "target": target}]
    ]
    assert texts == [["active 0:0", "nothing"], ["-", "active 0:0"], ["active 0:0", "-"]]
    assert work_columns([{"streams": None}]) == []
