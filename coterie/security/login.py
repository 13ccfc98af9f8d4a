"""The login of one connection as a state machine: SaslHandshake, then tokens (KIP-43, 152, 368).

A login is in one of these states. The table says which requests it takes in each; what happens to
all others is in the last column [security/login-states].

    state            takes                                      anything else
    START            ApiVersions, SaslHandshake                 closes without an answer
    AFTER_VERSIONS   SaslHandshake                              closes without an answer
    AUTHENTICATE     SaslAuthenticate                           ILLEGAL_SASL_STATE, then closes
    TOKENS           bare tokens, after a handshake of v0       is read as a token
    DONE             nothing: the connection has its APIs

ApiVersions leads from START to AFTER_VERSIONS if it is answered without an error: a client asks
once. A handshake leads to AUTHENTICATE or TOKENS, and the last token to DONE. A failure ends the
connection. A connection whose login is limited in time may log in again: that is another `Login`,
which begins in START, takes no ApiVersions, and refuses another user [security/reauthentication].
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from coterie.security.mechanisms import (
    Conversation,
    LoggedIn,
    LoginFailed,
    Mechanism,
    Server,
)


class LoginState(Enum):
    """What a login waits for."""

    START = "ApiVersions or SaslHandshake"
    AFTER_VERSIONS = "SaslHandshake"
    AUTHENTICATE = "SaslAuthenticate"
    TOKENS = "a bare token"
    DONE = "nothing"


TAKES: Mapping[LoginState, frozenset[ApiKey]] = {
    LoginState.START: frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}),
    LoginState.AFTER_VERSIONS: frozenset({ApiKey.SASL_HANDSHAKE}),
    LoginState.AUTHENTICATE: frozenset({ApiKey.SASL_AUTHENTICATE}),
    LoginState.TOKENS: frozenset(),
    LoginState.DONE: frozenset(),
}


class Mechanisms(NamedTuple):
    """The mechanisms of a listener.

    Attributes:
        servers: the mechanisms, in the order of the configuration.
        max_session_ms: connections.max.reauth.ms of each: how long a login lasts, 0 for no limit.
    """

    servers: Mapping[Mechanism, Server]
    max_session_ms: dict[Mechanism, int]


class Session(NamedTuple):
    """A login that has succeeded.

    Attributes:
        who: the user.
        mechanism: of the login.
        lifetime_ms: how long it lasts; 0 for no limit.
        expires_ms: when it ends; None for never.
    """

    who: LoggedIn
    mechanism: Mechanism
    lifetime_ms: int
    expires_ms: int | None


class Verdict(NamedTuple):
    """What the answer to a handshake or a token is.

    Attributes:
        error: NONE, or why the login has failed.
        text: the error for the client, "" without one.
        token: the token of the server.
        session: the session that begins; None if more must follow.
    """

    error: ErrorCode = ErrorCode.NONE
    text: str = ""
    token: bytes = b""
    session: Session | None = None


def answer_of(verdict: Verdict) -> SaslAuthenticateResponse:
    """Return the answer to a token of SaslAuthenticate."""
    session = verdict.session
    return SaslAuthenticateResponse(
        error_code=verdict.error,
        error_message=verdict.text,
        auth_bytes=verdict.token,
        session_lifetime_ms=0 if session is None else session.lifetime_ms,
    )


class Login:
    """The login of one connection.

    Attributes:
        state: what it waits for.
        mechanism: the chosen mechanism; None before the handshake.
    """

    def __init__(self, mechanisms: Mechanisms, before: Session | None = None) -> None:
        """Begin in the state START.

        Args:
            mechanisms: those of the listener.
            before: the session of a connection that logs in again.
        """
        self.state = LoginState.START
        self.mechanism: Mechanism | None = None
        self._mechanisms = mechanisms
        self._before = before
        self._conversation: Conversation | None = None

    def takes(self, api: ApiKey) -> bool:
        """Return whether a request of this API is taken in the present state."""
        return api in TAKES[self.state]

    def versions_answered(self) -> None:
        """Note that ApiVersions was answered without an error."""
        assert self.state is LoginState.START, "ApiVersions is taken in START"
        self.state = LoginState.AFTER_VERSIONS

    def handshake(self, name: str, version: int, random: bytes) -> ErrorCode:
        """Take the name of a mechanism; return NONE, or the error with which the login fails.

        Args:
            name: the name, which is case-sensitive.
            version: of the request: bare tokens follow version 0.
            random: `RANDOM_BYTES` random bytes.
        """
        assert self.takes(ApiKey.SASL_HANDSHAKE), "the caller has looked at the table"
        found = next((each for each in self._mechanisms.servers if each.value == name), None)
        if found is None:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self.mechanism = found
        self._conversation = self._mechanisms.servers[found].begin(random)
        self.state = LoginState.TOKENS if version == 0 else LoginState.AUTHENTICATE
        return ErrorCode.NONE

    @property
    def changes_mechanism(self) -> bool:
        """Whether a connection that logs in again has chosen another mechanism than before."""
        return self._before is not None and self.mechanism is not self._before.mechanism

    def token(self, token: bytes, now_ms: int, wall_ms: int) -> Verdict:
        """Take a token of the client.

        Args:
            token: the token.
            now_ms: epoch milliseconds, by the clock of sessions.
            wall_ms: the same by the clock of those who issue credentials
                [security/times-of-credentials].
        """
        conversation, mechanism = self._conversation, self.mechanism
        assert conversation is not None, "a handshake came before"
        assert mechanism is not None, "it has named the mechanism"
        try:
            answer, who = conversation.step(token, wall_ms)
            if who is None:
                return Verdict(token=answer)
            self._check_same_user(who)
        except LoginFailed as failed:
            moment = "authentication" if self._before is None else "re-authentication"
            text = failed.text or (
                f"Authentication failed during {moment} due to invalid credentials with SASL"
                f" mechanism {mechanism.value}"
            )
            return Verdict(ErrorCode.SASL_AUTHENTICATION_FAILED, text)
        self.state = LoginState.DONE
        session = self._session(who, mechanism, now_ms, wall_ms)
        return Verdict(token=answer, session=session)

    def _check_same_user(self, who: LoggedIn) -> None:
        if self._before is not None and who.name != self._before.who.name:
            raise LoginFailed(
                "Cannot change principals during re-authentication from"
                f" User.{self._before.who.name}: User.{who.name}"
            )

    def _session(self, who: LoggedIn, mechanism: Mechanism, now_ms: int, wall_ms: int) -> Session:
        """Return the session: it ends with the credential or after the time that is set."""
        limit_ms = self._mechanisms.max_session_ms.get(mechanism, 0)
        limits = [] if who.expires_ms is None else [max(who.expires_ms - wall_ms, 0)]
        if limit_ms > 0:
            limits.append(limit_ms)
        if not limits:
            return Session(who, mechanism, 0, None)
        lifetime_ms = min(limits)
        return Session(who, mechanism, lifetime_ms, now_ms + lifetime_ms)
