"""A broker of a test with users: each client library logs in with each mechanism."""

from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka.errors import KafkaTimeoutError

from coterie.testing import Broker, Security, WrongUse
from tests.live.testing.test_security import (
    CLIENTS,
    garbage_of_clients,
    principals,
    with_kafka_python,
)

__all__ = ["garbage_of_clients"]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_clients_log_in(client: Any, mechanism: str) -> None:
    security = Security("SASL_PLAINTEXT", mechanism=mechanism)
    with Broker(security=security, users=["alice", "bob"], topics={"orders": 1}) as kafka:
        assert client(kafka, user="bob") == [b"espresso"]


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_log_in_over_tls(client: Any) -> None:
    with Broker(security="SASL_SSL", users=["alice"], topics={"orders": 1}) as kafka:
        assert client(kafka) == [b"espresso"]


def test_the_user_is_the_principal() -> None:
    users = {"alice": "a\"b\\c; // d'", "bob": "x"}
    for mechanism in MECHANISMS:
        security = Security("SASL_PLAINTEXT", mechanism=mechanism)
        with Broker(security=security, users=users) as kafka:
            consumer = KafkaConsumer(**kafka.client_config("kafka-python", user="alice"))
            assert consumer.topics() == set()
            assert principals(kafka) == {"User:alice"}
            consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_whose_credentials_are_revoked(mechanism: str) -> None:
    security = Security("SASL_PLAINTEXT", mechanism=mechanism)
    with Broker(security=security, users=["alice", "bob"], topics={"orders": 1}) as kafka:
        config = kafka.client_config("kafka-python", user="alice")
        before = KafkaConsumer(**config)
        assert before.topics() == {"orders"}
        kafka.revoke("alice")
        # What is connected stays so.
        assert before.topics() == {"orders"}
        before.close()
        with pytest.raises(KafkaTimeoutError):
            KafkaConsumer(**config, bootstrap_timeout_ms=1_000)
        kafka.restart()
        with pytest.raises(KafkaTimeoutError):
            KafkaConsumer(**config, bootstrap_timeout_ms=1_000)
        assert with_kafka_python(kafka, user="bob") == [b"espresso"]


def test_librdkafka_shows_the_text_of_a_failed_login() -> None:
    errors: list[str] = []
    with Broker(security=Security("SASL_PLAINTEXT", mechanism="PLAIN"), users=["alice"]) as kafka:
        config = kafka.client_config("confluent-kafka")
        config |= {"sasl.password": "wrong", "error_cb": lambda error: errors.append(error.str())}
        admin = AdminClient(config)
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=1)
        admin.poll(0.1)
    assert any("Authentication failed: Invalid username or password" in text for text in errors)


def test_passwords_are_those_of_one_broker() -> None:
    configs = []
    for _ in range(2):
        with Broker(security="SASL_PLAINTEXT", users=["alice"]) as kafka:
            configs.append(kafka.client_config("kafka-python")["sasl_plain_password"])
    assert configs[0] != configs[1]


def test_wrong_uses_are_explained() -> None:
    with pytest.raises(WrongUse, match="SASL_PLAINTEXT"):
        Broker(users=["alice"])
    with pytest.raises(WrongUse, match="'GSSAPI' is none of: PLAIN, SCRAM"):
        Broker(security=Security("SASL_PLAINTEXT", mechanism="GSSAPI"))
    with pytest.raises(WrongUse, match="'TLS' is none of: SSL, SASL_PLAINTEXT, SASL_SSL"):
        Broker(security="TLS")
    with pytest.raises(WrongUse, match="a user has a name"):
        Broker(security="SASL_SSL", users=[""])
    with Broker(security="SASL_PLAINTEXT", users=["alice"]) as kafka:
        with pytest.raises(WrongUse, match="'eve' is none of: alice"):
            kafka.client_config("kafka-python", user="eve")
        with pytest.raises(WrongUse, match="'eve' is no user"):
            kafka.revoke("eve")
