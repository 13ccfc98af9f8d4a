"""Clusters with TLS, logins and access rules, and the ends that all brokers share."""

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from kafka import KafkaConsumer
from kafka.errors import KafkaTimeoutError

from coterie.testing import Cluster, ProcessCluster, Security, WrongUse, cluster
from tests.live.deadlines import eventually
from tests.live.testing.test_cluster import in_loop
from tests.live.testing.test_security import with_aiokafka, with_confluent, with_kafka_python

RIGHTS = [
    "User:alice ALLOW ALL TOPIC orders",
    "User:alice ALLOW READ GROUP billing",
    "User:alice ALLOW IDEMPOTENT_WRITE CLUSTER",
]


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("client", [with_kafka_python, with_aiokafka, with_confluent])
def test_clients_find_leaders_and_coordinators(
    client: Callable[..., list[bytes | None]], protocol: str
) -> None:
    asks = "required" if protocol == "SSL" else "none"
    security = Security(protocol, client_auth=asks)
    users = () if protocol == "SSL" else ("alice",)
    with cluster(security=security, users=users, acls=RIGHTS) as kafka:
        kafka.topic("orders", replicas=[[3, 1]])
        kafka.move_coordinator("billing", to=2)
        assert client(kafka, user="alice") == [b"espresso"]
        assert {each.node_id for each in kafka.requests.of("Fetch")} == {3}
        assert {each.node_id for each in kafka.requests.of("JoinGroup")} == {2}
        kafka.kill(3)
        assert client(kafka, user="alice")[-1] == b"espresso"
        assert len(kafka.records("orders")) == 2


def is_served(kafka: Cluster, node_id: int, user: str) -> bool:
    """Return whether a broker serves a client with the login of a user."""
    config = kafka.client_config("kafka-python", user=user, bootstrap_timeout_ms=2_000)
    config["bootstrap_servers"] = kafka.address(node_id)
    try:
        KafkaConsumer(**config).close()
    except KafkaTimeoutError:
        return False
    return True


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_changed_users_count_for_all_brokers(mechanism: str) -> None:
    security = Security("SASL_PLAINTEXT", mechanism=mechanism)
    with cluster(2, security=security, users=["alice"]) as kafka:
        kafka.kill(2)
        kafka.add_user("bob")
        kafka.revoke("alice")
        kafka.start(2)
        assert [is_served(kafka, each, "alice") for each in (1, 2)] == [False, False]
        for _ in range(2):
            assert kafka.users == ["bob"]
            assert [is_served(kafka, each, "bob") for each in (1, 2)] == [True, True]
            kafka.restart()
        assert not is_served(kafka, 1, "alice")
        with pytest.raises(WrongUse, match="'carol' is no user of this broker"):
            kafka.revoke("carol")


def test_certificates_of_all_brokers_change() -> None:
    with cluster(2, security="SASL_SSL", users=["alice"]) as kafka:
        kafka.kill(2)
        kafka.use_certificate("expired")
        kafka.start(2)
        assert [is_served(kafka, each, "alice") for each in (1, 2)] == [False, False]
        kafka.use_certificate("valid")
        assert [is_served(kafka, each, "alice") for each in (1, 2)] == [True, True]


def test_rules_of_all_brokers_change() -> None:
    with cluster(2, acls=[], topics={"orders": 1}) as kafka:
        assert kafka.acls == []
        kafka.add_acls("User:ANONYMOUS ALLOW DESCRIBE TOPIC orders")
        kafka.restart()
        (rule,) = kafka.acls
        for node_id in kafka.brokers:
            consumer = KafkaConsumer(bootstrap_servers=kafka.address(node_id))
            assert consumer.topics() == {"orders"}
            consumer.close()
        kafka.remove_acls(rule)
        assert kafka.acls == []


def test_paused_broker_keeps_its_encrypted_connections() -> None:
    with cluster(2, security="SASL_SSL", users=["alice"], topics={"orders": 1}) as kafka:
        config = kafka.client_config("kafka-python", group_id="billing", client_id="one")
        consumer = KafkaConsumer("orders", **config)
        kafka.produce("orders", "espresso")
        assert sum(map(len, consumer.poll(30_000).values())) == 1
        with kafka.paused(kafka.leader_of("orders"), detect_ms=0):
            kafka.produce("orders", "latte")
            eventually(lambda: consumer.poll(100), "the record at the other broker")
        consumer.close()


@in_loop
async def test_virtual_time_has_logins_and_tls() -> None:
    async with (
        cluster(security="SASL_SSL", users=["alice"], topics={"orders": 3}) as kafka,
        kafka.virtual_time() as clock,
    ):
        config = kafka.client_config("aiokafka", group_id="billing", client_id="one")
        async with AIOKafkaConsumer("orders", **config) as consumer:
            await kafka.group("billing").wait_assigned("orders")
            generation = kafka.group("billing").generation
            dead = kafka.coordinator_of("billing")
            assert dead is not None
            await kafka.kill(dead, detect_ms=9_000)
            await clock.advance(10)
            await kafka.start(dead)
            await consumer.commit({TopicPartition("orders", 0): 0})
            assert kafka.group("billing").generation == generation


@in_loop
async def test_restart_of_one_broker_and_of_all() -> None:
    async with cluster(topics={"orders": 3}) as kafka:
        before = kafka.bootstrap_servers
        kafka.produce("orders", "espresso")
        await kafka.kill(1)
        with pytest.raises(WrongUse, match="broker 1 does not run"):
            await kafka.restart(1)
        await kafka.restart(2)
        assert kafka.brokers == [2, 3]
        await kafka.restart()
        assert kafka.brokers == [1, 2, 3]
        assert kafka.bootstrap_servers == before
        kafka.produce("orders", "latte")
        assert [each.value for each in kafka.records("orders")] == [b"espresso", b"latte"]


@pytest.mark.parametrize("flush", ["never", "commit"])
def test_power_is_lost_by_all_brokers(flush: str) -> None:
    async def produce(kafka: Cluster, value: bytes) -> None:
        async with AIOKafkaProducer(**kafka.client_config("aiokafka")) as producer:
            await producer.send_and_wait("orders", value)

    with cluster(flush=flush, topics={"orders": 1}, security="SASL_SSL", users=["alice"]) as kafka:
        before = kafka.bootstrap_servers
        asyncio.run(produce(kafka, b"espresso"))
        kafka.flush()
        asyncio.run(produce(kafka, b"latte"))
        kafka.kill(kafka.leader_of("orders"), detect_ms=60_000)
        kafka.lose_power()
        assert kafka.bootstrap_servers == before
        assert kafka.brokers == [1, 2, 3]
        values = [each.value for each in kafka.records("orders")]
        assert values == ([b"espresso"] if flush == "never" else [b"espresso", b"latte"])
        asyncio.run(produce(kafka, b"tea"))
        assert len(kafka.records("orders")) == len(values) + 1


@pytest.mark.parametrize("client", [with_kafka_python, with_aiokafka, with_confluent])
def test_process_of_several_brokers_has_security(
    client: Callable[..., list[bytes | None]],
) -> None:
    users = {"alice": 'a"= b'}
    with ProcessCluster(security="SASL_SSL", users=users, acls=RIGHTS) as kafka:
        kafka.topic("orders")
        assert client(kafka, user="alice") == [b"espresso"]
        kafka.flush()
        kafka.lose_power()
        kafka.add_user("bob")
        kafka.restart()
        assert kafka.users == ["alice", "bob"]
        assert client(kafka, user="alice")[-1] == b"espresso"
        assert len(kafka.records("orders")) == 2


def test_process_of_several_brokers_restarts_at_its_addresses() -> None:
    with ProcessCluster(2, features={"transaction.version": 1}, topics={"orders": 1}) as kafka:
        before = [kafka.address(each) for each in kafka.brokers]
        kafka.kill(1)
        kafka.set_features({"transaction.version": 2})
        kafka.restart()
        assert kafka.brokers == [1, 2]
        assert [kafka.address(each) for each in kafka.brokers] == before
        assert kafka.state().brokers[0].address == before[0]
        assert kafka.features["transaction.version"] == 2
        kafka.restart(2)
        assert kafka.brokers == [1, 2]
