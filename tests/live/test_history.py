"""The journal with real clients: it has every rebalance with its true cause.

It is compared with the group's log: each generation of the log has its beginning, its cause and its
end in the journal, and the assignments of both are the same.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kafka.admin
import pytest

from tests.live.broker_process import Broker, BrokerProcess
from tests.live.conftest import create_topic
from tests.live.deadlines import eventually
from tests.live.group_log import GroupLog, GroupRecord
from tests.live.members import Members, wait_assigned, wait_partitions

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "coterie", "groups", "history")
PARTITIONS = 3

Fact = dict[str, Any]


def command(bootstrap: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `coterie groups history`."""
    return subprocess.run(
        [*COMMAND, *arguments, "--bootstrap-server", bootstrap],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


class History:
    """The facts of the journal about a group."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.bootstrap = bootstrap
        self.group = group

    def facts(self) -> list[Fact]:
        done = command(self.bootstrap, self.group, "--json")
        if "journal" in done.stderr and "is empty" in done.stderr:
            # It is written a moment after a group has changed.
            return []
        assert done.returncode == 0, done.stderr
        found: list[Fact] = json.loads(done.stdout)
        return found

    def causes(self) -> list[str]:
        """Return the cause of each rebalance, with the change of the subscription if that is it."""
        return [
            f"{fact['cause']}: {fact['subscription_change']}"
            if fact["subscription_change"]
            else fact["cause"]
            for fact in self.facts()
            if fact["event"] == "rebalance_began"
        ]

    def of(self, event: str, **fields: Any) -> list[Fact]:
        return [
            fact
            for fact in self.facts()
            if fact["event"] == event and all(fact[name] == fields[name] for name in fields)
        ]

    def wait_for(self, event: str, **fields: Any) -> Fact:
        """Wait for a fact with these fields, and return the newest one."""
        return eventually(
            lambda: self.of(event, **fields)[-1:],
            f"{event} {fields} in the history of {self.group}",
            evidence=lambda: command(self.bootstrap, self.group).stdout,
        )[0]

    def logged(self) -> dict[int, GroupRecord]:
        """Return the generations with members in the group's log, by number."""
        return {
            record.generation: record
            for record in GroupLog(self.bootstrap, self.group).groups()
            if record is not None and record.members
        }

    def wait_complete(self) -> None:
        """Wait until the journal, which is written in the background, has caught up with the log.

        The group must have no rebalance at present.
        """
        newest = max(self.logged())
        eventually(
            lambda: any(
                fact["generation_id"] >= newest for fact in self.of("generation_completed")
            ),
            f"generation {newest} of {self.group} in the journal",
            evidence=lambda: command(self.bootstrap, self.group).stdout,
        )

    def check(self) -> None:
        """Check that the journal has each generation of the log, with its beginning and owners."""
        self.wait_complete()
        facts = self.facts()
        completed = {
            fact["generation_id"]: fact for fact in facts if fact["event"] == "generation_completed"
        }
        logged = self.logged()
        # A join between the append of a generation's record and its acknowledgement begins the next
        # rebalance: the generation is in the log but was never completed. (Kafka has the same race:
        # GroupCoordinator.doSyncGroup checks the state again in the callback of the append.)
        interrupted = {
            fact["generation_id"]
            for fact in facts
            if fact["event"] == "rebalance_began"
            and fact["previous_state"] == "CompletingRebalance"
        }
        assert completed.keys() <= logged.keys()
        assert logged.keys() - completed.keys() <= interrupted
        for generation, fact in completed.items():
            owners = {
                member["member_id"]: {
                    (topic, partition)
                    for topic, partitions in member["assignment"].items()
                    for partition in partitions
                }
                for member in fact["members"]
                if member["assignment"]
            }
            # In the log a static member that has restarted since has its new member id.
            given = sorted(map(sorted, logged[generation].assignments.values()))
            assert sorted(map(sorted, owners.values())) == [each for each in given if each]
            (*_, began) = [
                each
                for each in facts[: facts.index(fact)]
                if each["event"] == "rebalance_began" and each["generation_id"] < generation
            ]
            assert began["at_ms"] == fact["began_ms"]
            assert fact["at_ms"] == began["at_ms"] + fact["join_ms"] + fact["sync_ms"]


@pytest.fixture
def history(broker: Broker, name: str) -> History:
    """The history of the test's group, which has the name of its topic."""
    if not broker.own:
        pytest.skip("only Coterie keeps a journal")
    return History(broker.bootstrap, name)


@pytest.mark.parametrize("library", ["kafka-python", "aiokafka", "confluent"])
def test_join_leave_and_crash(
    broker: Broker,
    make_topic: Callable[..., str],
    members: Members,
    history: History,
    library: str,
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    options = {"group": topic, "topic": topic}
    first = members.start(library, client_id="first", **options)
    wait_assigned([first], topic, PARTITIONS)
    second = members.start(library, client_id="second", **options)
    wait_assigned([first, second], topic, PARTITIONS)
    # Only this one has a short session: on a busy machine the others might lose theirs.
    third = members.start(
        library, client_id="third", session_timeout_ms=broker.short_session_ms, **options
    )
    wait_assigned([first, second, third], topic, PARTITIONS)
    assert second.leave() == 0
    wait_assigned([first, third], topic, PARTITIONS)
    third.kill()
    wait_assigned([first], topic, PARTITIONS)
    assert first.leave() == 0
    history.wait_for("group_emptied")
    history.check()
    joins = history.of("rebalance_began", cause="join")
    assert [fact["client_id"] for fact in joins] == ["first", "second", "third"]
    ((left, last), (died,)) = (
        history.of("rebalance_began", cause="leave"),
        history.of("rebalance_began", cause="session expiry"),
    )
    assert (left["client_id"], died["client_id"], last["client_id"]) == ("second", "third", "first")
    (removed,) = history.of("member_removed", cause="session expiry")
    # A busy machine may call the timer late. Unit tests check the moment with a manual clock.
    assert removed["at_ms"] - removed["last_heard_ms"] >= broker.short_session_ms
    assert died["at_ms"] == removed["at_ms"]
    # A leader may rejoin after it has refreshed its metadata; there is no other cause.
    assert set(history.causes()) <= {"join", "leave", "session expiry", "leader rejoin"}


@pytest.mark.parametrize("library", ["kafka-python", "aiokafka", "confluent"])
def test_restart_of_a_static_member(
    broker: Broker,
    make_topic: Callable[..., str],
    members: Members,
    history: History,
    library: str,
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    options = {"group": topic, "topic": topic}
    pair = [members.start(library, instance=f"i{number}", **options) for number in range(2)]
    wait_assigned(pair, topic, PARTITIONS)
    history.wait_complete()
    causes = history.causes()
    old_id, owned = pair[1].member_id, pair[1].partitions
    pair[1].kill()
    pair[1] = members.start(library, instance="i1", **options)
    wait_partitions(pair[1], owned)
    replaced = history.wait_for("static_member_replaced", old_member_id=old_id)
    assert replaced["group_instance_id"] == "i1"
    assert replaced["member_id"] == pair[1].member_id
    assert not replaced["rebalances"]
    assert history.causes() == causes, "a restart causes no rebalance"
    history.check()
    pair[1].kill()
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap, client_id="operator")
    try:
        member = kafka.admin.MemberToRemove(group_instance_id="i1", reason="host removed")
        admin.remove_group_members(topic, [member])
    finally:
        admin.close()
    began = history.wait_for("rebalance_began", cause="admin removal")
    assert began["group_instance_id"] == "i1"
    assert began["requester_client_id"].startswith("operator")
    assert began["requester_host"] == "/127.0.0.1"
    wait_assigned(pair[:1], topic, PARTITIONS)
    history.check()


@pytest.mark.parametrize("library", ["kafka-python", "confluent"])
def test_both_rebalances_of_a_cooperative_handover(
    broker: Broker,
    make_topic: Callable[..., str],
    members: Members,
    history: History,
    library: str,
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    options = {"group": topic, "topic": topic, "assignor": "cooperative-sticky"}
    first = members.start(library, client_id="first", **options)
    wait_assigned([first], topic, PARTITIONS)
    history.wait_complete()
    before = len(history.causes())
    second = members.start(library, client_id="second", **options)
    wait_assigned([first, second], topic, PARTITIONS)
    history.check()
    causes = history.causes()[before:]
    assert causes[0] == "join"
    assert "rejoin with changed subscription: owned partitions" in causes[1:]
    facts = history.facts()
    revoked = next(
        fact
        for fact in facts
        if fact["event"] == "rebalance_began"
        and fact["subscription_change"] == "owned partitions"
        and fact["client_id"] == "first"
    )
    # By their order: both may happen in the same millisecond.
    before_it = facts[: facts.index(revoked)]
    first_half = [fact for fact in before_it if fact["event"] == "generation_completed"][-1]
    owned = [partition for member in first_half["members"] for partition in _owned(member)]
    assert len(owned) < PARTITIONS, "a partition has no owner between the two rebalances"


def _owned(member: Fact) -> list[tuple[str, int]]:
    """Return the partitions of a member of a generation."""
    if not member["assignment"]:
        return []
    return [(topic, part) for topic, parts in member["assignment"].items() for part in parts]


def test_changed_subscription(
    broker: Broker, make_topic: Callable[..., str], members: Members, history: History
) -> None:
    topic, more = make_topic(partitions=PARTITIONS), make_topic(suffix="-more")
    member = members.start("confluent", group=topic, topic=topic)
    wait_assigned([member], topic, PARTITIONS)
    member.subscribe([topic, more])
    eventually(lambda: (more, 0) in member.partitions, "the added topic", evidence=member.summary)
    history.check()
    assert "rejoin with changed subscription: topics" in history.causes()


def test_member_that_does_not_poll_is_removed(
    broker: Broker, make_topic: Callable[..., str], members: Members, history: History
) -> None:
    """A stopped process does not rejoin; the rebalance completes without it after its timeout."""
    topic = make_topic(partitions=PARTITIONS)
    options = {"group": topic, "topic": topic, "max_poll_interval_ms": 3_000}
    pair = [members.start("kafka-python", **options) for _ in range(2)]
    wait_assigned(pair, topic, PARTITIONS)
    os.kill(pair[1].process.pid, signal.SIGSTOP)
    third = members.start("kafka-python", **options)
    # On a busy machine another member may be too late as well, and then joins again.
    history.wait_for("member_removed", cause="rebalance timeout", member_id=pair[1].member_id)
    joined = history.wait_for("join_completed", ended_by="rebalance timeout")
    assert joined["join_ms"] >= 3_000
    wait_assigned([pair[0], third], topic, PARTITIONS)
    os.kill(pair[1].process.pid, signal.SIGCONT)
    wait_assigned([*pair, third], topic, PARTITIONS)
    history.check()


def test_added_partitions_are_a_rejoin_of_the_leader(
    broker: Broker, make_topic: Callable[..., str], members: Members, history: History
) -> None:
    """A coordinator does not see the change of metadata that makes the leader rejoin."""
    topic = make_topic(partitions=PARTITIONS)
    pair = [members.start("kafka-python", group=topic, topic=topic) for _ in range(2)]
    wait_assigned(pair, topic, PARTITIONS)
    history.wait_complete()
    before = len(history.of("rebalance_began", cause="leader rejoin"))
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.create_partitions({topic: PARTITIONS + 1})
    finally:
        admin.close()
    wait_assigned(pair, topic, PARTITIONS + 1)
    history.check()
    assert len(history.of("rebalance_began", cause="leader rejoin")) > before
    completed = history.of("generation_completed")
    newest = {part for member in completed[-1]["members"] for part in _owned(member)}
    oldest = {part for member in completed[0]["members"] for part in _owned(member)}
    assert newest - oldest == {(topic, PARTITIONS)}


def test_journal_survives_a_restart_and_records_it(
    start_broker: Callable[..., BrokerProcess], name: str
) -> None:
    broker = start_broker()
    create_topic(broker.bootstrap, name, PARTITIONS)
    members = Members(broker.bootstrap)
    try:
        member = members.start("aiokafka", group=name, topic=name)
        wait_assigned([member], name, PARTITIONS)
        history = History(broker.bootstrap, name)
        history.wait_complete()
        causes = history.causes()
        broker.kill()
        broker.start()
        loaded = history.wait_for("partition_loaded")
        assert loaded["group_count"] == 1
        assert history.causes() == causes
        assert history.of("partition_unloaded") == [], "a killed broker can't record it"
        broker.stop()
        broker.start()
        eventually(lambda: len(history.of("partition_loaded")) == 2, "the second start recorded")
        (unloaded,) = history.of("partition_unloaded")
        assert unloaded["cause"] == "closed"
    finally:
        members.close()


def test_disabled_journal_is_reported(
    start_broker: Callable[..., BrokerProcess], name: str
) -> None:
    broker = start_broker({"journal.enable": "false"})
    create_topic(broker.bootstrap, name, 1)
    members = Members(broker.bootstrap)
    try:
        wait_assigned([members.start("confluent", group=name, topic=name)], name, 1)
        done = command(broker.bootstrap, name)
    finally:
        members.close()
    assert done.returncode == 1
    assert "was started with journal.enable=false" in done.stderr


def test_follow_prints_new_facts(
    broker: Broker, make_topic: Callable[..., str], members: Members, history: History
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    first = members.start("confluent", group=topic, topic=topic)
    wait_assigned([first], topic, PARTITIONS)
    following = subprocess.Popen(
        [*COMMAND, topic, "--follow", "--json", "--bootstrap-server", broker.bootstrap],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["event"] == "member_joined"
        assert first.leave() == 0
        for line in following.stdout:
            if json.loads(line)["event"] == "group_emptied":
                break
        following.send_signal(signal.SIGINT)
        _, errors = following.communicate(timeout=60)
    finally:
        following.kill()
        following.wait()
    assert (following.returncode, errors) == (0, "")
