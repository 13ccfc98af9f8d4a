"""`groups check`, `groups assign` and `groups reset-offsets` on consumer groups (KIP-848) of a
running broker.

Rules: [client/checks-of-epochs], [assignors/uniform].
"""

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.client.cluster import Cluster
from coterie.testing import Broker
from tests.live.deadlines import eventually
from tests.unit.cli.command import rows_of, run
from tests.unit.cli.live_consumer import Consumer, settle

NO_WAIT = {"group.consumer.assignment.interval.ms": "0"}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 4, "bills": 2}, config=NO_WAIT) as broker:
        yield broker


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers) as cluster:
        yield cluster


def groups(broker: Broker, *words: str) -> Any:
    return run(None, "groups", *words, "--bootstrap-server", broker.bootstrap_servers)


def checked(broker: Broker, *options: str) -> list[tuple[str, str, str | None]]:
    result = groups(broker, "check", "g", "--json", *options)
    rows = rows_of(result)
    assert result.exit_code == (1 if rows else 0), result.stderr
    return [(row["severity"], row["check"], row["subject"]) for row in rows]


def assigned(broker: Broker, *options: str) -> dict[str, dict[str, list[int]]]:
    result = groups(broker, "assign", "g", "--json", *options)
    assert result.exit_code == 0, result.output
    return {row["consumer_id"]: row["then"] for row in rows_of(result)}


def targets(cluster: Cluster) -> dict[str, Any]:
    from coterie.client.groups import describe_groups

    members = describe_groups(cluster, ["g"])["g"].members
    return {each.member_id: each.target_assignment for each in members}


def test_settled_group_has_no_findings(broker: Broker, cluster: Cluster) -> None:
    settle([Consumer(cluster, name, "orders") for name in ("a", "b")])
    assert checked(broker, "--interval", "0.1") == []


def test_member_that_does_not_give_up_is_found(broker: Broker, cluster: Cluster) -> None:
    first = Consumer(cluster, "a", "orders")
    Consumer(cluster, "b", "orders")
    found = checked(broker, "--interval", "0.1")
    assert found == [("warning", "held-back-partitions", "orders-2, orders-3")]
    first.beat()

    def says_why() -> bool:
        result = groups(broker, "check", "g", "--interval", "0")
        text = " ".join(result.stdout.split())
        return "It was asked for them, and has not reported that it gave them up." in text

    # The journal is written a little late.
    eventually(says_why, "the journal says that it was asked")


def test_pattern_and_subscription_that_match_nothing_are_found(
    broker: Broker, cluster: Cluster
) -> None:
    members = [
        Consumer(cluster, "a", "orders"),
        Consumer(cluster, "b", regex="paid.*"),
        Consumer(cluster, "c"),
    ]
    settle(members)
    found = [(check, subject) for _, check, subject in checked(broker, "--interval", "0")]
    assert [check for check, _ in found] == ["empty-subscription", "pattern-without-topics"]
    assert [(subject or "").split()[-1] for _, subject in found] == ["c", "b"]


def test_pattern_that_matches_is_a_subscription(broker: Broker, cluster: Cluster) -> None:
    members = [Consumer(cluster, name, regex="o.*s") for name in ("a", "b")]
    settle(members)
    assert checked(broker, "--interval", "0") == []
    assert assigned(broker, "--assignor", "uniform") == targets(cluster)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_preview_is_what_the_coordinator_does(
    broker: Broker, cluster: Cluster, assignor: str
) -> None:
    members = [Consumer(cluster, name, "orders", "bills") for name in ("a", "b", "c")]
    settle(members)
    if assignor == "uniform":
        assert assigned(broker, "--assignor", assignor) == targets(cluster)
    previewed = assigned(broker, "--assignor", assignor, "--without", "b")
    assert previewed.keys() == {"a", "c"}
    assert sum(len(each) for share in previewed.values() for each in share.values()) == 6
    if assignor == "uniform":
        members[1].leave()
        settle([members[0], members[2]])
        assert targets(cluster) == previewed


def test_assignors_of_classic_groups_are_remarked_on(broker: Broker, cluster: Cluster) -> None:
    settle([Consumer(cluster, "a", "orders")])
    result = groups(broker, "assign", "g", "--assignor", "sticky")
    assert result.exit_code == 0
    assert "The coordinator assigns in a consumer group, with uniform or range" in result.stderr
    assert "consumer group" not in groups(broker, "assign", "g", "--assignor", "range").stderr


def test_two_processes_with_one_instance_id_are_found(broker: Broker, cluster: Cluster) -> None:
    Consumer(cluster, "a", "orders", instance="i1")
    with pytest.raises(AssertionError, match="error_code=111"):
        Consumer(cluster, "b", "orders", instance="i1")

    def found() -> bool:
        return ("error", "fenced-members", "i1") in checked(broker, "--interval", "0")

    eventually(found, "the refusal in the journal")


def test_offsets_are_reset_only_without_members(broker: Broker, cluster: Cluster) -> None:
    member = Consumer(cluster, "a", "orders")
    words = "reset-offsets", "--group", "g", "--topic", "orders", "--to-latest", "--execute"
    refused = groups(broker, *words)
    assert refused.exit_code == 1
    assert "Group 'g' is Stable: 1 live member: a (client " in refused.stderr
    assert "Offsets can only be reset while a group has no members. Stop them" in refused.stderr
    member.leave()
    done = groups(broker, *words, "--json")
    assert done.exit_code == 0
    assert [row["committed"] for row in rows_of(done)] == [True] * 4


def test_static_member_that_has_left_keeps_offsets_from_being_reset(
    broker: Broker, cluster: Cluster
) -> None:
    member = Consumer(cluster, "a", "orders", instance="i1")
    member.leave()
    refused = groups(
        broker, "reset-offsets", "--group", "g", "--topic", "orders", "--to-latest", "--execute"
    )
    assert refused.exit_code == 1
    assert "at 127.0.0.1, which has left and keeps its place)" in refused.stderr.replace("/", "")
    assert "Static members are removed when their sessions end." in refused.stderr
