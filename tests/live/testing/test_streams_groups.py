"""Streams groups (KIP-1071) seen from a test: tasks, waits, faults, settings of clients."""

import asyncio

import pytest

from coterie.address import Address
from coterie.conformance.over_tcp.target import Target
from coterie.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from coterie.testing import (
    AnswerError,
    Broker,
    CoordinatorMoves,
    ProcessBroker,
    Task,
    WaitTimedOut,
    WrongUse,
)
from tests.interop.group_members import StreamsMember
from tests.interop.model import Failed

pytestmark = pytest.mark.live

GROUP = "words"


def member_of(member_id: str) -> StreamsMember:
    return StreamsMember(GROUP, member_id, "lines", store="counts")


def test_a_test_sees_tasks_standby_copies_and_what_a_group_waits_for() -> None:
    with Broker(topics={"lines": 2}) as broker:
        group, address = broker.group(GROUP), broker.bootstrap_servers
        group.configure({"streams.num.standby.replicas": "1"})
        assert group.tasks == {}
        one, two = member_of("one"), member_of("two")
        one.join(address)
        assert "waits for its topics: " in group.stuck()
        # The broker has created the internal topic after its answer.
        one.beat(address)
        group.wait_tasks()
        group.wait_assigned("lines")
        assert group.tasks["0_1"] == Task(("lines",), "one", (), (), is_stateful=True)

        two.join(address)
        one.beat(address)
        with pytest.raises(WaitTimedOut) as failed:
            group.wait_tasks(standbys=1, timeout_s=0)
        found = str(failed.value)
        assert "every task of group 'words' is assigned, with 1 standby copy: not so" in found
        assert f"group 'words': Reconciling, epoch {group.generation}, 2 members" in found
        assert "waits for interop to give up 1 tasks" in found
        assert "active 0_0; has to give up 0_1; epoch" in found
        assert "active nowhere: 0_1" in found
        assert group.tasks["0_1"].given_up_by == ("one",)

        for _ in range(2):
            one.confirm(address)
            two.confirm(address)
        group.wait_tasks(standbys=1)
        assert {each.active for each in group.tasks.values()} == {"one", "two"}
        assert group.tasks["0_1"].standby == ("one",)
        with pytest.raises(WrongUse, match="members of the streams group 'words' can't be removed"):
            group.expel("one")

        broker.advance(7)
        group.wait_empty()
        causes = [each.trigger.cause for each in group.history]
        assert causes[0] == "join"
        assert causes[-1] == "session expiry"
        for line in group.history_lines():
            assert line.startswith("epoch ")
            assert line.endswith(" tasks moved")


def test_heartbeats_meet_faults_by_topic_and_group() -> None:
    with Broker(topics={"lines": 1}) as broker:
        address = broker.bootstrap_servers
        one = StreamsMember(GROUP, "one", "lines")
        refused = AnswerError("STREAMS_INVALID_TOPOLOGY")
        with broker.fault(refused, api="StreamsGroupHeartbeat", topic="lines") as fault:
            with pytest.raises(Failed, match="STREAMS_INVALID_TOPOLOGY"):
                one.join(address)
            fault.must_have_hit(1)
        with (
            broker.fault(CoordinatorMoves(), group=GROUP),
            pytest.raises(Failed, match="NOT_COORDINATOR"),
        ):
            one.join(address)
        assert broker.group(GROUP).state == "Dead"
        one.join(address)
        broker.group(GROUP).wait_tasks()
        one.leave(address)
        # What the group was is kept for the report of a failure.
        assert "StreamsGroupHeartbeat" in str(broker.report().requests[-1])
        assert "1 member" in broker.report().left[0].text


def test_a_session_of_minutes_ends_in_virtual_time() -> None:
    async def told(broker: Broker) -> None:
        async with broker.virtual_time() as clock:
            target = Target(Address(broker.host, broker.port))
            await target.open()
            one = StreamsMember(GROUP, "one", "lines")
            one.take(await target.call(one.joining(), StreamsGroupHeartbeatResponse))
            group = broker.group(GROUP)
            await group.wait_tasks()
            await clock.advance(59)
            assert group.state == "Stable"
            await clock.advance(2)
            assert group.state == "Empty"
            await target.close()

    settings = {"group.streams.session.timeout.ms": "60000"}
    with Broker(topics={"lines": 1}, config=settings) as broker:
        asyncio.run(told(broker))


def test_the_control_port_has_tasks_and_their_wait() -> None:
    with ProcessBroker(topics={"lines": 1}) as broker:
        one = StreamsMember(GROUP, "one", "lines")
        one.join(broker.bootstrap_servers)
        group = broker.group(GROUP)
        group.wait_tasks()
        assert group.tasks == {"0_0": Task(("lines",), "one", (), (), is_stateful=False)}


def test_kafka_streams_gets_its_properties() -> None:
    with Broker(security="SASL_SSL", users={"alice": "secret"}) as broker:
        found = broker.client_config(
            "kafka-streams", group_id="words", protocol="streams", num_standby_replicas=1
        )
        with pytest.raises(WrongUse, match=r"KIP-1071\); kafka-streams does"):
            broker.client_config("confluent-kafka", group_id="words", protocol="streams")
        with pytest.raises(WrongUse, match="does not speak the consumer protocol"):
            broker.client_config("kafka-streams", group_id="words", protocol="consumer")
    assert found["application.id"] == "words"
    assert found["group.protocol"] == "streams"
    assert found["num.standby.replicas"] == 1
    assert found["security.protocol"] == "SASL_SSL"
    assert found["sasl.jaas.config"].endswith('required username="alice" password="secret";')
    assert found["ssl.truststore.location"].endswith("authority.pem")
