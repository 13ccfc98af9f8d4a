"""`coterie groups` and `coterie topics` with a running broker and groups of real clients.

The output of the commands is compared with what the clients, or the admin client of another
library, report. All tests also run with a real Kafka (COTERIE_TEST_BOOTSTRAP=HOST:PORT).
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.live import libraries
from tests.live.broker_process import Broker
from tests.live.deadlines import eventually
from tests.live.groups import GroupView, produce_rows

LIMIT_S = 60.0
# The number of records in each of two partitions of a group's topic, and the committed offset.
ROWS, COMMITTED = 10, 4

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cli(broker: Broker) -> Cli:
    """A function that runs a command in a process of its own and captures its output."""

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from coterie.cli.main import main; main()", *arguments],
            env={"COTERIE_BOOTSTRAP": broker.bootstrap},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    return run


@pytest.fixture
def idle_group(broker: Broker, make_topic: Callable[..., str]) -> str:
    """A group without members that has committed offset 4 of 10 in two partitions.

    The value is the name of both topic and group.
    """
    topic = make_topic(partitions=2)
    produce_rows(broker.bootstrap, topic, 2, 2 * ROWS)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    offsets = [TopicPartition(topic, partition, COMMITTED) for partition in range(2)]
    eventually(lambda: _committed(consumer, offsets), f"a first commit of {topic}")
    consumer.close()
    return topic


def _committed(consumer: Consumer, offsets: list[TopicPartition]) -> bool:
    """Return whether a commit succeeded; a broker that has just started is still loading."""
    results = consumer.commit(offsets=offsets, asynchronous=False)
    return all(each.error is None for each in results)


@pytest.fixture
def new_topic(broker: Broker, name: str) -> Iterator[str]:
    """The name of a topic that a test may create; it is deleted afterwards."""
    yield name
    AdminClient({"bootstrap.servers": broker.bootstrap}).delete_topics([name])[name].exception()


def json_of(result: subprocess.CompletedProcess[str]) -> Any:
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def new_offsets(result: subprocess.CompletedProcess[str]) -> dict[int, int]:
    return {row["partition"]: row["new_offset"] for row in json_of(result)}


def test_running_group_is_described(
    cli: Cli, broker: Broker, living_group: tuple[str, libraries.Reader]
) -> None:
    group, _ = living_group
    view = GroupView(broker.bootstrap, group)
    view.wait_state("STABLE", members=1)
    ((member_id, partitions),) = view.owned().items()

    offsets = json_of(cli("groups", "describe", group, "--json"))
    assert {(row["topic"], row["partition"]) for row in offsets} == partitions
    assert {(row["topic"], row["partition"]): row["current_offset"] for row in offsets} == (
        view.offsets()
    )
    assert {row["log_end_offset"] - row["current_offset"] - row["lag"] for row in offsets} == {0}
    assert {row["consumer_id"] for row in offsets} == {member_id}

    (member,) = json_of(cli("groups", "describe", group, "--members", "--json"))
    assert member["assignment"] == {group: [0, 1]}
    assert member["consumer_id"] == member_id

    (state,) = json_of(cli("groups", "describe", group, "--state", "--json"))
    assert (state["state"], state["member_count"]) == ("Stable", 1)
    assert state["assignment_strategy"] == view.describe().partition_assignor
    assert state["coordinator"].split(":")[1] == broker.bootstrap.split(":")[1]

    table = cli("groups", "describe", group).stdout.splitlines()
    assert table[0].split()[:6] == [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
    ]
    assert [line.split()[2] for line in table[1:]] == ["0", "1"]


def test_totals_last_commit_and_clone_of_an_idle_group(cli: Cli, idle_group: str) -> None:
    listed = json_of(cli("groups", "list", "--lag", "--json"))
    (row,) = (row for row in listed if row["group"] == idle_group)
    assert (row["member_count"], row["partition_count"], row["uncommitted_count"]) == (0, 2, 0)
    assert row["lag"] == 2 * (ROWS - COMMITTED)

    options = ("--last-commit", "--interval", "0.2", "--json")
    rows = json_of(cli("groups", "describe", idle_group, *options))
    now = datetime.now(UTC)
    ages = [now - datetime.fromisoformat(row["last_commit"]) for row in rows]
    assert all(timedelta(seconds=-1) < age < timedelta(minutes=5) for age in ages)
    assert [(row["consumed_per_s"], row["produced_per_s"]) for row in rows] == [(0, 0)] * 2

    clone = f"{idle_group}-clone"
    arguments = ("groups", "reset-offsets", "--group", clone, "--from-group", idle_group)
    assert new_offsets(cli(*arguments, "--execute", "--json")) == {0: COMMITTED, 1: COMMITTED}
    cloned = json_of(cli("groups", "describe", clone, "--json"))
    assert [row["current_offset"] for row in cloned] == [COMMITTED] * 2
    json_of(cli("groups", "delete", clone, "--json"))


def test_group_that_does_not_commit_is_found(
    cli: Cli, broker: Broker, living_group: tuple[str, libraries.Reader]
) -> None:
    """The member has committed all records, and reads no new ones."""
    group, _ = living_group
    GroupView(broker.bootstrap, group).wait_state("STABLE", members=1)
    quiet = cli("groups", "check", group, "--interval", "0", "--json")
    assert (quiet.returncode, json.loads(quiet.stdout)) == (0, [])
    produce_rows(broker.bootstrap, group, 2, 4)
    checked = cli("groups", "check", group, "--interval", "0.2", "--json")
    assert checked.returncode == 1
    (row,) = json.loads(checked.stdout)
    assert (row["check"], row["severity"]) == ("not-committing", "error")

    (member,) = json_of(cli("groups", "describe", group, "--members", "--verbose", "--json"))
    assert member["subscription"] == [group]
    # Only Coterie writes down which library a member uses.
    if "COTERIE_TEST_BOOTSTRAP" not in os.environ:
        assert member["client_software"] == "confluent-kafka-python"


def test_assignment_is_previewed_without_a_group(cli: Cli, idle_group: str) -> None:
    options = ("--members", "a,b", "--assignor", "range", "--json")
    rows = json_of(cli("topics", "assign", idle_group, *options))
    assert [row["assignment"] for row in rows] == [{idle_group: [0]}, {idle_group: [1]}]


def test_groups_are_listed_by_state(cli: Cli, idle_group: str) -> None:
    assert idle_group in cli("groups", "list").stdout.split()
    (row,) = (row for row in json_of(cli("groups", "list", "--json")) if row["group"] == idle_group)
    assert (row["type"], row["state"]) == ("classic", "Empty")
    assert idle_group in cli("groups", "list", "--state", "empty").stdout
    assert idle_group not in cli("groups", "list", "--state", "Stable").stdout
    assert idle_group not in cli("groups", "list", "--type", "share").stdout


def test_group_with_a_member_is_not_changed(
    cli: Cli, broker: Broker, living_group: tuple[str, libraries.Reader]
) -> None:
    """delete, reset-offsets and delete-offsets refuse it with the cause."""
    group, _ = living_group
    view = GroupView(broker.bootstrap, group)
    view.wait_state("STABLE", members=1)
    (member_id,) = view.owned()
    before = view.offsets()

    for refused in (
        cli("groups", "delete", group),
        cli(
            "groups",
            "reset-offsets",
            "--group",
            group,
            "--all-topics",
            "--to-earliest",
            "--execute",
        ),
    ):
        assert refused.returncode == 1
        assert member_id in refused.stderr
    refused = cli("groups", "delete-offsets", "--group", group, "--topic", group)
    assert refused.returncode == 1
    assert "still subscribed" in refused.stderr
    assert view.offsets() == before


def test_empty_group_is_deleted(cli: Cli, idle_group: str) -> None:
    deleted = cli("groups", "delete", idle_group)
    assert (deleted.returncode, deleted.stdout) == (0, f"Deleted group '{idle_group}'.\n")
    again = cli("groups", "delete", idle_group)
    assert again.returncode == 1
    assert f"Group '{idle_group}' does not exist." in again.stderr
    described = cli("groups", "describe", idle_group)
    assert described.returncode == 1
    assert f"Group '{idle_group}' does not exist." in described.stderr


@pytest.mark.parametrize(
    ("rule", "planned"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], ROWS),
        (["--to-current"], COMMITTED),
        (["--to-offset", "7"], 7),
        (["--to-offset", "99"], ROWS),
        (["--shift-by", "2"], COMMITTED + 2),
        (["--shift-by", "-99"], 0),
        (["--to-datetime", "2001-01-01T00:00:00.000"], 0),
        (["--by-duration", "PT0S"], ROWS),
        (["--by-duration", "P1D"], 0),
    ],
    ids=lambda value: "=".join(value).removeprefix("--") if isinstance(value, list) else "",
)
def test_offsets_are_reset(
    cli: Cli, broker: Broker, idle_group: str, rule: list[str], planned: int
) -> None:
    view = GroupView(broker.bootstrap, idle_group)
    command = ["groups", "reset-offsets", "--group", idle_group, "--all-topics", *rule, "--json"]
    assert new_offsets(cli(*command)) == {0: planned, 1: planned}
    assert set(view.offsets().values()) == {COMMITTED}, "a dry run changes nothing"
    assert new_offsets(cli(*command, "--execute")) == {0: planned, 1: planned}
    assert set(view.offsets().values()) == {planned}


def test_offsets_are_exported_and_read(cli: Cli, broker: Broker, idle_group: str) -> None:
    command = ("groups", "reset-offsets", "--group", idle_group)
    scope = ("--topic", f"{idle_group}:1", "--to-offset", "9")
    exported = cli(*command, *scope, "--export")
    assert exported.stdout == f"{idle_group},1,9\n"
    read = cli(*command, "--from-file", "-", "--execute", stdin=exported.stdout)
    assert read.returncode == 0, read.stderr
    assert GroupView(broker.bootstrap, idle_group).offsets() == {
        (idle_group, 0): COMMITTED,
        (idle_group, 1): 9,
    }


def test_new_group_can_be_given_offsets(cli: Cli, broker: Broker, idle_group: str) -> None:
    group = f"{idle_group}-new"
    topic = f"{idle_group}:0"
    command = ("groups", "reset-offsets", "--group", group, "--topic", topic, "--to-latest")
    assert new_offsets(cli(*command, "--execute", "--json")) == {0: ROWS}
    assert GroupView(broker.bootstrap, group).offsets() == {(idle_group, 0): ROWS}
    assert cli("groups", "delete", group).returncode == 0


def test_offsets_are_deleted(cli: Cli, broker: Broker, idle_group: str) -> None:
    command = ("groups", "delete-offsets", "--group", idle_group)
    deleted = cli(*command, "--topic", f"{idle_group}:0")
    assert deleted.returncode == 0, deleted.stderr
    assert deleted.stdout.splitlines()[1].split() == [idle_group, "0", "Successful"]
    assert GroupView(broker.bootstrap, idle_group).offsets() == {(idle_group, 1): COMMITTED}
    unknown = cli(*command, "--topic", "no-such-topic")
    assert unknown.returncode == 1
    assert "Topic 'no-such-topic' does not exist." in unknown.stderr


def test_topic_is_created_described_and_deleted(cli: Cli, new_topic: str) -> None:
    created = cli(
        "topics", "create", new_topic, "--partitions", "3", "--config", "retention.ms=60000"
    )
    assert (created.returncode, created.stdout) == (0, f"Created topic '{new_topic}'.\n")
    # A KRaft broker responds before its own metadata has the topic.
    eventually(lambda: new_topic in cli("topics", "list").stdout.split(), "the topic in the list")

    again = cli("topics", "create", new_topic)
    assert again.returncode == 1
    assert "TOPIC_ALREADY_EXISTS" in again.stderr
    assert cli("topics", "create", new_topic, "--if-not-exists").returncode == 0

    (details,) = json_of(cli("topics", "describe", new_topic, "--json"))
    assert (details["partition_count"], details["replication_factor"]) == (3, 1)
    assert details["configs"]["retention.ms"] == "60000"
    # Brokers before Kafka 2.8 have no topic ids.
    assert details["topic_id"] is None or len(details["topic_id"]) == 22
    assert [part["partition"] for part in details["partitions"]] == [0, 1, 2]
    lines = cli("topics", "describe", new_topic).stdout.splitlines()
    assert lines[0].startswith(f"Topic: {new_topic}\tTopicId: {details['topic_id'] or ''}\t")
    assert lines[3].startswith(f"\tTopic: {new_topic}\tPartition: 2\tLeader: ")

    deleted = cli("topics", "delete", new_topic)
    assert (deleted.returncode, deleted.stdout) == (0, f"Deleted topic '{new_topic}'.\n")
    eventually(lambda: new_topic not in cli("topics", "list").stdout.split(), "the topic deleted")
    assert cli("topics", "delete", new_topic).returncode == 1
    assert cli("topics", "delete", new_topic, "--if-exists").returncode == 0


def test_refused_topic_is_reported(cli: Cli, new_topic: str) -> None:
    for options, error in (
        (["--config", "no.such.config=1"], "INVALID_CONFIG"),
        (["--replication-factor", "30"], "INVALID_REPLICATION_FACTOR"),
    ):
        refused = cli("topics", "create", new_topic, *options)
        assert refused.returncode == 1
        assert error in refused.stderr
    refused = cli("topics", "create", "not a name")
    assert refused.returncode == 1
    assert "INVALID_TOPIC_EXCEPTION" in refused.stderr


def test_describe_does_not_create_an_unknown_topic(cli: Cli, name: str) -> None:
    described = cli("topics", "describe", name)
    assert described.returncode == 1
    assert f"Topic '{name}' does not exist." in described.stderr
    assert name not in cli("topics", "list").stdout
