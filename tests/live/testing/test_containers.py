"""The class that is used like a container of Testcontainers."""

import pytest

from coterie.testing import BrokerNotStarted, WrongUse
from coterie.testing.containers import KafkaContainer


def test_container_is_a_broker() -> None:
    container = KafkaContainer("confluentinc/cp-kafka:7.6.0").with_kraft()
    container.with_env("KAFKA_GROUP_MAX_SIZE", "1").with_env("KAFKA_NODE_ID", "7")
    container.with_exposed_ports(9093).with_cluster_id("any")
    with pytest.raises(WrongUse, match="not started"):
        container.get_bootstrap_server()
    with container as running:
        host, port = running.get_container_host_ip(), running.get_exposed_port(9093)
        assert running.get_bootstrap_server() == f"{host}:{port}"
        running.kafka.topic("t", records=["a"])
        assert running.kafka.server.config.get_int("group.max.size") == 1
    container.stop()


def test_unknown_setting_is_named() -> None:
    with pytest.raises(BrokerNotStarted, match=r"group\.max\.sizes"):
        KafkaContainer().with_env("KAFKA_GROUP_MAX_SIZES", "1").start()
