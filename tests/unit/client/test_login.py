"""Logins of the client: what it sends, and what it says when a login fails.

Rules: [client/mechanisms].
"""

from collections.abc import Mapping
from typing import Any

import pytest

from coterie.address import Address
from coterie.client.client_properties import security_of
from coterie.client.connection import Connection, Deadline
from coterie.client.errors import LoginFailed
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from coterie.protocol.messages.sasl_handshake import SaslHandshakeResponse
from coterie.security.jaas import PLAIN_MODULE
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.server.running import PATIENCE_S

PROPERTIES = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{PLAIN_MODULE} required username="alice" password="secret";',
}
ACCEPTED = SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"])


def log_in(responses: Mapping[Any, Any], **changed: str) -> list[SaslAuthenticateRequest]:
    """Log in at a broker with these responses; return the tokens that it received."""
    security = security_of({**PROPERTIES, **changed})
    with FakeBroker(responses) as broker:
        address = Address(broker.host, broker.port)
        Connection.open(address, Deadline(PATIENCE_S), security).close()
        assert broker.versions(ApiKey.SASL_HANDSHAKE) == [1]
        return broker.seen(ApiKey.SASL_AUTHENTICATE)


def verdict(error: int = 0, text: str = "") -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error, error_message=text, auth_bytes=b"")


def test_token_follows_the_handshake() -> None:
    sent = log_in({ApiKey.SASL_HANDSHAKE: ACCEPTED, ApiKey.SASL_AUTHENTICATE: verdict()})
    assert [request.auth_bytes for request in sent] == [b"\0alice\0secret"]


def test_unknown_mechanism_names_those_of_the_broker() -> None:
    refused = SaslHandshakeResponse(
        error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["SCRAM-SHA-256", "OAUTHBEARER"]
    )
    with pytest.raises(LoginFailed, match="PLAIN, but: SCRAM-SHA-256, OAUTHBEARER"):
        log_in({ApiKey.SASL_HANDSHAKE: refused})


def test_listener_without_logins() -> None:
    refused = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    with pytest.raises(LoginFailed, match="leave SASL out of"):
        log_in({ApiKey.SASL_HANDSHAKE: refused})


def test_refusal_has_the_text_of_the_broker_and_no_password() -> None:
    answer = verdict(ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed: nobody")
    with pytest.raises(LoginFailed, match="of 'alice': Authentication failed: nobody") as failed:
        log_in({ApiKey.SASL_HANDSHAKE: ACCEPTED, ApiKey.SASL_AUTHENTICATE: answer})
    assert "secret" not in str(failed.value)


def test_broker_that_proves_nothing_is_refused() -> None:
    with pytest.raises(LoginFailed, match="failed in SCRAM-SHA-256: its SCRAM message"):
        log_in(
            {ApiKey.SASL_HANDSHAKE: ACCEPTED, ApiKey.SASL_AUTHENTICATE: verdict()},
            **{"sasl.mechanism": "SCRAM-SHA-256"},
        )
