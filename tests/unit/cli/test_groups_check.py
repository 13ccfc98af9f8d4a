"""`coterie groups check`: findings as text and as JSON, exit codes, and wrong input.

Rules: [pipeline/one-finding-a-cause].
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from coterie.client.cluster import Cluster
from coterie.client.history import NoJournal, journal_of, read_history
from coterie.client.journal_reader import read_histories
from coterie.client.offsets import commit_offsets
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.describe_configs import DescribeConfigsResponse
from coterie.protocol.messages.journal_records import (
    MemberRemoved,
)
from coterie.protocol.messages.partition_facts import PartitionLoaded
from coterie.testing import Broker
from tests.live.deadlines import eventually
from tests.unit.cli.command import committed, described, group, listed_offsets, member, rows_of, run
from tests.unit.cli.live_member import join, leave
from tests.unit.client.fake_broker import FakeBroker, in_turn


def checking(*groups: Any, commits: Any = None) -> FakeBroker:
    """Return a broker without a journal; its partitions hold offsets 10 to 19."""
    return FakeBroker(
        {
            ApiKey.DESCRIBE_GROUPS: described(*groups),
            ApiKey.OFFSET_FETCH: commits or committed(t={0: 20}),
            ApiKey.LIST_OFFSETS: listed_offsets,
            ApiKey.DESCRIBE_CONFIGS: DescribeConfigsResponse(results=[]),
        },
        topics={"t": 1},
    )


HEALTHY = group("g", "Stable", member("a", t=[0]))


def check(broker: FakeBroker | None, *options: str) -> Any:
    return run(broker, "groups", "check", *options)


def test_healthy_group_exits_with_0() -> None:
    with checking(HEALTHY) as broker:
        result = check(broker, "g", "--interval", "0.01")
        as_json = check(broker, "g", "--interval", "0.01", "--json")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Nothing found in 1 group." in result.stderr
    assert "Not checked, because the broker keeps no journal: missing-static-" in result.stderr
    assert (as_json.exit_code, rows_of(as_json)) == (0, [])


def test_findings_have_cause_and_remedy_and_exit_with_1() -> None:
    commits = in_turn(committed(t={0: 15}), committed(t={0: 15}, gone={0: 1}))
    with checking(HEALTHY, commits=commits) as broker:
        result = check(broker, "g", "--interval", "0.01")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["error", "g", "not-committing", "t-0"]
    assert lines[1].startswith("    No commit in 0 s although 5 records wait in 1 partition")
    assert "    -> The members are alive" in result.stdout
    assert "warning g  deleted-topics  gone" in lines
    assert max(map(len, lines)) <= 100
    assert result.stderr.endswith("1 error and 1 warning in 1 of 1 group.\n")


def test_the_same_finding_of_several_groups_is_printed_once() -> None:
    groups = [group(name, "Stable", member("a", t=[0])) for name in ("g", "h")]
    for each in groups:
        each.group_state = "Empty"
        each.members = []
    with checking(*groups, commits=committed(t={0: 12})) as broker:
        result = check(broker, "g", "h", "--interval", "0")
        as_json = check(broker, "g", "h", "--interval", "0", "--json")
    lines = [line for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert lines == ["warning g, h  no-members"]
    assert "2 warnings in 2 of 2 groups." in result.stderr
    assert [(row["group"], row["check"]) for row in rows_of(as_json)] == [
        ("g", "no-members"), ("h", "no-members"),
    ]  # fmt: skip


def test_findings_as_json() -> None:
    with checking(group("g", "Empty"), commits=committed(t={0: 5})) as broker:
        result = check(broker, "g", "--interval", "0", "--json")
    assert result.exit_code == 1
    rows = rows_of(result)
    assert [row["check"] for row in rows] == ["offset-out-of-range", "no-members"]
    assert rows[0]["subject"] == "t-0"
    assert rows[1]["subject"] is None
    assert {row["severity"] for row in rows} == {"error", "warning"}


def test_one_look_leaves_out_what_needs_two() -> None:
    with checking(HEALTHY, commits=committed(t={0: 15})) as broker:
        result = check(broker, "g", "--interval", "0")
        assert len(broker.seen(ApiKey.OFFSET_FETCH)) == 1
    assert result.exit_code == 0
    assert "Not checked without an --interval: not-committing, lag-grows, stale-" in result.stderr


def test_ignored_checks_are_left_out() -> None:
    with checking(group("g", "Empty"), commits=committed(t={0: 15})) as broker:
        assert check(broker, "g", "--interval", "0").exit_code == 1
        result = check(broker, "g", "--interval", "0", "--ignore", "no-members")
    assert result.exit_code == 0


def test_missing_group_is_an_error() -> None:
    with checking(HEALTHY) as broker:
        result = check(broker, "g", "other")
    assert result.exit_code == 1
    assert "Group 'other' does not exist." in result.stderr


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ([], "Name groups, or use --all-groups."),
        (["g", "--all-groups"], "Name groups, or use --all-groups."),
        (["g", "--since", "soon"], "'soon' is not like 30m, 2h or 7d"),
        (["g", "--interval", "-1"], "is not in the range"),
        (["g", "--ignore", "everything"], "'everything' is not one of"),
    ],
)
def test_wrong_options_are_refused(options: list[str], error: str) -> None:
    result = check(None, *options)
    assert result.exit_code == 2
    assert error in result.stderr


@pytest.fixture
def running() -> Iterator[Broker]:
    with Broker(topics={"t": 2}) as broker:
        yield broker


def removals(cluster: Cluster, group_id: str = "g") -> bool:
    """Return whether the journal has a removal; it is written a little late."""
    try:
        facts = read_history(cluster, journal_of(cluster, group_id)).facts
    except NoJournal:
        return False
    return any(isinstance(fact, MemberRemoved) for fact in facts)


def test_events_of_the_journal_are_checked(running: Broker) -> None:
    with Cluster(running.bootstrap_servers) as cluster:
        leave(cluster, join(cluster, t=[0, 1]), "consumer poll timeout has expired.")
        join(cluster, t=[0, 1])
        commit_offsets(cluster, "other", {("t", 0): 0})
        eventually(lambda: removals(cluster), "the removal in the journal")
    address = "--bootstrap-server", running.bootstrap_servers
    result = check(None, "--all-groups", "--interval", "0", "--json", *address)
    (row,) = rows_of(result)
    assert (row["group"], row["check"]) == ("g", "max-poll-exceeded")
    assert row["subject"].startswith("coterie-cli ")
    assert check(None, "g", "--interval", "0", "--since", "0s", *address).exit_code == 0


def test_histories_of_all_groups_are_those_of_each(running: Broker) -> None:
    """They have the loads of their partitions of the group log, also those before their facts."""
    names = [f"g{number}" for number in range(12)]
    with Cluster(running.bootstrap_servers) as cluster:
        for name in names[:8]:
            leave(cluster, join(cluster, group_id=name, t=[0]), "bye", name)
    running.restart()
    with Cluster(running.bootstrap_servers) as cluster:
        for name in names[4:]:
            leave(cluster, join(cluster, group_id=name, t=[0]), "bye", name)
        for name in names:
            eventually(partial(removals, cluster, name), "the removal")
        each = {name: read_history(cluster, journal_of(cluster, name), 0).facts for name in names}
        found = read_histories(cluster, 0)
        assert found == each
        assert any(isinstance(fact, PartitionLoaded) for fact in found["g5"])
        times = sorted(fact.at_ms for facts in found.values() for fact in facts)
        since = read_histories(cluster, times[len(times) // 2])
        assert 0 < sum(map(len, since.values())) < sum(map(len, found.values()))
