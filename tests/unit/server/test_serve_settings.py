"""`coterie serve` with settings of Kafka: what it starts with, and what it says about them."""

import json
import signal
import socket
from pathlib import Path

import pytest

from tests.unit.server.config_requests import BROKER, describe
from tests.unit.server.process import ready, run, serving
from tests.unit.server.running import PATIENCE_S, SocketClient

# What Kafka ships, without its comments.
SETTINGS = Path(__file__).parents[2] / "testdata" / "settings"


class TestKafkasSettings:
    """[settings/known-names] [settings/no-effect] [settings/options-replace]"""

    @pytest.mark.parametrize(
        ("file", "node_id", "without_effect"),
        [
            ("kafka-2.6.3", 0, 8),
            ("kafka-2.8.2", 0, 8),
            ("kafka-2.8.2-kraft", 1, 8),
            ("kafka-4.3.1", 1, 10),
        ],
    )
    def test_shipped_settings_start(
        self, file: str, node_id: int, without_effect: int, tmp_path: Path
    ) -> None:
        """Only the data directory and the port are replaced, to leave those of this machine."""
        arguments = ("--properties", str(SETTINGS / f"{file}-server.properties"))
        directory = ("--data-dir", str(tmp_path / "data"), "--log-format", "json")
        with serving(*arguments, *directory) as process:
            port, line = ready(process)
            assert line[1] == "127.0.0.1"
            with SocketClient(socket.create_connection(("127.0.0.1", port))) as client:
                keys = ["advertised.listeners", "log.dirs", "node.id", "num.io.threads"]
                configs = describe(client, BROKER, str(node_id), *keys).configs
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=PATIENCE_S)
        assert [each.value for each in configs] == [
            f"PLAINTEXT://127.0.0.1:{port}",
            str(tmp_path / "data"),
            str(node_id),
            "8",
        ]
        lines = [json.loads(text) for text in errors.splitlines()]
        (summary,) = [each for each in lines if each["event"] == "settings without effect"]
        assert summary["count"] == without_effect == len(summary["settings"].split(", "))
        assert ("zookeeper.connect (removed in Kafka 4.0)" in summary["settings"]) == (node_id == 0)
        replaced = [each["reason"] for each in lines if each["event"] == "setting replaced"]
        assert [reason for reason in replaced if "log.dirs" in reason]
        assert bool([reason for reason in replaced if "listeners (" in reason]) == (node_id == 1)

    def test_listener_and_directory_come_from_the_file(self, tmp_path: Path) -> None:
        properties = tmp_path / "server.properties"
        properties.write_text(
            f"log.dirs={tmp_path / 'data'}\n"
            "listeners=OUTSIDE://127.0.0.1:0\n"
            "listener.security.protocol.map=OUTSIDE:PLAINTEXT\n"
            "advertised.listeners=OUTSIDE://example.org:9\n"
        )
        with serving("--properties", str(properties), port=None) as process:
            port, line = ready(process)
            assert line[3] == str(tmp_path / "data")
            with SocketClient(socket.create_connection(("127.0.0.1", port))) as client:
                configs = describe(client, BROKER, "1", "advertised.listeners", "listeners").configs
        assert [each.value for each in configs] == [
            "OUTSIDE://example.org:9",
            f"OUTSIDE://127.0.0.1:{port}",
        ]

    def test_bytes_of_a_file_are_latin_1_as_in_kafka(self, tmp_path: Path) -> None:
        properties = tmp_path / "server.properties"
        properties.write_bytes(b"broker.rack=gr\xfc\\u00fcn\r\n")
        with serving("--data-dir", ":memory:", "--properties", str(properties)) as process:
            port, _ = ready(process)
            with SocketClient(socket.create_connection(("127.0.0.1", port))) as client:
                (rack,) = describe(client, BROKER, "1", "broker.rack").configs
        assert rack.value == "gr\u00fc\u00fcn"

    def test_strict(self) -> None:
        arguments = ("--properties", str(SETTINGS / "kafka-2.8.2-server.properties"), "--strict")
        result = run("--data-dir", ":memory:", *arguments)
        assert result.returncode == 2
        text = " ".join(result.stderr.split())
        assert "--strict: 8 settings have no effect on this broker: num.io.threads (" in text
        assert ": one event loop serves all requests)" in text
        with serving("--data-dir", ":memory:", "--strict", "--config", "num.partitions=2") as each:
            ready(each)
