"""What altered settings do. What is answered is in `tests/golden/answers/settings.txt`.

Rules: [connections/connection-limits].
"""

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
    GROUP,
    SET,
    TOPIC,
    change,
    client_with_topic,
    describe,
)
from tests.unit.server.manual import Client, make_broker, open_log

METRICS = 16
SESSION = "consumer.session.timeout.ms"


@pytest.fixture
def client() -> Client:
    return client_with_topic()


class TestBrokerSettings:
    """Settings of this broker ("1") and of the cluster ("") [settings/precedence]."""

    def set(self, client: Client, name: str, setting: str, value: str | None) -> None:
        operation = DELETE if value is None else SET
        assert change(client, BROKER, name, (setting, operation, value)) == (0, None)

    def test_limits_of_connections_follow_at_once(self, client: Client) -> None:
        quotas = client.broker.connection_quotas
        self.set(client, "1", "max.connections", "1")
        assert quotas.admit(Connection(client.broker), "10.0.0.1", "PLAINTEXT") is not None
        self.set(client, "1", "max.connections", None)
        self.set(client, "", "max.connections.per.ip", "0")
        refusal = quotas.admit(Connection(client.broker), "10.0.0.1", "PLAINTEXT")
        assert refusal is not None
        assert "max.connections.per.ip" in refusal

    def test_limits_of_addresses_follow_at_once(self, client: Client) -> None:
        quotas, name = client.broker.connection_quotas, "max.connections.per.ip.overrides"
        self.set(client, "1", name, "10.0.0.1:0")
        assert quotas.admit(Connection(client.broker), "10.0.0.1", "PLAINTEXT") is not None
        assert quotas.admit(Connection(client.broker), "10.0.0.2", "PLAINTEXT") is None
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


def test_settings_of_topics_apply_to_open_logs(client: Client) -> None:
    log = open_log(client.broker, "t")
    for name, value in (("segment.bytes", 1_048_576), ("internal.segment.bytes", 500)):
        change(client, TOPIC, "t", (name, SET, str(value)))
        assert log.config.segment_bytes == value


def test_session_of_a_group_is_longer_than_its_heartbeat() -> None:
    client = Client(make_broker({"group.consumer.min.session.timeout.ms": "100"}))
    expected = f"{SESSION} must be greater than consumer.heartbeat.interval.ms"
    assert change(client, GROUP, "g", (SESSION, SET, "5000")) == (40, expected)
    assert change(client, GROUP, "g", (SESSION, SET, "5001")) == (0, None)


def test_groups_and_client_metrics_survive_a_restart() -> None:
    broker = make_broker()
    client = Client(broker)
    assert change(client, GROUP, "g", (SESSION, SET, "50000")) == (0, None)
    assert change(client, METRICS, "m", ("metrics", SET, "a")) == (0, None)
    stored = read_settings(broker._data.files.filesystem, broker._data.path)
    assert stored is not None
    assert stored.resources == {GROUP: {"g": {SESSION: "50000"}}, METRICS: {"m": {"metrics": "a"}}}
    config = Config()
    for kind, settings in stored.resources.items():
        config.set_resources(kind, settings)
    assert config.groups == {"g": {SESSION: "50000"}}
    assert config.client_metrics == {"m": {"metrics": "a"}}
