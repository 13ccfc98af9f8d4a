"""Static membership (KIP-345) with real clients. Scenarios S57, S67, S74; seed document 000.

A group of static members rebalances in four cases only: a new member joins, the leader joins
again with something changed, a member is away for longer than its session timeout, or an admin
removes one. A restart within the session timeout is not among them.
"""

from collections.abc import Callable

import kafka.admin
import pytest

from tests.live import libraries
from tests.live.broker_process import Broker
from tests.live.deadlines import eventually, holds_for
from tests.live.group_log import GroupLog
from tests.live.groups import GroupView, produce_rows
from tests.live.members import Member, Members, stories, wait_all_read, wait_shared

PARTITIONS = 4
# Long enough for the group to notice a rebalance, were there one: several heartbeat intervals.
QUIET_S = 1.5


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    """A topic of four partitions; the group is called the same."""
    return make_topic(partitions=PARTITIONS)


def static_pair(
    members: Members, topic: str, library: str, session_timeout_ms: int = 30_000
) -> list[Member]:
    """Two static members of one library, settled."""
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
    wait_shared(pair, topic, PARTITIONS)
    return pair


@pytest.mark.parametrize("crash", [False, True], ids=["close", "kill"])
def test_restart_does_not_rebalance(
    broker: Broker, members: Members, topic: str, library: libraries.Library, crash: bool
) -> None:
    """S57, S74: each of two static members restarts in turn; the group does not notice.

    Closed politely (which sends no LeaveGroup) or killed: it gets a new member id, its old
    partitions and the same generation, and the other member hears nothing.
    """
    pair = static_pair(members, topic, library.name)
    group, log = GroupView(broker.bootstrap, topic), GroupLog(broker.bootstrap, topic)
    generation = pair[0].generation
    ids_before = group.instances()
    owned_before = [member.partitions for member in pair]
    for index in range(2):
        still_there, told_before = pair[1 - index], len(pair[1 - index].events)
        if crash:
            pair[index].kill()
        else:
            assert pair[index].leave() == 0
        assert group.describe().state.name == "STABLE"
        pair[index] = members.start(
            library.name, group=topic, topic=topic, instance=f"instance-{index}"
        )
        eventually(
            lambda index=index: pair[index].partitions == owned_before[index],
            "old partitions back",
            told=pair[index].story,
        )
        assert pair[index].generation == generation
        news = [each for each in still_there.events[told_before:] if each["event"] != "record"]
        assert news == [], still_there.story()
    ids_after = group.instances()
    assert ids_after.keys() == ids_before.keys() == {"instance-0", "instance-1"}
    assert not set(ids_after.values()) & set(ids_before.values()), "an id survived its process"
    assert {ident: ids_after[ident] for ident in ids_after} == {
        f"instance-{index}": member.member_id for index, member in enumerate(pair)
    }
    assert log.generations()[-1] == generation
    stored = produce_rows(broker.bootstrap, topic, PARTITIONS, 40)
    wait_all_read(pair, stored)


def test_new_member_rebalances(
    broker: Broker, members: Members, topic: str, library: libraries.Library
) -> None:
    """Case 1: a static member under a new instance id makes a new generation and gets its share."""
    pair = static_pair(members, topic, library.name)
    generation = pair[0].generation
    third = members.start(library.name, group=topic, topic=topic, instance="instance-new")
    wait_shared([*pair, third], topic, PARTITIONS)
    assert pair[0].generation > generation
    assert GroupLog(broker.bootstrap, topic).generations()[-1] == pair[0].generation


def test_leader_joining_again_rebalances(
    broker: Broker, members: Members, make_topic: Callable[..., str], topic: str
) -> None:
    """Case 2: the leader subscribes to one topic more and joins again with its id: rebalance."""
    pair = static_pair(members, topic, "confluent")
    log = GroupLog(broker.bootstrap, topic)
    before = log.groups()[-1]
    leader = next(member for member in pair if member.member_id == before.leader)
    second = make_topic(suffix="-second")
    leader.order(subscribe=[topic, second])
    eventually(
        lambda: (second, 0) in leader.partitions, "the added topic", told=lambda: stories(pair)
    )
    after = log.groups()[-1]
    assert after.generation > before.generation
    assert after.members == before.members, "nobody left, nobody came"


def test_absence_beyond_the_session_timeout_rebalances(
    broker: Broker, members: Members, topic: str, library: libraries.Library
) -> None:
    """Case 3: a static member that stays away loses its partitions after its session timeout."""
    stays = members.start(library.name, group=topic, topic=topic, instance="stays")
    goes = members.start(
        library.name,
        group=topic,
        topic=topic,
        instance="goes",
        session_timeout_ms=broker.short_session_ms,
    )
    wait_shared([stays, goes], topic, PARTITIONS)
    generation = stays.generation
    # A polite close: a static member says nothing when it goes.
    assert goes.leave() == 0
    wait_shared([stays], topic, PARTITIONS)
    assert stays.generation > generation
    assert GroupView(broker.bootstrap, topic).instances().keys() == {"stays"}


def test_removal_by_an_admin_rebalances(broker: Broker, members: Members, topic: str) -> None:
    """Case 4: LeaveGroup by instance id, sent by an admin; the group shares again at once."""
    pair = static_pair(members, topic, "confluent")
    generation = pair[0].generation
    pair[1].kill()
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        doomed = kafka.admin.MemberToRemove(group_instance_id="instance-1", reason="test")
        answers = admin.remove_group_members(topic, [doomed])
    finally:
        admin.close()
    assert [error.errno for error in answers.values()] == [0]
    wait_shared(pair[:1], topic, PARTITIONS)
    assert pair[0].generation > generation
    assert GroupView(broker.bootstrap, topic).instances().keys() == {"instance-0"}


@pytest.mark.parametrize(
    ("older", "told_by"), [("confluent", "error"), ("kafka-python", "commit-failed")]
)
def test_fencing_static_consumer(
    broker: Broker, members: Members, topic: str, older: str, told_by: str
) -> None:
    """S67, S74: two processes with one instance id: the newer stays, the older is fenced.

    librdkafka tells its application after the next heartbeat; kafka-python only stops its
    heartbeats and lets the next commit fail. (aiokafka is not the older one here: its heartbeats
    carry no instance id, so it would take the place back, and so on for ever.)
    """
    old = members.start(older, group=topic, topic=topic, instance="only")
    wait_shared([old], topic, PARTITIONS)
    new = members.start("aiokafka", group=topic, topic=topic, instance="only")
    wait_shared([new], topic, PARTITIONS)
    assert new.generation == old.generation
    stored = produce_rows(broker.bootstrap, topic, PARTITIONS, 40)
    old.wait_for(told_by, code="FENCED_INSTANCE_ID")
    wait_all_read([new], stored)
    group = GroupView(broker.bootstrap, topic)
    holds_for(
        lambda: group.instances() == {"only": new.member_id}, "the newer process stays", QUIET_S
    )
