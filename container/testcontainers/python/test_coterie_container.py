"""What needs no Docker engine runs everywhere; the last test runs where there is one.

`COTERIE_IMAGE` names the image.
"""

import io
import os
import tarfile
from typing import Any
from unittest.mock import MagicMock

import docker
import pytest
from coterie_container import ADDRESS_FILE, CoterieContainer
from testcontainers.core import container as core
from testcontainers.core.config import testcontainers_config


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """An engine that publishes port 9092 as 49153, and a broker that is ready when it is asked."""
    client = MagicMock()
    client.host.return_value = "docker.example.org"
    client.get_connection_mode.return_value = core.ConnectionMode.docker_host
    client.port.side_effect = lambda _, port: {9092: 49153, 19092: 49154}[port]
    client.create.return_value.status = "running"
    client.create.return_value.logs.return_value = b"coterie 0.1.0 ready on HOST://0.0.0.0:9092"
    monkeypatch.setattr(core, "DockerClient", lambda **_: client)
    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)
    return client


def copied(engine: MagicMock) -> dict[str, str]:
    """Return the files that were copied into the container."""
    files = {}
    for call in engine.create.return_value.put_archive.call_args_list:
        with tarfile.open(fileobj=io.BytesIO(call.kwargs["data"])) as archive:
            for member in archive:
                content: Any = archive.extractfile(member)
                files["/" + member.name.lstrip("/")] = content.read().decode()
    return files


def test_the_broker_is_given_the_address_that_the_engine_has_chosen(engine: MagicMock) -> None:
    with CoterieContainer() as coterie:
        assert coterie.bootstrap_servers == "docker.example.org:49153"
        assert coterie.network_bootstrap_servers("broker") == "broker:19092"
    assert copied(engine) == {ADDRESS_FILE: "docker.example.org:49153"}
    assert engine.create.call_args.kwargs["environment"]["COTERIE_ADVERTISE_FILE"] == ADDRESS_FILE
    assert set(engine.create.call_args.kwargs["ports"]) == {"9092", "19092"}


def test_settings_are_variables(engine: MagicMock) -> None:
    container = CoterieContainer("registry.example.org/coterie:1.0")
    with container.with_setting("group.initial.rebalance.delay.ms", "3000"):
        pass
    assert engine.create.call_args.args == ("registry.example.org/coterie:1.0",)
    environment = engine.create.call_args.kwargs["environment"]
    assert environment["COTERIE_GROUP_INITIAL_REBALANCE_DELAY_MS"] == "3000"
    assert environment["COTERIE_LOG_DIRS"] == ":memory:"


def test_a_group_reads_from_the_container() -> None:
    try:
        docker.from_env().ping()
    except docker.errors.DockerException as error:
        pytest.skip(f"no Docker engine answers: {error}")
    kafka = pytest.importorskip("kafka", reason="needs pip install kafka-python")
    with CoterieContainer(os.environ.get("COTERIE_IMAGE", "coterie:latest")) as coterie:
        producer = kafka.KafkaProducer(bootstrap_servers=coterie.bootstrap_servers)
        producer.send("orders", b"espresso").get(30)
        producer.close()
        consumer = kafka.KafkaConsumer(
            "orders",
            group_id="bar",
            bootstrap_servers=coterie.bootstrap_servers,
            auto_offset_reset="earliest",
            consumer_timeout_ms=30_000,
        )
        assert next(consumer).value == b"espresso"
        consumer.close()
