"""The broker is restarted while consumers run, and nothing acknowledged is lost.

A kill -9 at any instruction costs no acknowledged record, offset or group.
"""

from collections.abc import Callable, Iterator
from typing import Any

import kafka
import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from tests.live import libraries
from tests.live.broker_process import FAST_GROUPS, BrokerProcess
from tests.live.conftest import create_topic
from tests.live.deadlines import eventually
from tests.live.group_log import GroupLog
from tests.live.groups import GroupView, Partition, produce_rows, producing
from tests.live.members import Member, Members, wait_all_read, wait_assigned

PARTITIONS = 6
# Clients may wait for a second or two before they reconnect to a restarted broker.
RECOVER_S = 60.0


@pytest.fixture
def server(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A broker for this test, with the settings of the shared one."""
    return start_broker(FAST_GROUPS)


@pytest.fixture
def members(server: BrokerProcess) -> Iterator[Members]:
    """Members of that broker, which are ended with the test."""
    started = Members(server.bootstrap)
    yield started
    started.close()


def acknowledged(members: list[Member]) -> dict[Partition, int]:
    """Return the highest acknowledged offset of each partition, over all members."""
    highest: dict[Partition, int] = {}
    for member in members:
        for partition, offset in member.acknowledged().items():
            highest[partition] = max(offset, highest.get(partition, 0))
    return highest


@pytest.mark.timeout(180)
@pytest.mark.parametrize("ending", ["SIGTERM", "SIGKILL"])
def test_restart_under_running_consumers(
    server: BrokerProcess, members: Members, name: str, ending: str
) -> None:
    """Three libraries read and commit while the broker is restarted twice.

    After each restart no committed offset is lower than the acknowledged one, and in the end every
    acknowledged record was read at least once.
    """
    create_topic(server.bootstrap, name, PARTITIONS)
    with producing(server.bootstrap, name, PARTITIONS, per_second=100) as producer:
        three = [
            members.start(library, group=name, topic=name, session_timeout_ms=60_000)
            for library in libraries.NAMES
        ]
        wait_assigned(three, name, PARTITIONS)
        for _ in range(2):
            marks = [len(member.events) for member in three]
            for member, mark in zip(three, marks, strict=True):
                member.wait_for("committed", after=mark)
            if ending == "SIGTERM":
                assert server.stop() in (0, 143), "a JVM ends with 128 + SIGTERM"
            else:
                server.kill()
            before = acknowledged(three)
            marks = [len(member.events) for member in three]
            server.start()
            # A new client, because one that lost its connection may reconnect late.
            after = GroupView(server.bootstrap, name).offsets()
            lost = {each: before[each] for each in before if after.get(each, -1) < before[each]}
            assert not lost, f"acknowledged {lost}, found {after}"
            for member, mark in zip(three, marks, strict=True):
                member.wait_for("committed", after=mark, within_s=RECOVER_S)
        stored = producer.stop()
    wait_all_read(three, stored, RECOVER_S)
    wait_assigned(three, name, PARTITIONS)
    ends = {
        (name, index): max(offset for _, place, offset in stored if place == index) + 1
        for index in range(PARTITIONS)
    }
    group = GroupView(server.bootstrap, name)
    eventually(lambda: group.offsets() == ends, "all committed", evidence=group.offsets)


@pytest.mark.parametrize("ending", ["SIGTERM", "SIGKILL"])
def test_group_survives_with_its_generation(
    server: BrokerProcess, members: Members, name: str, ending: str, library: libraries.Library
) -> None:
    """A Stable group is Stable after the restart, with the same generation and members.

    No member rejoins: they find the coordinator again and continue with their heartbeats.
    """
    create_topic(server.bootstrap, name, 2)
    pair = [
        members.start(library.name, group=name, topic=name, session_timeout_ms=60_000)
        for _ in range(2)
    ]
    owned = wait_assigned(pair, name, 2)
    generation = pair[0].generation
    ids = {member.member_id for member in pair}
    server.stop() if ending == "SIGTERM" else server.kill()
    server.start()
    group = GroupView(server.bootstrap, name)
    assert (group.state(), group.member_ids()) == ("STABLE", ids)
    stored = produce_rows(server.bootstrap, name, 2, 20)
    wait_all_read(pair, stored, RECOVER_S)
    assert [member.partitions for member in pair] == owned
    assert {member.generation for member in pair} == {generation}
    assert GroupLog(server.bootstrap, name).generations()[-1] == generation


@pytest.mark.parametrize("ending", ["SIGTERM", "SIGKILL"])
def test_topics_records_and_offsets_survive(server: BrokerProcess, name: str, ending: str) -> None:
    """Topics with their settings, records, and offsets of a group without members survive.

    After SIGTERM the start of a partition with deleted records survives too. Kafka stores it only
    once a minute, so after a kill it may have the deleted records again.
    """
    create_topic(server.bootstrap, name, 3, {"retention.ms": "111000000"})
    sent = [libraries.Message(b"%d" % row, partition=row % 3) for row in range(30)]
    library = libraries.BY_NAME["confluent"]
    library.produce(server.bootstrap, name, sent)
    group = f"{name}-simple"
    # Wait until the coordinator is ready: librdkafka does not repeat OffsetFetch for fixed
    # partitions after NOT_COORDINATOR, which Kafka returns in its first moments.
    assert GroupView(server.bootstrap, group).offsets() == {}
    reading = libraries.Reading(group, name, fixed_partitions=(0,))
    reader = library.reader(server.bootstrap, reading)
    reader.read(3)
    reader.commit(0, 3, "kept")
    reader.close()
    left = 30
    if ending == "SIGTERM":
        with_admin(server, lambda admin: admin.delete_records({kafka.TopicPartition(name, 1): 4}))
        left -= 4
    before = libraries.BY_NAME["aiokafka"].consume(server.bootstrap, name, 3, left)
    server.stop() if ending == "SIGTERM" else server.kill()
    server.start()
    view = GroupView(server.bootstrap, group)
    assert (view.state(), view.offsets()) == ("EMPTY", {(name, 0): 3})
    after = libraries.BY_NAME["aiokafka"].consume(server.bootstrap, name, 3, left)
    assert len(before) == left
    assert sorted(after, key=repr) == sorted(before, key=repr)
    resources = [ConfigResource(ConfigResourceType.TOPIC, name)]
    found = with_admin(server, lambda admin: admin.describe_configs(resources))
    assert found["topic"][name]["retention.ms"]["value"] == "111000000"
    library.produce(server.bootstrap, name, [libraries.Message(b"next", partition=0)])
    again = library.reader(server.bootstrap, reading)
    try:
        assert again.committed(0) == (3, "kept")
        assert [record.offset for record in again.read(8)] == list(range(3, 11))
    finally:
        again.close()


def with_admin(server: BrokerProcess, call: Callable[[kafka.KafkaAdminClient], Any]) -> Any:
    """Call a function with an admin client and return its result."""
    admin = kafka.KafkaAdminClient(bootstrap_servers=server.bootstrap)
    try:
        return call(admin)
    finally:
        admin.close()
