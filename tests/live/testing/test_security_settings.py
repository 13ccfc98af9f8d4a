"""Settings of the security in `config` of a broker of a test: none of them is without effect."""

import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.errors import KafkaTimeoutError

from coterie.authority import CertificateAuthority
from coterie.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE
from coterie.server.authorization.access import STANDARD_AUTHORIZER
from coterie.server.config.broker_keys import BROKER
from coterie.server.config.listeners import ListenerSettings
from coterie.testing import Broker, Cluster, CoordinatorMoves, Security, WrongUse
from tests.live.testing.test_security import garbage_of_clients, with_confluent, with_kafka_python

__all__ = ["garbage_of_clients"]

PLAIN_USERS = f'{PLAIN_MODULE} required user_b="x";'
# What a broker with TLS and logins takes from `config`, with a value for each.
TAKEN = {
    "ssl.allow.dn.changes": "false",
    "ssl.allow.san.changes": "false",
    "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256",
    "ssl.enabled.protocols": "TLSv1.3",
    "ssl.key.password": "of a key",
    "ssl.keystore.type": "PEM",
    "ssl.principal.mapping.rules": "DEFAULT",
    "ssl.protocol": "TLSv1.3",
    "ssl.truststore.type": "PEM",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.oauthbearer.clock.skew.seconds": "7",
    "sasl.oauthbearer.expected.audience": "kafka",
    "sasl.oauthbearer.expected.issuer": "https://issuer.invalid",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "1000",
    "sasl.oauthbearer.jwks.endpoint.url": "file:/keys.json",
    "sasl.oauthbearer.scope.claim.name": "scp",
    "sasl.oauthbearer.sub.claim.name": "name",
    "sasl.server.callback.handler.class": "org.acme.Handler",
    "sasl.server.max.receive.size": "1000",
}
# The stores of the test, and what is refused because an argument decides; both have tests below.
STORES = {
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
}
REFUSED = {"ssl.client.auth"}


def test_each_setting_is_taken_or_refused() -> None:
    known = {name for name in BROKER if name.startswith(("ssl.", "sasl."))}
    assert known == TAKEN.keys() | STORES | REFUSED


@pytest.mark.parametrize("prefix", ["", "listener.name.sasl_ssl."])
def test_the_listener_has_each_setting(prefix: str) -> None:
    config = {prefix + name: value for name, value in TAKEN.items()}
    with Broker(security="SASL_SSL", users=["alice"], topics={"t": 1}, config=config) as kafka:
        settings = ListenerSettings(kafka.server.config, "SASL_SSL")
        assert {name: settings.text(name) for name in TAKEN} == TAKEN
        consumer = KafkaConsumer(**kafka.client_config("kafka-python"))
        assert consumer.topics() == {"t"}
        consumer.close()


@pytest.mark.parametrize(
    ("security", "config", "text"),
    [
        ("SSL", {"ssl.client.auth": "required"}, r'Security\("SSL", client_auth="required"\)'),
        (
            "SSL",
            {"listener.name.ssl.ssl.client.auth": "requested"},
            r'write security=Security\("SSL", client_auth="requested"\)',
        ),
        ("SASL_SSL", {"ssl.client.auth": "required"}, r'Security\("SASL_SSL", client_auth='),
        (None, {"ssl.client.auth": "required"}, r'Security\("SSL", client_auth="required"\)'),
        ("SSL", {"listener.name.sasl_ssl.ssl.protocol": "TLSv1.2"}, "is SSL: .*listener.name.ssl."),
        ("SSL", {"listener.name.SSL.ssl.protocol": "TLSv1.2"}, "is SSL: .*listener.name.ssl."),
        (None, {"listener.name.ssl.max.connections": "1"}, "is PLAINTEXT"),
        ("SSL", {"listeners": "SSL://127.0.0.1:9093"}, "write host=, port= and security= instead"),
        (None, {"advertised.listeners": "PLAINTEXT://a:1"}, "write host=, port= and security="),
        ("SSL", {"listener.security.protocol.map": "SSL:SSL"}, "write host=, port= and security="),
        (
            "SASL_SSL",
            {"listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN_USERS},
            'jaas.config: write users={"alice": "password"} instead',
        ),
        ("SASL_SSL", {"sasl.jaas.config": "x"}, 'write users={"alice": "password"} instead'),
        (
            "SASL_PLAINTEXT",
            {"sasl.enabled.mechanisms": "PLAIN"},
            r'have no SCRAM-SHA-512: add it, or .*Security\("SASL_PLAINTEXT", mechanism=',
        ),
        ("SASL_PLAINTEXT", {"ssl.protocol": "TLSv1.2"}, 'no TLS: security="SSL" or "SASL_SSL"'),
        (None, {"ssl.keystore.location": "x"}, 'no TLS: security="SSL" or "SASL_SSL"'),
        ("SSL", {"sasl.server.max.receive.size": "1"}, 'no logins: security="SASL_PLAINTEXT" or'),
        (
            "SSL",
            {"listener.name.ssl.oauthbearer.sasl.jaas.config": f"{OAUTHBEARER_MODULE} required;"},
            'no logins: security="SASL_PLAINTEXT" or',
        ),
    ],
)
def test_a_setting_that_would_be_ignored_is_refused(
    security: str | None, config: dict[str, str], text: str
) -> None:
    (name,) = config
    with pytest.raises(WrongUse, match=text) as caught:
        Broker(security=security, config=config)
    assert str(caught.value).startswith(f"config: {name}")
    # It may be a password.
    assert "user_b" not in str(caught.value)


def test_rules_need_the_authorizer() -> None:
    for name in ("", "org.acme.Authorizer"):
        with pytest.raises(WrongUse, match=r"authorizer\.class\.name: acls=\[\.\.\.\] has chosen"):
            Broker(acls=["User:alice ALLOW READ TOPIC t"], config={"authorizer.class.name": name})
    config = {"authorizer.class.name": STANDARD_AUTHORIZER}
    with Broker(config=config) as kafka:
        kafka.add_acls("User:alice ALLOW READ TOPIC t")
        assert kafka.acls == ["User:alice ALLOW READ TOPIC t LITERAL host=*"]


def test_several_brokers_have_the_listeners_of_their_arguments() -> None:
    with pytest.raises(WrongUse, match="config: listeners: write host=, port= and security="):
        Cluster(config={"listeners": "PLAINTEXT://127.0.0.1:9092"})
    with pytest.raises(WrongUse, match="no TLS"):
        Cluster(config={"ssl.protocol": "TLSv1.3"})


@pytest.mark.parametrize("prefix", ["", "listener.name.ssl."])
@pytest.mark.parametrize("is_file", [True, False])
def test_a_key_store_of_the_test(prefix: str, tmp_path: Path, *, is_file: bool) -> None:
    authority = CertificateAuthority("of the test")
    issued = authority.issue("broker", ["127.0.0.1"], days=1)
    (tmp_path / "ca.pem").write_text(authority.certificate)
    (tmp_path / "server.pem").write_text(issued.pem)
    config = {"ssl.keystore.location": str(tmp_path / "server.pem")}
    if not is_file:
        config = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": issued.key,
            "ssl.keystore.certificate.chain": issued.certificate,
        }
    config = {prefix + name: value for name, value in config.items()}
    with Broker(security="SSL", topics={"orders": 1}, config=config) as kafka:
        own = {"ssl_cafile": str(tmp_path / "ca.pem")}
        assert with_kafka_python(kafka, **own) == [b"espresso"]
        with pytest.raises(WrongUse, match="config names the key store of this broker"):
            kafka.use_certificate("expired")


@pytest.mark.parametrize("prefix", ["", "listener.name.ssl."])
@pytest.mark.parametrize("is_file", [True, False])
def test_a_trust_store_of_the_test(prefix: str, tmp_path: Path, *, is_file: bool) -> None:
    authority = CertificateAuthority("of the clients")
    alice = authority.issue("alice", days=1)
    (tmp_path / "ca.pem").write_text(authority.certificate)
    (tmp_path / "alice.pem").write_text(alice.pem)
    config = {"ssl.truststore.location": str(tmp_path / "ca.pem")}
    if not is_file:
        config = {"ssl.truststore.certificates": authority.certificate}
    config = {prefix + name: value for name, value in config.items()}
    with Broker(
        security=Security(client_auth="required"), topics={"orders": 1}, config=config
    ) as kafka:
        own: dict[str, Any] = {"ssl_certfile": str(tmp_path / "alice.pem"), "ssl_keyfile": None}
        assert with_kafka_python(kafka, **own) == [b"espresso"]
        with pytest.raises(KafkaTimeoutError):
            with_kafka_python(kafka, user="alice", bootstrap_timeout_ms=500)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_coordinator_that_has_moved_lets_users_log_in(protocol: str) -> None:
    security = Security(protocol, mechanism="PLAIN")
    with (
        Broker(security=security, users=["alice"], topics={"orders": 1}) as kafka,
        kafka.fault(CoordinatorMoves(), group="billing"),
    ):
        assert with_confluent(kafka) == [b"espresso"]


def test_a_coordinator_that_has_moved_wants_certificates() -> None:
    security = Security("SASL_SSL", client_auth="required")
    with (
        Broker(security=security, users=["alice"], topics={"orders": 1}) as kafka,
        kafka.fault(CoordinatorMoves(), group="billing"),
    ):
        assert with_confluent(kafka) == [b"espresso"]
        address = kafka._interception.elsewhere
        assert address is not None
        config = kafka.client_config("kafka-python", user="alice")
        context = ssl.create_default_context(cafile=config["ssl_cafile"])
        with (
            socket.create_connection(address) as plain,
            context.wrap_socket(plain, server_hostname=address.host) as connection,
            pytest.raises(ssl.SSLError, match="certificate required"),
        ):
            connection.recv(1)
