"""Static membership (KIP-345) with real clients. Scenarios S57, S67, S74.

A group of static members rebalances in four cases only: a new member joins, the leader rejoins
with a changed subscription, a member is away for longer than its session timeout, or an
administrator removes a member. A restart within the session timeout is none of them.
"""

from collections.abc import Callable

import kafka.admin
import pytest

from tests.live import libraries
from tests.live.broker_process import Broker
from tests.live.deadlines import eventually, holds_for
from tests.live.group_log import GroupLog
from tests.live.groups import GroupView, produce_rows
from tests.live.members import (
    Member,
    Members,
    summaries,
    wait_all_read,
    wait_assigned,
    wait_partitions,
)

PARTITIONS = 4
# Several heartbeat intervals: members would notice a rebalance within this time.
QUIET_S = 1.5


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    """A topic of four partitions, whose name is also the group's."""
    return make_topic(partitions=PARTITIONS)


def static_pair(
    members: Members, topic: str, library: str, session_timeout_ms: int = 30_000
) -> list[Member]:
    """Start two static members of one library, and wait for their assignments."""
    pair = [
        members.start(
            library,
            group=topic,
            topic=topic,
            instance=f"instance-{number}",
            session_timeout_ms=session_timeout_ms,
        )
        for number in range(2)
    ]
    wait_assigned(pair, topic, PARTITIONS)
    return pair


@pytest.mark.parametrize("crash", [False, True], ids=["close", "kill"])
def test_restart_does_not_rebalance(
    broker: Broker, members: Members, topic: str, library: libraries.Library, crash: bool
) -> None:
    """S57, S74: each of two static members restarts in turn without a rebalance.

    Whether it was closed (which sends no LeaveGroup) or killed, it gets a new member id, its old
    partitions and the same generation, and the other member is not affected.
    """
    pair = static_pair(members, topic, library.name)
    group, log = GroupView(broker.bootstrap, topic), GroupLog(broker.bootstrap, topic)
    generation = pair[0].generation
    ids_before = group.instances()
    owned_before = [member.partitions for member in pair]
    for index in range(2):
        other, mark = pair[1 - index], len(pair[1 - index].events)
        if crash:
            pair[index].kill()
        else:
            assert pair[index].leave() == 0
        assert group.describe().state.name == "STABLE"
        pair[index] = members.start(
            library.name, group=topic, topic=topic, instance=f"instance-{index}"
        )
        wait_partitions(pair[index], owned_before[index])
        assert pair[index].generation == generation
        later = [each for each in other.events[mark:] if each["event"] != "delivered"]
        assert later == [], other.summary()
    ids_after = group.instances()
    assert ids_after.keys() == ids_before.keys() == {"instance-0", "instance-1"}
    assert not set(ids_after.values()) & set(ids_before.values()), "a member id was used again"
    assert {ident: ids_after[ident] for ident in ids_after} == {
        f"instance-{index}": member.member_id for index, member in enumerate(pair)
    }
    assert log.generations()[-1] == generation
    stored = produce_rows(broker.bootstrap, topic, PARTITIONS, 40)
    wait_all_read(pair, stored)


def test_new_member_rebalances(
    broker: Broker, members: Members, topic: str, library: libraries.Library
) -> None:
    """Case 1: a member with a new instance id causes a rebalance and gets partitions."""
    pair = static_pair(members, topic, library.name)
    generation = pair[0].generation
    third = members.start(library.name, group=topic, topic=topic, instance="instance-new")
    wait_assigned([*pair, third], topic, PARTITIONS)
    assert pair[0].generation > generation
    assert GroupLog(broker.bootstrap, topic).generations()[-1] == pair[0].generation


def test_rejoin_of_the_leader_rebalances(
    broker: Broker, members: Members, make_topic: Callable[..., str], topic: str
) -> None:
    """Case 2: the leader subscribes to another topic and rejoins."""
    pair = static_pair(members, topic, "confluent")
    log = GroupLog(broker.bootstrap, topic)
    before = log.newest()
    leader = next(member for member in pair if member.member_id == before.leader)
    second = make_topic(suffix="-second")
    leader.subscribe([topic, second])
    eventually(
        lambda: (second, 0) in leader.partitions,
        "the added topic",
        evidence=lambda: summaries(pair),
    )
    after = log.newest()
    assert after.generation > before.generation
    assert after.members == before.members, "no member left or joined"


def test_absence_beyond_the_session_timeout_rebalances(
    broker: Broker, members: Members, topic: str, library: libraries.Library
) -> None:
    """Case 3: a member that stays away loses its partitions after its session timeout."""
    stays = members.start(library.name, group=topic, topic=topic, instance="stays")
    goes = members.start(
        library.name,
        group=topic,
        topic=topic,
        instance="goes",
        session_timeout_ms=broker.short_session_ms,
    )
    wait_assigned([stays, goes], topic, PARTITIONS)
    generation = stays.generation
    # A static member sends no LeaveGroup when it is closed.
    assert goes.leave() == 0
    wait_assigned([stays], topic, PARTITIONS)
    assert stays.generation > generation
    assert GroupView(broker.bootstrap, topic).instances().keys() == {"stays"}


def test_removal_by_an_admin_rebalances(broker: Broker, members: Members, topic: str) -> None:
    """Case 4: an administrator sends LeaveGroup with the instance id."""
    pair = static_pair(members, topic, "confluent")
    generation = pair[0].generation
    pair[1].kill()
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        member = kafka.admin.MemberToRemove(group_instance_id="instance-1", reason="test")
        responses = admin.remove_group_members(topic, [member])
    finally:
        admin.close()
    assert [error.errno for error in responses.values()] == [0]
    wait_assigned(pair[:1], topic, PARTITIONS)
    assert pair[0].generation > generation
    assert GroupView(broker.bootstrap, topic).instances().keys() == {"instance-0"}


@pytest.mark.parametrize(
    ("older", "event"), [("confluent", "error"), ("kafka-python", "commit-failed")]
)
def test_fencing_static_consumer(
    broker: Broker, members: Members, topic: str, older: str, event: str
) -> None:
    """S67, S74: of two processes with one instance id the older one is fenced.

    librdkafka reports it after the next heartbeat; kafka-python only stops its heartbeats, and its
    next commit fails. (aiokafka can't be the older one: its heartbeats have no instance id, so it
    would rejoin and fence the newer one, and so on forever.)
    """
    old = members.start(older, group=topic, topic=topic, instance="only")
    wait_assigned([old], topic, PARTITIONS)
    new = members.start("aiokafka", group=topic, topic=topic, instance="only")
    wait_assigned([new], topic, PARTITIONS)
    assert new.generation == old.generation
    stored = produce_rows(broker.bootstrap, topic, PARTITIONS, 40)
    old.wait_for(event, code="FENCED_INSTANCE_ID")
    wait_all_read([new], stored)
    group = GroupView(broker.bootstrap, topic)
    holds_for(
        lambda: group.instances() == {"only": new.member_id}, "the newer process stays", QUIET_S
    )
