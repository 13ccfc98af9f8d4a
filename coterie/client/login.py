"""A login with SASL: the requests and what their responses mean, without I/O (KIP-43, KIP-152).

`requests` is a generator, so that blocking connections and those of an event loop log in the same
way [client/mechanisms].
"""

from collections.abc import Generator
from typing import Any, NamedTuple

from coterie.client.errors import LoginFailed, error_name
from coterie.client.mechanisms import MECHANISMS, Credentials, MechanismFailed
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from coterie.protocol.wire import Message

# The first version of SaslHandshake that SaslAuthenticate follows.
_HANDSHAKE_VERSION = 1
# The last version whose header and body have no tagged fields. It lacks the lifetime of the session
# only in version 0, and the tools of this package are done long before a session ends.
_AUTHENTICATE_VERSION = 1

_WRONG_LISTENER = "Name a listener with SASL, or leave SASL out of security.protocol."
_WRONG_SECRET = "Check user and password in sasl.jaas.config."  # noqa: S105 - a text for users


class LoginRequest(NamedTuple):
    """A request of a login.

    Attributes:
        message, version: the request.
        response: the class of its response.
    """

    message: Message
    version: int
    response: type[Message]


def requests(credentials: Credentials, peer: str) -> Generator[LoginRequest, Any, None]:
    """Yield the requests of a login, and receive their responses.

    Args:
        credentials: what to log in with.
        peer: how messages call the broker.

    Raises:
        LoginFailed: the broker refuses the login, or does not prove what it must.
    """
    name = credentials.mechanism
    answer: SaslHandshakeResponse = yield LoginRequest(
        SaslHandshakeRequest(mechanism=name), _HANDSHAKE_VERSION, SaslHandshakeResponse
    )
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        served = ", ".join(answer.mechanisms) or "none"
        raise LoginFailed(
            f"{peer} does not have the SASL mechanism {name}, but: {served}.",
            "Set sasl.mechanism to one of these.",
        )
    if answer.error_code:
        raise LoginFailed(
            f"{peer} refuses a login: {error_name(answer.error_code)}.", _WRONG_LISTENER
        )
    tokens = MECHANISMS[name](credentials)
    try:
        token = next(tokens)
        while True:
            verdict: SaslAuthenticateResponse = yield LoginRequest(
                SaslAuthenticateRequest(auth_bytes=token),
                _AUTHENTICATE_VERSION,
                SaslAuthenticateResponse,
            )
            if verdict.error_code:
                raise LoginFailed(
                    f"{peer} refuses the login of {credentials.user!r}:"
                    f" {verdict.error_message or error_name(verdict.error_code)}.",
                    _WRONG_SECRET,
                )
            token = tokens.send(bytes(verdict.auth_bytes))
    except StopIteration:
        return
    except (MechanismFailed, UnicodeDecodeError) as error:
        raise LoginFailed(f"{peer} failed in {name}: {error}.") from error
