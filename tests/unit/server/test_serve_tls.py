"""`coterie serve` with TLS: properties, --secure, SIGHUP, and what ends the start."""

import json
import os
import signal
import socket
import ssl
import stat
from pathlib import Path

import pytest

from coterie.address import Address
from tests.unit.server.certificates import Files, authority, client_context, write_certificates
from tests.unit.server.process import READY, ready, run, serving
from tests.unit.server.running import PATIENCE_S, SocketClient
from tests.unit.server.test_tls import HELLO

_MEMORY = ("--data-dir", ":memory:", "--log-format", "json")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return write_certificates(tmp_path)


def talk(port: int, context: ssl.SSLContext) -> bytes | None:
    """Send a request over TLS; return the certificate of the broker."""
    stream = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    with SocketClient(context.wrap_socket(stream, server_hostname="localhost")) as client:
        assert client.call(HELLO, 3).error_code == 0
        assert isinstance(client.socket, ssl.SSLSocket)
        return client.socket.getpeercert(binary_form=True)


def test_properties_of_kafka_start_listeners(files: Files, tmp_path: Path) -> None:
    """[settings/listeners]"""
    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\n"
        "listeners=INTERNAL://localhost:0,OUTSIDE://localhost:0,CONTROLLER://localhost:0\n"
        "advertised.listeners=INTERNAL://localhost:9092,OUTSIDE://localhost:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "inter.broker.listener.name=INTERNAL\n"
        "listener.security.protocol.map=INTERNAL:PLAINTEXT,OUTSIDE:SSL,CONTROLLER:PLAINTEXT\n"
        f"listener.name.outside.ssl.keystore.location={files.server}\n"
    )
    with serving("--properties", str(properties), *_MEMORY, port=None) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        plain, tls = (
            Address.parse(each.partition("://")[2])
            for each in line.partition("ready on ")[2].partition(" (")[0].split(", ")
        )
        assert talk(tls.port, client_context(files)) is not None
        with SocketClient(socket.create_connection(plain, PATIENCE_S)) as client:
            assert client.call(HELLO, 3).error_code == 0


def test_a_signal_reads_certificates_again(files: Files) -> None:
    """[security/reload]"""
    settings = (
        "--config=listeners=SSL://127.0.0.1:0",
        f"--config=ssl.keystore.location={files.server}",
    )
    with serving(*_MEMORY, *settings, port=None) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        matched = READY.fullmatch(process.stdout.readline())
        assert matched is not None
        port = int(matched[2])
        before = talk(port, client_context(files))
        Path(files.server).write_text(
            authority().issue("localhost", ["localhost", "127.0.0.1"]).pem
        )
        process.send_signal(signal.SIGHUP)
        for text in process.stderr:
            if json.loads(text)["event"] == "certificates reloaded":
                break
        assert talk(port, client_context(files)) != before


class TestSecure:
    """`coterie serve --secure DIR`"""

    def test_it_makes_what_clients_need(self, tmp_path: Path) -> None:
        directory = tmp_path / "made"
        for _ in range(2):
            with serving("--secure", str(directory), *_MEMORY) as process:
                port, _ = ready(process)
                context = ssl.create_default_context(cafile=str(directory / "ca.pem"))
                context.load_cert_chain(str(directory / "client.pem"))
                talk(port, context)
                process.send_signal(signal.SIGTERM)
                assert process.stdout is not None
                printed = process.stdout.read()
            for library in ("Java", "kafka-python", "aiokafka", "confluent-kafka"):
                assert f"\n{library}" in printed
            modes = {stat.S_IMODE(os.stat(each).st_mode) for each in directory.iterdir()}
            assert modes == {0o600}

    def test_who_has_no_certificate_is_refused(self, tmp_path: Path) -> None:
        with serving("--secure", str(tmp_path / "made"), *_MEMORY) as process:
            port, _ = ready(process)
            context = ssl.create_default_context(cafile=str(tmp_path / "made" / "ca.pem"))
            with pytest.raises((ssl.SSLError, ConnectionError)):
                talk(port, context)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--config=listeners=SSL://localhost:0",), 1, "ssl.keystore.location is missing"),
        (
            ("--config=listeners=SSL://localhost:0", "--config=ssl.keystore.location=/nowhere"),
            1,
            "/nowhere cannot be read: No such file or directory. Name a file.",
        ),
        (
            (
                "--config=listeners=SSL://localhost:0",
                "--config=ssl.keystore.location={server}",
                "--config=ssl.principal.mapping.rules=default",
            ),
            1,
            "'default' is not DEFAULT or RULE",
        ),
        (("--config=listeners=SSL://0.0.0.0:0",), 2, "Set ssl.client.auth=required."),
        (("--secure", "{broken}"), 2, "ca.pem and ca-key.pem are no certificate with its key"),
        (("--secure", "x", "--properties", "{server}"), 2, "give one of them"),
    ],
)
def test_what_is_wrong_ends_the_start_in_one_line(
    files: Files, tmp_path: Path, arguments: tuple[str, ...], code: int, text: str
) -> None:
    """[security/tls-settings]"""
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("ca.pem", "ca-key.pem"):
        (broken / name).write_text("broken")
    paths = {"server": files.server, "broken": broken}
    result = run("--data-dir", ":memory:", *(each.format(**paths) for each in arguments))
    assert result.returncode == code
    assert text in result.stderr
    assert "Traceback" not in result.stderr
