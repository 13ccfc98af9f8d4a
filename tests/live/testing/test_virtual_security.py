"""Logins in virtual time: delays, sessions and tokens of hours end in milliseconds."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from coterie.client.errors import LoginFailed
from coterie.client.event_loop import open_streams
from coterie.client.security import Security
from coterie.protocol.errors import ErrorCode
from coterie.protocol.frames import decode_response, encode_request
from coterie.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from coterie.protocol.messages.metadata import MetadataRequest, MetadataResponse
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from coterie.protocol.wire import Message
from coterie.testing import Broker
from coterie.testing import Security as BrokerSecurity
from coterie.testing.virtual_time import VirtualClock
from tests.conformance.brokers import token_login

M = TypeVar("M", bound=Message)

HOUR_S = 3600
DAY_S = 24 * HOUR_S
# Several sessions of a member. An hour of encrypted heartbeats takes 10 s in the loop's debug mode.
SESSIONS_S = 310
PASSWORD = "secret"
ALICE = Security(None, "SCRAM-SHA-256", {"username": "alice", "password": PASSWORD})


class Connection:
    """A connection that has logged in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, request: Message, version: int, response: type[M]) -> M | None:
        """Return the response; None if the broker closes the connection instead."""
        self._writer.write(encode_request(request, version, 1, "c"))
        try:
            length = int.from_bytes(await self._reader.readexactly(4), "big")
            frame = await self._reader.readexactly(length)
        except asyncio.IncompleteReadError:
            return None
        return decode_response(response, frame, version)[1]

    async def is_served(self) -> bool:
        """Return whether a request is answered."""
        return await self.ask(MetadataRequest(topics=[]), 4, MetadataResponse) is not None

    def close(self) -> None:
        """Close it."""
        self._writer.close()


def in_virtual_time(
    story: Callable[[Broker, VirtualClock], Coroutine[Any, Any, None]], **config: str
) -> None:
    """Run a story with a broker that has the user alice; hours take less than some seconds."""
    settings = {name.replace("_", "."): value for name, value in config.items()}

    async def told() -> None:
        broker = Broker(security="SASL_PLAINTEXT", users={"alice": PASSWORD}, config=settings)
        async with broker as kafka, kafka.virtual_time() as clock:
            await story(kafka, clock)

    began_s = time.process_time()
    asyncio.run(told())
    assert time.process_time() - began_s < 30


async def logged_in(kafka: Broker, security: Security = ALICE) -> Connection:
    return Connection(*await open_streams(kafka.address, security))


def test_a_failed_login_is_answered_after_its_delay() -> None:
    async def story(kafka: Broker, clock: VirtualClock) -> None:
        wrong = ALICE._replace(jaas={"username": "alice", "password": "wrong"})
        before_s = clock.elapsed_s
        with pytest.raises(LoginFailed, match="invalid credentials"):
            await logged_in(kafka, wrong)
        assert 300 <= clock.elapsed_s - before_s < 301

    in_virtual_time(story, connection_failed_authentication_delay_ms="300000")


def test_a_login_ends_after_an_hour_at_the_next_request() -> None:
    async def story(kafka: Broker, clock: VirtualClock) -> None:
        connection = await logged_in(kafka)
        await clock.advance(HOUR_S - 60)
        assert await connection.is_served()
        await clock.advance(120)
        assert not await connection.is_served()
        # A handshake begins a new login, however long ago the first one has ended.
        later = await logged_in(kafka)
        await clock.advance(DAY_S)
        handshake = SaslHandshakeRequest(mechanism="SCRAM-SHA-256")
        answer = await later.ask(handshake, 1, SaslHandshakeResponse)
        assert answer is not None
        assert answer.error_code == ErrorCode.NONE
        later.close()

    in_virtual_time(
        story, connections_max_reauth_ms=str(HOUR_S * 1000), connections_max_idle_ms="864000000"
    )


def test_a_client_of_a_library_goes_on_when_its_login_has_ended() -> None:
    async def story(kafka: Broker, clock: VirtualClock) -> None:
        kafka.topic("t")
        producer = AIOKafkaProducer(**kafka.client_config("aiokafka"))
        await producer.start()
        try:
            for number in range(5):
                await producer.send_and_wait("t", str(number).encode())
                await clock.advance(HOUR_S * 0.7)
        finally:
            await producer.stop()
        assert [each.value for each in kafka.records("t")] == [b"0", b"1", b"2", b"3", b"4"]

    in_virtual_time(story, connections_max_reauth_ms=str(HOUR_S * 1000))


def test_a_token_of_a_day_logs_in_for_a_day() -> None:
    async def story(kafka: Broker, clock: VirtualClock) -> None:
        connection = await logged_in(kafka)
        request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=DAY_S * 1000)
        made = await connection.ask(request, 2, CreateDelegationTokenResponse)
        connection.close()
        assert made is not None
        assert made.expiry_timestamp_ms - made.issue_timestamp_ms == DAY_S * 1000
        token = token_login(made.token_id, bytes(made.hmac))
        await clock.advance(DAY_S - 60)
        by_token = await logged_in(kafka, token)
        assert await by_token.is_served()
        await clock.advance(120)
        # The session ends with the token, and nobody logs in with it any more.
        assert not await by_token.is_served()
        with pytest.raises(LoginFailed, match="invalid credentials"):
            await logged_in(kafka, token)

    in_virtual_time(story, delegation_token_secret_key="secret of a test")


async def consumed(kafka: Broker, clock: VirtualClock, **user: Any) -> tuple[list[bytes], float]:
    """Return what a member of a group reads, and how long that takes it in virtual time."""
    settings = {**kafka.client_config("aiokafka", **user), "client_id": "c"}
    began_s = clock.elapsed_s
    async with AIOKafkaProducer(**settings) as producer:
        for number in range(3):
            await producer.send_and_wait("orders", b"%d" % number)
    consumer = AIOKafkaConsumer("orders", group_id="g", auto_offset_reset="earliest", **settings)
    async with consumer:
        values = [(await consumer.getone()).value for _ in range(3)]
        await clock.advance(SESSIONS_S)
        assert len(consumer.assignment()) == 1
    return values, clock.elapsed_s - began_s


@pytest.mark.parametrize("security", ["SSL", "SASL_SSL"])
def test_tls_in_virtual_time(security: str) -> None:
    async def story() -> tuple[list[bytes], float]:
        users = ["alice"] if security == "SASL_SSL" else []
        broker = Broker(security=security, users=users, topics={"orders": 1})
        async with broker as kafka, kafka.virtual_time() as clock:
            found = await consumed(kafka, clock, user="alice")
            # The bytes are encrypted.
            assert not any(b"orders" in each.data for each in clock.trace)
            return found

    began_s = time.process_time()
    values, took_s = asyncio.run(story())
    assert values == [b"0", b"1", b"2"]
    assert took_s > SESSIONS_S
    # The keys are others, and the times are the same.
    assert asyncio.run(story()) == (values, took_s)
    assert time.process_time() - began_s < 30


async def cannot_start(producer: AIOKafkaProducer) -> None:
    with pytest.raises(KafkaError):
        await producer.start()
    await producer.stop()


@pytest.mark.parametrize("certificate", ["expired", "untrusted"])
def test_certificates_in_virtual_time(certificate: str) -> None:
    async def story() -> None:
        broker = Broker(security=BrokerSecurity(client_auth="required"), topics={"orders": 1})
        async with broker as kafka, kafka.virtual_time() as clock:
            refused = kafka.client_config("aiokafka", user="alice", certificate=certificate)
            await cannot_start(AIOKafkaProducer(**refused, request_timeout_ms=2_000))
            kafka.use_certificate("wrong-host")
            await cannot_start(AIOKafkaProducer(**kafka.client_config("aiokafka", user="alice")))
            kafka.use_certificate("valid")
            assert (await consumed(kafka, clock, user="alice"))[0] == [b"0", b"1", b"2"]

    asyncio.run(story())


def test_a_handshake_that_stops_ends_in_virtual_time() -> None:
    async def story() -> None:
        async with Broker(security="SSL") as kafka, kafka.virtual_time() as clock:
            reader, writer = await asyncio.open_connection(*kafka.address)
            writer.write(b"\x16")
            began_s = clock.elapsed_s
            assert await reader.read() == b""
            assert 10 <= clock.elapsed_s - began_s < 12
            writer.close()

    asyncio.run(story())
