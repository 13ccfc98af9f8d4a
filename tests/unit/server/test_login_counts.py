"""Handshakes of TLS and logins are counted, with the reason of those that fail [metrics/logins]."""

import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from coterie.protocol.messages.api_versions import ApiVersionsRequest
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest
from coterie.server.metrics.security import login_metrics
from coterie.server.network import limits
from coterie.server.security.logins import Failure
from coterie.server.tls.connection import HANDSHAKE_BYTES
from coterie.server.tls.handshakes import Handshakes
from tests.unit.server.certificates import (
    Files,
    client_context,
    tls_broker,
    tls_client,
    write_certificates,
)
from tests.unit.server.logins import ALICE, LoginClient, StoppedClock, framed, sasl_broker
from tests.unit.server.running import RunningBroker, is_closed

HELLO = ApiVersionsRequest(client_software_name="t", client_software_version="1")
WRONG = b"\0alice\0wrong-secret"
METADATA = MetadataRequest(topics=None)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


def samples(running: RunningBroker) -> dict[tuple[str, ...], float]:
    """Return the counts of logins: `failed_authentication`, then the labels."""
    return {
        (each.name.removeprefix("kafka_server_").removesuffix("_total"), *each.labels.values()): (
            each.value
        )
        for metric in running.call(lambda: list(login_metrics(running.broker)))
        for each in metric.samples
        if each.name.endswith("authentication_total")
    }


def failures(running: RunningBroker, *labels: str) -> dict[str, float]:
    """Return the counts of what has failed with some first labels, by the reason."""
    found = samples(running).items()
    return {at[-1]: count for at, count in found if at[:-1] == labels}


def shake_hands(running: RunningBroker, context: ssl.SSLContext) -> None:
    with suppress(ssl.SSLError, ConnectionError, EOFError), tls_client(running, context) as client:
        client.call(HELLO, 3)


def test_handshakes_of_tls(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    at = "failed_authentication", "SSL", "TLS"
    distrustful = ssl.create_default_context()
    distrustful.load_cert_chain(files.alice)
    with tls_broker(files, ssl_client_auth="required") as running:
        shake_hands(running, client_context(files, files.alice))
        assert samples(running)["successful_authentication", *at[1:]] == 1
        for context in (client_context(files, files.expired), client_context(files), distrustful):
            shake_hands(running, context)
        with running.connect() as stream:
            stream.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert is_closed(stream)
        expected = {"certificate": 2, "alert": 1, "tls": 1}
        running.wait_for(lambda: failures(running, *at) == expected)
        # One that leaves half-way has not failed.
        with running.connect() as stream:
            stream.sendall(b"\x16")
        running.wait_for(lambda: not len(running.broker.connection_quotas))
        # A compiled broker is not patched: the test is skipped, and its connection must be closed.
        monkeypatch.setattr(Handshakes, "_go_on", lambda _: None)
        with running.connect() as stream, suppress(ConnectionError):
            stream.sendall(bytes(HANDSHAKE_BYTES + 1))
            assert is_closed(stream)
        running.wait_for(lambda: failures(running, *at) == {**expected, "limit": 1})


def test_a_certificate_without_a_name(files: Files) -> None:
    rules = "RULE:^x$/y/"
    with tls_broker(
        files, ssl_client_auth="requested", ssl_principal_mapping_rules=rules
    ) as running:
        shake_hands(running, client_context(files, files.alice))
        assert failures(running, "failed_authentication", "SSL", "TLS") == {"principal": 1}
        assert ("successful_authentication", "SSL", "TLS") not in samples(running)


def test_first_logins() -> None:
    with sasl_broker() as running:
        for before in (b"GET / HTTP/1.1\r\n\r\n", framed(METADATA, 9), b"\0\0\0\1\0"):
            with LoginClient(running) as client:
                client.socket.sendall(before)
                assert client.rest() == b""
        with LoginClient(running) as client:
            assert client.handshake("SCRAM-SHA-1").error_code == 33
        with LoginClient(running) as client:
            client.handshake()
            assert client.authenticate(WRONG).error_code == 58
        with LoginClient(running) as client:
            client.handshake()
            assert client.call(METADATA, 9).brokers == []
        broker = running.broker
        running.wait_for(lambda: len(broker.connection_quotas) == 0)
        with LoginClient(running):
            running.wait_for(lambda: len(broker.connection_quotas) == 1)
            late_ms = broker.now_ms() + limits.LOGIN_DEADLINE_MS + 1_000
            running.call(lambda: broker.connection_quotas.sweep(late_ms))
            running.wait_for(lambda: running.close_errors()[-1] == "LoginTimeout")
        first = "failed_authentication", "SASL"
        assert failures(running, *first, "none") == {"request": 3, "mechanism": 1, "timeout": 1}
        assert failures(running, *first, "PLAIN") == {"credentials": 1, "request": 1}


@pytest.mark.parametrize(
    ("mechanism", "token", "reason"),
    [
        ("PLAIN", WRONG, "credentials"),
        ("PLAIN", b"\0bob\0bob-secret", "credentials"),
        ("SCRAM-SHA-256", ALICE, "mechanism"),
        ("SCRAM-SHA-1", None, "mechanism"),
        ("PLAIN", None, "request"),
    ],
)
def test_later_logins(mechanism: str, token: bytes | None, reason: str) -> None:
    limited, clock = {"connections.max.reauth.ms": "1500"}, StoppedClock()
    with sasl_broker(limited, clock) as running, LoginClient(running) as client:
        client.log_in()
        client.log_in()
        at = "SASL", "PLAIN"
        assert samples(running)["successful_reauthentication", *at] == 1
        clock.now_ms += 1_000
        client.send(SaslHandshakeRequest(mechanism=mechanism), 1)
        client.send(METADATA if token is None else SaslAuthenticateRequest(auth_bytes=token), 2)
        client.rest()
        assert failures(running, "failed_reauthentication", *at) == {reason: 1}


def test_every_reason_is_shown_above() -> None:
    text = Path(__file__).read_text()
    assert [each for each in Failure if f'"{each.value}"' not in text] == []
