"""The client libraries with each mechanism and protocol: what works, and how they show errors.

Delegation tokens are not here: these libraries cannot say that a user of SCRAM is a token
(`tokenauth=true`). Kafka's own client and franz-go can; `make interop` runs them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaError, UnknownTopicOrPartitionError
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.live.deadlines import eventually
from tests.live.libraries import BY_NAME, Library, Message, Reading, Sending
from tests.live.libraries.kafka_python import kafka
from tests.live.secured.broker import SecuredBroker
from tests.live.secured.client_settings import client_settings
from tests.live.secured.setup import (
    CERTIFICATES,
    FAILED_LOGINS,
    MECHANISMS,
    WAYS,
    WRONG_HOST_WAYS,
    WRONG_PASSWORD,
    Setup,
    Way,
)

# One worker prepares what its tests share.
pytestmark = pytest.mark.xdist_group("secured clients")

TOPIC = "orders"
# What each library says if no connection comes about.
UNCONNECTED = {
    "kafka-python": kafka.errors.KafkaTimeoutError,
    "aiokafka": KafkaConnectionError,
    "confluent": KafkaException,
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    broker.start()
    broker.setup.prepare()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(20)
    yield broker.setup
    broker.stop()


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_produces_consumes_and_commits(
    secured: Setup, library: Library, name: str, way: Way
) -> None:
    address = secured.bootstrap(way.listener)
    security = client_settings(library, secured, way)
    value = f"{library.name} {way}".encode()
    (offset,) = library.produce(address, TOPIC, [Message(value)], Sending(security=security))
    assert offset is not None
    reader = library.reader(address, Reading(name, TOPIC, security=security))
    try:
        records = reader.read(offset + 1)
        assert records[-1].value == value
        reader.commit(0, offset + 1)
        assert reader.committed(0) == (offset + 1, "")
    finally:
        reader.close()


def check_unconnected(
    secured: Setup, library: Library, way: Way, password: str | None = None
) -> None:
    """Check that a client cannot be connected, and says so in its own way."""
    security = client_settings(library, secured, way, password=password)
    address = secured.bootstrap(way.listener)
    error: type[Exception] = UNCONNECTED[library.name]
    if library.name == "aiokafka" and way.mechanism == "OAUTHBEARER":
        # It begins although no login succeeds, and then finds no topic.
        error = UnknownTopicOrPartitionError
    with pytest.raises(error):
        ask(library, address, security)


def ask(library: Library, address: str, security: Mapping[str, Any]) -> None:
    """Send a request."""
    if library.name == "confluent":
        # A producer would go on trying.
        AdminClient({"bootstrap.servers": address, **security}).list_topics(timeout=1)
    else:
        library.produce(address, TOPIC, [Message(b"no")], Sending(security=security))


def errors_of_librdkafka(secured: Setup, way: Way, password: str | None = None) -> list[str]:
    """Return the errors that librdkafka reports beside its calls."""
    errors: list[tuple[int, str]] = []
    settings = {
        "bootstrap.servers": secured.bootstrap(way.listener),
        **client_settings(BY_NAME["confluent"], secured, way, password=password),
        "error_cb": lambda error: errors.append((error.code(), error.str())),
    }
    producer = Producer(settings)

    def reported() -> bool:
        producer.poll(0.1)
        return bool(errors)

    eventually(reported, "an error of librdkafka")
    return [text for _, text in errors]


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_password(secured: Setup, library: Library, mechanism: str, listener: str) -> None:
    check_unconnected(secured, library, Way(listener, mechanism), WRONG_PASSWORD)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_shows_why_a_login_failed(secured: Setup, mechanism: str) -> None:
    errors = errors_of_librdkafka(secured, Way("SASL_SSL", mechanism), WRONG_PASSWORD)
    assert FAILED_LOGINS[mechanism] in errors[0]


@pytest.mark.parametrize("way", WRONG_HOST_WAYS, ids=str)
def test_certificate_of_another_host(secured: Setup, library: Library, way: Way) -> None:
    check_unconnected(secured, library, way)


@pytest.mark.parametrize("way", WRONG_HOST_WAYS, ids=str)
def test_librdkafka_shows_that_the_host_is_another_one(secured: Setup, way: Way) -> None:
    assert "certificate verify failed" in errors_of_librdkafka(secured, way)[0]


# --- rights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [CERTIFICATES, Way("SASL_SSL", "SCRAM-SHA-512")], ids=str)
def test_producing_without_the_right(secured: Setup, library: Library, way: Way) -> None:
    sending = Sending(security=client_settings(library, secured, way, "bob"))
    with pytest.raises((kafka.errors.KafkaError, KafkaError, KafkaException)) as refused:
        library.produce(secured.bootstrap(way.listener), TOPIC, [Message(b"no")], sending)
    assert refusal(refused.value) == ConfluentError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("way", [CERTIFICATES, Way("SASL_SSL", "SCRAM-SHA-512")], ids=str)
def test_reading_in_a_group_without_the_right(
    secured: Setup, library: Library, name: str, way: Way
) -> None:
    security = client_settings(library, secured, way, "bob")
    reading = Reading(name, TOPIC, security=security)
    with pytest.raises((kafka.errors.KafkaError, KafkaError, KafkaException)) as refused:
        read_one(library, secured.bootstrap(way.listener), reading)
    assert refusal(refused.value) == ConfluentError.GROUP_AUTHORIZATION_FAILED


def read_one(library: Library, address: str, reading: Reading) -> None:
    """Read a record in a group."""
    reader = library.reader(address, reading)
    try:
        reader.read(1)
    finally:
        reader.close()


def refusal(error: Any) -> int:
    """Return Kafka's code of an error of a library."""
    return int(error.args[0].code() if isinstance(error, KafkaException) else error.errno)
