"""Metrics of logins and principals [metrics/principals]."""

import asyncio
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from coterie.client.errors import LoginFailed
from coterie.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from coterie.server.authorization.access import MOST_PRINCIPALS, OTHERS
from coterie.server.metrics.endpoint import Snapshot
from coterie.server.metrics.metrics import collect
from coterie.testing import Broker
from tests.live.testing.test_virtual_security import ALICE, PASSWORD, in_virtual_time, logged_in

LISTENER = "SASL_PLAINTEXT"


async def samples_of(kafka: Broker) -> dict[tuple[str, ...], float]:
    """Return the samples, by their name and the values of their labels."""
    metrics = await collect(kafka.server)
    text = generate_latest(Snapshot(metrics)).decode()
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_logins_are_counted_by_listener_and_mechanism() -> None:
    async def story(kafka: Broker, clock: Any) -> None:
        connection = await logged_in(kafka)
        with pytest.raises(LoginFailed):
            await logged_in(kafka, ALICE._replace(jaas={"username": "alice", "password": "no"}))
        with pytest.raises(LoginFailed):
            await logged_in(kafka, ALICE._replace(mechanism="OAUTHBEARER", token_endpoint=""))
        await clock.advance(2)
        # The second login of a connection that wants another mechanism than the listener has.
        again = SaslHandshakeRequest(mechanism="SCRAM-SHA-1024")
        assert await connection.ask(again, 1, SaslHandshakeResponse) is None
        samples = await samples_of(kafka)
        scram = LISTENER, "SCRAM-SHA-256"
        assert samples["kafka_server_successful_authentication_total", *scram] == 1
        assert samples["kafka_server_failed_authentication_total", *scram, "credentials"] == 1
        failed = "kafka_server_failed_authentication_total", LISTENER, "none", "mechanism"
        assert samples[failed] == 1
        assert samples["kafka_server_failed_reauthentication_total", *scram, "mechanism"] == 1

    in_virtual_time(story, connections_max_reauth_ms="3600000")


def test_connections_and_denials_are_counted_by_principal() -> None:
    async def told() -> None:
        broker = Broker(security=LISTENER, users={"alice": PASSWORD}, acls=[], topics={"t": 1})
        async with broker as kafka, kafka.virtual_time():
            first, second = await logged_in(kafka), await logged_in(kafka)
            for connection in (first, second, first):
                request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
                assert await connection.ask(request, 5, MetadataResponse) is not None
            samples = await samples_of(kafka)
            assert samples["coterie_principal_connections", "User:alice"] == 2
            assert samples["coterie_authorizer_denials_total", "User:alice"] == 3
            access = kafka.server.access
            assert access is not None
            for number in range(MOST_PRINCIPALS + 20):
                access._count_denial(f"User:{number}")
            assert len(access.denials) == MOST_PRINCIPALS + 1
            assert (await samples_of(kafka))["coterie_authorizer_denials_total", OTHERS] == 21
            first.close()
            second.close()

    asyncio.run(told())
