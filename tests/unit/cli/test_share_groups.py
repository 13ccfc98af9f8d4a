"""The commands of groups on a share group (KIP-932) of a running broker [client/share-groups]."""

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.client.cluster import Cluster
from coterie.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from coterie.testing import Broker
from tests.live.deadlines import eventually
from tests.unit.cli.group_commands import groups, refused, rows

GROUP = "crew"
NO_WAIT = {"group.share.assignment.interval.ms": "0"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2, "bills": 1}, config=NO_WAIT) as broker:
        for number in range(3):
            broker.produce("orders", f"{number}", partition=0)
        yield broker


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers) as cluster:
        yield cluster


def beat(cluster: Cluster, epoch: int, *topics: str) -> Any:
    """Send a heartbeat of the only member; return the response."""
    request = ShareGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m1",
        member_epoch=epoch,
        subscribed_topic_names=list(topics) or None,
    )
    return cluster.call_coordinators(
        [GROUP],
        lambda _: request,
        ShareGroupHeartbeatResponse,
        lambda response: {GROUP: (response.error_code, response)},
    )[GROUP]


def offsets(broker: Broker) -> list[tuple[str, int, int | None, int | None]]:
    return [
        (row["topic"], row["partition"], row["current_offset"], row["lag"])
        for row in rows(broker, "describe", GROUP)
    ]


def assigned(cluster: Cluster) -> bool:
    found = beat(cluster, 0, "orders").assignment
    return found is not None and bool(found.topic_partitions)


def test_commands_in_the_life_of_a_share_group(broker: Broker, cluster: Cluster) -> None:
    """One test, because a broker takes as long to start as all of this."""
    eventually(lambda: assigned(cluster), "the member is assigned partitions")
    ((listed),) = rows(broker, "list", "--type", "share")
    assert (listed["group"], listed["type"], listed["state"]) == (GROUP, "share", "Stable")
    assert rows(broker, "list", "--type", "classic,consumer") == []
    (state,) = rows(broker, "describe", GROUP, "--state")
    assert (state["type"], state["assignment_strategy"], state["member_count"]) == (
        "share", "simple", 1,
    )  # fmt: skip
    (member,) = rows(broker, "describe", GROUP, "--members")
    assert (member["consumer_id"], member["assignment"]) == ("m1", {"orders": [0, 1]})
    assert member["subscription"] == ["orders"]
    assert offsets(broker) == [("orders", 0, None, None), ("orders", 1, None, None)]
    assert [row["consumer_id"] for row in rows(broker, "describe", "--all-groups")] == ["m1"] * 2

    reset = ("reset-offsets", "--group", GROUP, "--topic", "orders", "--to-offset", "1")
    assert "1 live member: m1" in refused(broker, *reset)
    assert "1 live member: m1" in refused(broker, "delete", GROUP)
    delete = ("delete-offsets", "--group", GROUP, "--topic", "orders")
    assert "1 live member: m1" in refused(broker, *delete)
    assign = ("assign", GROUP, "--assignor", "range")
    assert f"Group '{GROUP}' is a share group." in refused(broker, *assign)
    checked = groups(broker, "check", GROUP, "--interval", "0")
    assert "Nothing found in 1 group." in checked.output

    beat(cluster, -1)
    (planned, other) = rows(broker, *reset)
    assert (planned["current_offset"], planned["new_offset"], planned["committed"]) == (
        None, 1, False,
    )  # fmt: skip
    assert other["remark"] == "1 is above the end"
    assert offsets(broker) == [("orders", 0, None, None), ("orders", 1, None, None)]
    assert [row["committed"] for row in rows(broker, *reset, "--execute")] == [True, True]
    assert offsets(broker) == [("orders", 0, 1, 2), ("orders", 1, 0, 0)]
    shift = ("reset-offsets", "--group", GROUP, "--all-topics", "--shift-by", "1", "--execute")
    assert [row["current_offset"] for row in rows(broker, *shift)] == [1, 0]
    (totals,) = rows(broker, "list", "--lag", "--type", "share")
    assert (totals["partition_count"], totals["uncommitted_count"], totals["lag"]) == (2, 0, 1)
    clone = ("reset-offsets", "--group", "other", "--from-group", GROUP)
    assert [row["new_offset"] for row in rows(broker, *clone)] == [2, 0]

    assert "whole topics" in refused(broker, *delete[:-1], "orders:0")
    bills = ("delete-offsets", "--group", GROUP, "--topic", "bills")
    assert f"Group '{GROUP}' has no offsets of some of these topics." in refused(broker, *bills)
    assert [row["deleted"] for row in rows(broker, *delete)] == [True, True]
    assert offsets(broker) == []
    (deleted,) = rows(broker, "delete", GROUP)
    assert deleted["deleted"]
    assert "does not exist" in refused(broker, "describe", GROUP)

    def history() -> list[tuple[str, int | None]]:
        return [(row["event"], row.get("epoch")) for row in rows(broker, "history", GROUP)]

    # The journal is written a little late.
    eventually(lambda: ("group_deleted", None) in history(), "the journal has the end")
    found = history()
    assert found[:4] == [
        ("group_epoch_raised", 2), ("target_computed", 2), ("group_converged", 2),
        ("member_joined", None),
    ]  # fmt: skip
    assert ("group_converged", 3) in found
    assert [event for event, _ in found[-3:]] == [
        "group_epoch_raised", "member_removed", "group_deleted",
    ]  # fmt: skip
