"""A broker with a SASL listener, and the frames of logins."""

import socket
from collections.abc import Mapping
from typing import Any, Self

from coterie.address import Address
from coterie.protocol.frames import encode_request
from coterie.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest
from coterie.protocol.messages.security_records import UserScramCredentialRecord
from coterie.security.scram import keys_of, salted_password
from coterie.server.broker import Broker
from coterie.server.config.listeners import Listener, SecurityProtocol
from tests.unit.server.running import RunningBroker, SocketClient

ALICE = b"\0alice\0alice-secret"
_FREE = Address("127.0.0.1", 0)
LISTENERS = (
    Listener(_FREE, "SASL", SecurityProtocol.SASL_PLAINTEXT),
    Listener(_FREE, "PLAINTEXT"),
)
_PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' user_alice="alice-secret" user_bob="bob-secret";'
)
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl.plain.sasl.jaas.config": _PLAIN,
    "connection.failed.authentication.delay.ms": "0",
}


def add_scram(broker: Broker, user: str, password: str) -> None:
    """Give a user a credential for each hash; the broker is not listening yet."""
    for mechanism in (1, 2):
        salted = salted_password(mechanism, password, b"salt", 4096)
        keys = keys_of(mechanism, salted, b"salt", 4096)
        broker.credentials.replay(
            UserScramCredentialRecord(
                name=user,
                mechanism=mechanism,
                salt=keys.salt,
                stored_key=keys.stored_key,
                server_key=keys.server_key,
                iterations=keys.iterations,
            )
        )


class StoppedClock:
    """A clock of a broker that goes on only when a test says so."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


def sasl_broker(
    settings: Mapping[str, str] | None = None,
    clock: StoppedClock | None = None,
    slept_ms: int = 0,
) -> RunningBroker:
    """Return a broker whose first listener has SASL: users alice and bob, and fixed with SCRAM.

    Args:
        settings: more settings.
        clock: what its connections take the time from; None for the real clock.
        slept_ms: how long the machine has been suspended: by this time that clock is behind.
    """

    def prepare(broker: Broker) -> None:
        add_scram(broker, "fixed", "pencil")
        if clock is not None:
            broker.now_ms = clock
            broker.environment.wall_ms = lambda: clock() + slept_ms

    return RunningBroker({**SETTINGS, **(settings or {})}, listeners=LISTENERS, prepare=prepare)


class LoginClient(SocketClient):
    """A client that logs in, as far as a test wants."""

    def __init__(self, broker: RunningBroker | socket.socket) -> None:
        super().__init__(broker.connect() if isinstance(broker, RunningBroker) else broker)

    def __enter__(self) -> Self:
        return self

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        """Send SaslHandshake, and return the response."""
        return self.call(SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, token: bytes = ALICE, version: int = 2) -> SaslAuthenticateResponse:
        """Send SaslAuthenticate, and return the response."""
        answer: SaslAuthenticateResponse = self.call(
            SaslAuthenticateRequest(auth_bytes=token), version
        )
        return answer

    def log_in(self) -> SaslAuthenticateResponse:
        """Log in as alice."""
        assert self.handshake().error_code == 0
        answer = self.authenticate()
        assert answer.error_code == 0, answer.error_message
        return answer

    def rest(self) -> bytes:
        """Return all bytes up to the end of the connection."""
        parts = []
        try:
            while data := self.socket.recv(65536):
                parts.append(data)
        except ConnectionResetError:
            pass
        return b"".join(parts)


def framed(request: Any, version: int, correlation_id: int = 7) -> bytes:
    """Return the frame of a request."""
    return encode_request(request, version, correlation_id, "c")


def frame_of(data: bytes) -> bytes:
    """Return bytes with their length before them."""
    return len(data).to_bytes(4, "big") + data
