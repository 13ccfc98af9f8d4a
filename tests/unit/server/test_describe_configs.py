"""DescribeConfigs: what a running Kafka 4.3.1 answered.

Exceptions are those of [settings/differences].
"""

import pytest

from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from coterie.server.handlers.describe_configs import MAX_REPETITIONS
from coterie.server.releases import Release
from tests.unit.server.config_requests import (
    BROKER,
    SET,
    TOPIC,
    change,
    client_with_topic,
    describe,
    value_of,
)
from tests.unit.server.manual import Client, make_broker
from tests.unit.server.running import RunningBroker


@pytest.fixture
def client() -> Client:
    return client_with_topic()


class TestDescribe:
    def test_the_brokers_static_settings_show_in_its_topics(self) -> None:
        settings = {
            "message.max.bytes": "77",
            "log.retention.hours": "100",
            "log.flush.scheduler.interval.ms": "5000",
            "log.cleaner.min.cleanable.ratio": ".25",
            "compression.gzip.level": "4",
        }
        client = Client(make_broker(settings))
        client.broker.controller.create("t", 1, {})
        assert value_of(client, "max.message.bytes") == (
            "77",
            4,
            [("message.max.bytes", "77", 4), ("message.max.bytes", "1048588", 5)],
        )
        # A value in another unit counts, and is not listed.
        assert value_of(client, "retention.ms") == ("360000000", 5, [])
        assert value_of(client, "flush.ms") == ("5000", 5, [])
        assert value_of(client, "min.cleanable.dirty.ratio")[0] == "0.25"
        assert value_of(client, "min.cleanable.dirty.ratio")[2][0][1] == ".25"
        assert value_of(client, "compression.gzip.level")[:2] == ("4", 4)

    def test_broker_has_all_settings_of_kafka(self, client: Client) -> None:
        result = describe(client, BROKER, "1")
        by_name = {each.name: each for each in result.configs}
        # Kafka lists 340 settings; three are our own.
        assert len(by_name) == 345
        delay = by_name["group.initial.rebalance.delay.ms"]
        assert (delay.value, delay.config_source, delay.read_only) == ("0", 4, True)
        assert not by_name["message.max.bytes"].read_only
        assert by_name["log.retention.ms"].value is None
        assert by_name["num.io.threads"].value == "8"
        assert by_name["ssl.keystore.password"].is_sensitive
        assert by_name["ssl.keystore.password"].config_type == 9
        assert by_name["authorizer.class.name"].value == ""
        assert "log.initial.task.delay.ms" not in by_name

    def test_the_cluster_keeps_min_insync_replicas(self) -> None:
        """As a new cluster of Kafka 4.3.1 shows it [settings/kept-for-the-cluster]."""
        name = "min.insync.replicas"
        client, given = client_with_topic(), Client(make_broker({name: "2"}))
        default = (name, "1", 5)
        assert value_of(client, name) == ("1", 3, [(name, "1", 3), default])
        assert value_of(client, name, BROKER, "1") == ("1", 3, [(name, "1", 3), default])
        for version in range(1, 5):
            (found,) = describe(client, TOPIC, "t", name, version=version).configs
            assert not found.is_default
        (kept,) = describe(client, BROKER, "").configs
        assert (kept.name, kept.value, kept.config_source, kept.is_default) == (name, "1", 3, False)
        of_start = (name, "2", 4)
        assert value_of(given, name, BROKER, "1") == ("2", 3, [(name, "2", 3), of_start, default])

    @pytest.mark.parametrize("release", ["2.8", "3.9", "4.0"])
    def test_older_releases_keep_nothing(self, release: str) -> None:
        client = client_with_topic()
        client.broker.pretend(Release.named(release))
        name = "min.insync.replicas"
        assert value_of(client, name, version=1) == ("1", 5, [(name, "1", 5)])
        assert describe(client, BROKER, "", version=1).configs == []
        assert change(client, BROKER, "1", (name, SET, "2")) == (0, None)

    def test_address_and_directory_of_the_broker(self) -> None:
        with RunningBroker({"node.id": "3"}) as running, running.client() as client:
            names = ["advertised.listeners", "broker.id", "listeners", "log.dirs", "node.id"]
            result = describe(client, BROKER, "3", *names)
            listener = f"PLAINTEXT://{running.address}"
        values = [listener, "3", listener, ":memory:", "3"]
        assert [each.value for each in result.configs] == values
        assert {(each.config_source, each.read_only) for each in result.configs} == {(4, True)}
        assert [each.config_type for each in result.configs] == [7, 3, 7, 7, 3]
        assert [len(each.synonyms) for each in result.configs] == [1, 2, 2, 1, 1]

    def test_unknown_and_secret_settings_have_no_value(self) -> None:
        """Unknown names have no value, those of a listener the type of their base."""
        settings = {
            "zookeeper.connect": "h:1",
            "super.users": "User:a",
            "ssl.keystore.password": "secret",
            "log.initial.task.delay.ms": "5",
            "listener.name.plaintext.max.connections": "500",
            "auto.create.topics.enable": "TRUE",
        }
        client = Client(make_broker(settings))
        configs = {each.name: each for each in describe(client, BROKER, "1").configs}
        for name in ("zookeeper.connect", "super.users", "ssl.keystore.password"):
            described = configs[name]
            assert (described.value, described.is_sensitive) == (None, True)
            assert [each.value for each in described.synonyms] == [None]
            assert described.config_source == 4
        assert configs["super.users"].config_type == 0
        assert configs["super.users"].read_only
        assert configs["ssl.keystore.password"].config_type == 9
        assert configs["log.initial.task.delay.ms"].value == "5"
        name = "listener.name.plaintext.max.connections"
        assert value_of(client, name, BROKER, "1") == (
            "500",
            4,
            [(name, "500", 4), ("max.connections", "10000", 5)],
        )
        assert value_of(client, "auto.create.topics.enable", BROKER, "1") == (
            "true",
            4,
            [
                ("auto.create.topics.enable", "TRUE", 4),
                ("auto.create.topics.enable", "true", 5),
            ],
        )

    def test_the_groups_topic_is_compacted(self, client: Client) -> None:
        value = value_of(client, "cleanup.policy", resource="__consumer_offsets")[:2]
        assert value == ("compact", 1)

    @pytest.mark.parametrize("name", ["1", "01", "+1"])
    def test_a_broker_id_is_a_number(self, client: Client, name: str) -> None:
        assert describe(client, BROKER, name, "node.id").configs[0].value == "1"

    def test_equal_resources_are_described_as_often_as_they_are_named(self, client: Client) -> None:
        """Up to a limit, which Kafka does not have. [settings/differences]"""
        resources = [
            DescribeConfigsRequestResource(
                resource_type=BROKER, resource_name="1", configuration_keys=keys
            )
            for keys in (["node.id"], ["broker.id"], None, ["node.id"], None)
        ]
        results = client.call(DescribeConfigsRequest(resources=resources), 4).results
        assert [len(each.configs) for each in results] == [1, 1, 345, 1, 345]
        results = client.call(DescribeConfigsRequest(resources=resources[:1] * 11), 4).results
        assert len(results) == MAX_REPETITIONS
