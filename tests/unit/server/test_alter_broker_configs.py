"""Altered settings of the broker and of the cluster: what a running Kafka 4.3.1 answered."""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.server.config.config import Config
from coterie.server.config.resources import MAX_TEXT_CHARACTERS
from coterie.server.metadata.stored_settings import read_settings
from coterie.server.network.connection import Connection
from tests.unit.server.config_requests import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    change,
    client_with_topic,
    describe,
    value_of,
)
from tests.unit.server.manual import Client, make_broker, open_log


@pytest.fixture
def client() -> Client:
    return client_with_topic()


class TestBrokerSettings:
    """Settings of this broker ("1") and of the cluster ("") [settings/precedence]."""

    def set(self, client: Client, name: str, setting: str, value: str | None) -> None:
        operation = DELETE if value is None else SET
        assert change(client, BROKER, name, (setting, operation, value)) == (0, None)

    def test_layers(self, client: Client) -> None:
        name = "message.max.bytes"
        default = (name, "1048588", 5)
        assert value_of(client, name, BROKER, "1") == ("1048588", 5, [default])
        self.set(client, "", name, "2000")
        cluster = (name, "2000", 3)
        assert value_of(client, name, BROKER, "1") == ("2000", 3, [cluster, default])
        assert value_of(client, name, BROKER, "") == ("2000", 3, [cluster])
        self.set(client, "1", name, "3000")
        own = (name, "3000", 2)
        assert value_of(client, name, BROKER, "1") == ("3000", 2, [own, cluster, default])
        assert value_of(client, "max.message.bytes") == ("3000", 2, [own, cluster, default])
        assert client.broker.topics.by_name["t"].config.max_message_bytes == 3000
        change(client, TOPIC, "t", ("max.message.bytes", SET, "4000"))
        of_topic = ("max.message.bytes", "4000", 1)
        assert value_of(client, "max.message.bytes") == (
            "4000",
            1,
            [of_topic, own, cluster, default],
        )
        change(client, TOPIC, "t", ("max.message.bytes", DELETE, None))
        self.set(client, "1", name, None)
        assert value_of(client, "max.message.bytes") == ("2000", 3, [cluster, default])
        self.set(client, "", name, None)
        assert value_of(client, name, BROKER, "1") == ("1048588", 5, [default])
        (kept,) = describe(client, BROKER, "").configs
        assert kept.name == "min.insync.replicas"
        assert client.broker.topics.by_name["t"].config.max_message_bytes == 1_048_588

    def test_the_cluster_keeps_min_insync_replicas(self, client: Client) -> None:
        """[settings/kept-for-the-cluster]"""
        kept, other = "min.insync.replicas", "log.retention.ms"
        removed = (40, f"Cluster-level {kept} cannot be removed while ELR is enabled.")
        of_broker = (40, f"Broker-level {kept} cannot be altered while ELR is enabled.")
        assert change(client, BROKER, "", (other, SET, "5"), (kept, DELETE, None)) == removed
        for operation, value in ((SET, "1"), (DELETE, None)):
            assert (
                change(client, BROKER, "1", (other, SET, "5"), (kept, operation, value))
                == of_broker
            )
        # Other reasons come first.
        wrong = change(client, BROKER, "1", (kept, SET, "0"))
        assert wrong == (42, f"Invalid value 0 for configuration {kept}: Value must be at least 1")
        fixed = change(client, BROKER, "", (kept, DELETE, None), ("node.id", SET, "5"))
        assert fixed == (42, "Cannot update these configs dynamically: [node.id]")
        assert value_of(client, other, BROKER, "1")[1] == 5
        self.set(client, "", kept, "2")
        assert value_of(client, kept) == ("2", 3, [(kept, "2", 3), (kept, "1", 5)])

    def test_a_family_of_units(self, client: Client) -> None:
        hours = ("log.retention.hours", "168", 5)
        self.set(client, "1", "log.retention.ms", "11")
        own = ("log.retention.ms", "11", 2)
        assert value_of(client, "log.retention.ms", BROKER, "1") == ("11", 2, [own, hours])
        assert value_of(client, "retention.ms") == ("11", 2, [own, hours])
        self.set(client, "", "log.retention.ms", "12")
        cluster = ("log.retention.ms", "12", 3)
        assert value_of(client, "retention.ms") == ("11", 2, [own, cluster, hours])
        self.set(client, "1", "log.retention.ms", None)
        assert value_of(client, "retention.ms") == ("12", 3, [cluster, hours])
        self.set(client, "", "log.retention.ms", None)
        assert value_of(client, "log.retention.ms", BROKER, "1") == (None, 5, [])
        assert value_of(client, "log.retention.hours", BROKER, "1") == ("168", 5, [hours])

    @pytest.mark.parametrize(
        ("name", "given", "shown", "listed"),
        [
            ("log.roll.ms", " 7 ", "7", [("log.roll.ms", " 7 ", 2), ("log.roll.hours", "168", 5)]),
            (
                "log.preallocate",
                "TRUE",
                "true",
                [("log.preallocate", "TRUE", 2), ("log.preallocate", "false", 5)],
            ),
            (
                "log.cleaner.io.max.bytes.per.second",
                "1000",
                "1000.0",
                [
                    ("log.cleaner.io.max.bytes.per.second", "1000", 2),
                    ("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", 5),
                ],
            ),
            ("num.io.threads", "9", "9", [("num.io.threads", "9", 2), ("num.io.threads", "8", 5)]),
            (
                "leader.replication.throttled.rate",
                "100",
                "100",
                [("leader.replication.throttled.rate", "100", 2)],
            ),
            ("sasl.jaas.config", "secret", None, [("sasl.jaas.config", None, 2)]),
            ("nope.nope", "5", None, [("nope.nope", None, 2)]),
        ],
    )
    def test_values_are_shown_normalised_and_synonyms_as_given(
        self, client: Client, name: str, given: str, shown: str | None, listed: list[Any]
    ) -> None:
        before = describe(client, BROKER, "1", name).configs
        self.set(client, "1", name, given)
        assert value_of(client, name, BROKER, "1") == (shown, 2, listed)
        self.set(client, "1", name, None)
        assert describe(client, BROKER, "1", name).configs == before

    def test_limits_of_connections_follow_at_once(self, client: Client) -> None:
        quotas = client.broker.connection_quotas
        self.set(client, "1", "max.connections", "1")
        assert quotas.admit(Connection(client.broker), "10.0.0.1") is not None
        self.set(client, "1", "max.connections", None)
        self.set(client, "", "max.connections.per.ip", "0")
        refusal = quotas.admit(Connection(client.broker), "10.0.0.1")
        assert refusal is not None
        assert "max.connections.per.ip" in refusal

    def test_limits_of_addresses_follow_at_once(self, client: Client) -> None:
        quotas, name = client.broker.connection_quotas, "max.connections.per.ip.overrides"
        self.set(client, "1", name, "10.0.0.1:0")
        assert quotas.admit(Connection(client.broker), "10.0.0.1") is not None
        assert quotas.admit(Connection(client.broker), "10.0.0.2") is None
        error, text = change(client, BROKER, "1", (name, SET, "10.0.0.1"))
        assert error == ErrorCode.INVALID_REQUEST
        assert name in str(text)

    def test_expiration_of_producers_follows_at_once(self, client: Client) -> None:
        open_log(client.broker, "t")
        partition = client.broker.topics.by_name["t"].partitions[0]
        assert partition.log.config.producer_expiration_ms == 86_400_000
        self.set(client, "1", "producer.id.expiration.ms", "100")
        assert partition.log.config.producer_expiration_ms == 100

    def test_altered_settings_survive_a_restart(self) -> None:
        broker = make_broker()
        client = Client(broker)
        self.set(client, "1", "message.max.bytes", "99")
        self.set(client, "", "log.retention.ms", "7")
        stored = read_settings(broker._data.files.filesystem, broker._data.path)
        assert stored is not None
        assert (stored.broker, stored.cluster) == (
            {"message.max.bytes": "99"},
            {"log.retention.ms": "7", "min.insync.replicas": "1"},
        )
        restarted = Config()
        restarted.alter(stored.broker, stored.cluster)
        assert restarted.get_int("log.retention.ms") == 7

    @pytest.mark.parametrize(
        ("name", "changes", "error", "text"),
        [
            (
                "1",
                [("group.max.size", SET, "5")],
                42,
                "Cannot update these configs dynamically: [group.max.size]",
            ),
            (
                "1",
                [
                    ("log.retention.ms", SET, "1"),
                    ("num.partitions", SET, "3"),
                    ("broker.id", SET, "3"),
                ],
                42,
                "Cannot update these configs dynamically: [num.partitions, broker.id]",
            ),
            (
                "",
                [("sasl.enabled.mechanisms", SET, "PLAIN")],
                42,
                (
                    "Cannot update these configs at default cluster level, broker id must be"
                    " specified: [sasl.enabled.mechanisms]"
                ),
            ),
            (
                "1",
                [("ssl.keystore.password", SET, "secret")],
                42,
                (
                    "These security configs can be dynamically updated only per-listener using the"
                    " listener prefix: [ssl.keystore.password]"
                ),
            ),
            (
                "1",
                [("log.retention.ms", SET, "abc")],
                42,
                "Invalid value abc for configuration log.retention.ms: Not a number of type LONG",
            ),
            (
                "1",
                [("num.io.threads", SET, "0")],
                42,
                "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
            ),
            (
                "1",
                [("log.retention.ms", APPEND, "5")],
                40,
                "Config value append is not allowed for config key: log.retention.ms",
            ),
            (
                "1",
                [("num.partitions", SUBTRACT, "5")],
                40,
                "Config value subtract is not allowed for config key: num.partitions",
            ),
            ("1", [("nope", APPEND, "5")], 40, "Unknown config name: nope"),
            ("1", [("log.retention.ms", 9, "5")], 42, "Unknown operations type 9"),
            (
                "1",
                [("log.retention.ms", SET, None)],
                42,
                "Null value not supported for : log.retention.ms",
            ),
            (
                "7",
                [("log.retention.ms", SET, "5")],
                42,
                "Unexpected broker id, expected 1, but received 7",
            ),
            (
                "x",
                [("log.retention.ms", SET, "5")],
                42,
                "Node id must be an integer, but it is: x",
            ),
        ],
    )
    def test_refused(
        self, client: Client, name: str, changes: list[Any], error: int, text: str
    ) -> None:
        before = describe(client, BROKER, "1").configs
        assert change(client, BROKER, name, *changes) == (error, text)
        assert describe(client, BROKER, "1").configs == before

    def test_what_clients_alter_is_bounded(self, client: Client) -> None:
        """[settings/differences]"""
        long = [(f"name.{number}", SET, "x" * 30_000) for number in range(36)]
        assert change(client, BROKER, "1", *long[:30]) == (0, None)
        assert change(client, BROKER, "1", *long)[0] == ErrorCode.POLICY_VIOLATION
        many = [(f"other.{number}", SET, "1") for number in range(980)]
        assert change(client, BROKER, "1", *many)[0] == ErrorCode.POLICY_VIOLATION
        assert change(client, BROKER, "", *many) == (0, None)

    @pytest.mark.parametrize("version", [0, 1])
    def test_long_names_and_values_do_not_overflow_the_message(
        self, client: Client, version: int
    ) -> None:
        long = "x" * 32_767
        for changes in ((long, APPEND, "1"), ("log.retention.ms", SET, long)):
            code, text = change(client, BROKER, "1", changes, version=version)
            assert code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
            assert text is not None
            assert len(text) == MAX_TEXT_CHARACTERS
        result = describe(client, BROKER, long)
        assert len(result.error_message) == MAX_TEXT_CHARACTERS

    def test_what_cannot_be_altered_can_be_deleted(self, client: Client) -> None:
        assert change(client, BROKER, "1", ("group.max.size", DELETE, None)) == (0, None)
        assert change(client, BROKER, "1", ("nope", DELETE, None)) == (0, None)
