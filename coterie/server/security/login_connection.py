"""The bytes of a connection until its client has logged in; then its `Connection` gets them.

Nothing of a peer reaches a handler before that: this protocol reads lengths, request headers, the
body of ApiVersions, SaslHandshake and SaslAuthenticate, and bare tokens, one frame at a time
[security/before-login]. After a success the transport talks to the connection itself, so requests
cost the same as without a login.

Invariant: nothing is read behind a failure. `ConnectionQuotas` ends a login that takes too long,
however busy the peer is [security/login-deadline].
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from struct import Struct
from typing import Any, NamedTuple, cast

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.apis import request_class, response_class
from coterie.protocol.errors import DECODE_ERRORS, ErrorCode, MalformedFrame
from coterie.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from coterie.protocol.primitives import skip_tags
from coterie.protocol.refusals import empty_refusal
from coterie.security.login import Login, LoginState, Session, Verdict, answer_of
from coterie.security.mechanisms import RANDOM_BYTES, listed
from coterie.server.loggers import SOCKET_SERVER
from coterie.server.network.channel import ConnectionServices
from coterie.server.network.connection import Connection
from coterie.server.network.session_routes import SessionRoutes
from coterie.server.security.listener_login import ListenerLogin
from coterie.server.security.logins import NO_MECHANISM, Failure
from coterie.server.security.shown import shown

_LENGTH = Struct(">i")
# API key, version, correlation id, length of the client id.
_HEADER = Struct(">hhih")


class _Request(NamedTuple):
    """The header of a request, and where its body begins in its frame."""

    api: ApiKey
    version: int
    correlation_id: int
    body: int


class LoginConnection(asyncio.Protocol):
    """What the transport talks to before the login."""

    def __init__(
        self,
        broker: ConnectionServices,
        login: ListenerLogin,
        connection: Connection,
        inner: asyncio.Protocol,
    ) -> None:
        """Guard a new connection.

        Args:
            broker: the broker.
            login: how clients of the listener log in.
            connection: the connection.
            inner: what its transport would talk to: the connection, or something around it.
        """
        self._broker = broker
        self._listener = login
        self._login = Login(login.mechanisms)
        self._connection = connection
        self._inner = inner
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._buffer = bytearray()
        # The login has failed: nothing more is read.
        self._has_failed = False
        # The end of the delay of a failure.
        self._timer: asyncio.TimerHandle | None = None

    # --- called by the transport ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the connection be admitted."""
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the end on."""
        self._drop_buffer()
        if self._timer is not None:
            self._listener.logins.release(self._timer)
            self._timer = None
        self._inner.connection_lost(exc)

    def eof_received(self) -> bool | None:
        """Close the connection: a client that has not logged in has no request that goes on."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Pass it on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._inner.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Handle the complete frames, one after another, and keep the rest."""
        connection = self._connection
        if self._is_over():
            return
        connection.active = True
        connection.now_ms = self._broker.now_ms()
        self._buffer += data
        if not self._broker.connection_quotas.reserve_buffer(len(data)):
            connection.close("BufferLimit", "unfinished requests exceed their limit")
            return
        try:
            while not self._is_over() and (frame := self._next_frame()) is not None:
                self._take(frame)
        except Exception as error:
            log = self._broker.environment.loggers.named(SOCKET_SERVER)
            log.error("login failed by a mistake", peer=connection.peer, exc_info=error)  # noqa: TRY400
            connection.close_quietly()

    def _is_over(self) -> bool:
        """Return whether bytes are no longer for the login."""
        return self._connection.closed or self._has_failed or self._login.state is LoginState.DONE

    # --- frames -----------------------------------------------------------------------------------

    def _next_frame(self) -> bytes | None:
        """Return the next frame without its length, None if it is not complete."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if not 0 <= length <= self._listener.largest_bytes:
            # As large as this it may be a TLS or HTTP client.
            limit = self._listener.largest_bytes
            reason = f"a frame of {length} bytes before the login; at most {limit}"
            self._fail(None, Failure.REQUEST, reason)
            return None
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        frame = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        self._broker.connection_quotas.reserve_buffer(-end)
        return frame

    def _take(self, frame: bytes) -> None:
        """Handle a frame, by the table of states."""
        login = self._login
        if login.state is LoginState.TOKENS:
            self._take_bare_token(frame)
            return
        try:
            release = self._broker.release
            served = SERVED_VERSIONS if release is None else release.versions
            request = _read_header(frame, served)
            if request is None:
                self._take_unsupported(frame)
                return
            if not login.takes(request.api):
                self._refuse(request)
                return
            body = request_class(request.api).decoder(request.version)(
                frame, request.body, len(frame)
            )
        except DECODE_ERRORS as error:
            self._close("MalformedFrame", f"before the login: {shown(str(error))}")
            return
        if isinstance(body, SaslHandshakeRequest):
            self._take_handshake(request, body)
        elif isinstance(body, SaslAuthenticateRequest):
            self._take_token(request, body)
        else:
            self._answer_versions(request, body)

    def _take_unsupported(self, frame: bytes) -> None:
        """Answer ApiVersions of an unknown version; close on any other unknown request."""
        key, version, correlation_id, _ = _HEADER.unpack_from(frame)
        if key == ApiKey.API_VERSIONS and self._login.takes(ApiKey.API_VERSIONS):
            route = self._broker.routes.load(key << 16 | version & 0xFFFF)
            connection = self._connection
            connection.correlation_id, connection.route = correlation_id, route
            answer = route.handle(self._broker, route.decoder(frame, 0, 0), connection)
            # A fault may delay the answer.
            if answer is not None:
                self._write(route.framer(answer, correlation_id))
        else:
            self._close("IllegalSaslState", f"API {key} version {version} before the login")

    def _answer_versions(self, request: _Request, body: Any) -> None:
        route_key = request.api << 16 | request.version
        routes = self._broker.routes
        route = routes.get(route_key) or routes.load(route_key)
        connection = self._connection
        connection.correlation_id, connection.route = request.correlation_id, route
        answer = route.handle(self._broker, body, connection)
        if answer is None:
            # A fault delays the answer.
            self._login.versions_answered()
            return
        if answer.error_code == ErrorCode.NONE:
            self._login.versions_answered()
        self._write(route.framer(answer, request.correlation_id))

    # --- the login --------------------------------------------------------------------------------

    def _take_handshake(self, request: _Request, body: SaslHandshakeRequest) -> None:
        random = self._listener.random_bytes(RANDOM_BYTES)
        error = self._login.handshake(body.mechanism, request.version, random)
        names = listed(list(self._listener.mechanisms.servers))
        answer = SaslHandshakeResponse(error_code=error, mechanisms=names)
        frame = SaslHandshakeResponse.framer(request.version)(answer, request.correlation_id)
        if error is ErrorCode.NONE:
            self._write(frame)
        else:
            reason = f"unsupported mechanism {shown(body.mechanism)}"
            self._fail(frame, Failure.MECHANISM, reason)

    def _take_token(self, request: _Request, body: SaslAuthenticateRequest) -> None:
        verdict = self._verdict(body.auth_bytes)
        answer = answer_of(verdict)
        frame = SaslAuthenticateResponse.framer(request.version)(answer, request.correlation_id)
        self._judge(verdict, frame, frame)

    def _take_bare_token(self, token: bytes) -> None:
        verdict = self._verdict(token)
        self._judge(verdict, _LENGTH.pack(len(verdict.token)) + verdict.token, None)

    def _verdict(self, token: bytes) -> Verdict:
        wall_ms = self._broker.environment.wall_ms()
        return self._login.token(token, self._connection.now_ms, wall_ms)

    def _judge(self, verdict: Verdict, answer: bytes, refusal: bytes | None) -> None:
        """Send the answer to a token, and let the client in after the last one."""
        if verdict.error is not ErrorCode.NONE:
            self._fail(refusal, Failure.CREDENTIALS, shown(verdict.text))
            return
        self._write(answer)
        if verdict.session is not None:
            self._succeed(verdict.session)

    def _refuse(self, request: _Request) -> None:
        """Refuse a request that the state does not take [security/login-states]."""
        name = f"{request.api.kafka_name} v{request.version}"
        reason = f"{name} where {self._login.state.value} is expected"
        if self._login.state is not LoginState.AUTHENTICATE:
            self._close("IllegalSaslState", reason)
            return
        response = response_class(request.api)
        answer = empty_refusal(response, ErrorCode.ILLEGAL_SASL_STATE)
        frame = response.framer(request.version)(answer, request.correlation_id)
        self._fail(frame, Failure.REQUEST, reason)

    # --- the end of the login ---------------------------------------------------------------------

    def _succeed(self, session: Session) -> None:
        """Let the transport talk to the connection, which gets the bytes behind the login."""
        connection = self._connection
        self._listener.logins.first.succeeded[self._labels] += 1
        self._broker.connection_quotas.logged_in(connection)
        who = session.who
        connection.client = connection.client._replace(
            principal=who.principal, by_token=who.by_token
        )
        if session.expires_ms is not None:
            connection.routes = SessionRoutes(connection.routes, self._listener, session)
        rest = bytes(self._buffer)
        self._drop_buffer()
        self._transport.set_protocol(self._inner)
        if rest:
            self._inner.data_received(rest)

    def _close(self, error: str, reason: str) -> None:
        """Close the connection at once, because of bytes that the login does not take."""
        self._count(Failure.REQUEST)
        self._connection.close(error, reason)

    def _count(self, failure: Failure) -> None:
        self._listener.logins.first.failed[*self._labels, failure] += 1

    def _fail(self, frame: bytes | None, failure: Failure, reason: str) -> None:
        """Close the connection after the delay, with an answer if there is one."""
        self._has_failed = True
        self._count(failure)
        self._drop_buffer()
        # The delay may be longer than the time for a login.
        self._broker.connection_quotas.logged_in(self._connection)
        delay_s = self._listener.delay_s
        if not delay_s:
            self._close_failed(frame, reason)
            return
        end = partial(self._end_delay, frame, reason)
        self._timer = self._listener.logins.hold(self._broker.loop, delay_s, end)
        if self._timer is None:
            self._close_failed(None, reason)
        else:
            self._transport.pause_reading()

    @property
    def _labels(self) -> tuple[str, str]:
        """The listener and the mechanism, for metrics."""
        mechanism = self._login.mechanism
        return self._connection.client.listener, NO_MECHANISM if mechanism is None else mechanism

    def _end_delay(self, frame: bytes | None, reason: str) -> None:
        self._timer = None
        self._close_failed(frame, reason)

    def _close_failed(self, frame: bytes | None, reason: str) -> None:
        if not self._connection.closed:
            if frame is not None:
                self._write(frame)
            self._connection.close("LoginFailed", reason)

    def _write(self, frame: bytes) -> None:
        if not self._connection.closed:
            self._transport.write(frame)

    def _drop_buffer(self) -> None:
        self._broker.connection_quotas.reserve_buffer(-len(self._buffer))
        self._buffer.clear()


def _read_header(frame: bytes, served: Mapping[ApiKey, tuple[int, int]]) -> _Request | None:
    """Read the header of a request; return None if its API or version is not served.

    Raises:
        DECODE_ERRORS: there is no header.
    """
    key, version, correlation_id, id_length = _HEADER.unpack_from(frame)
    try:
        api = ApiKey(key)
    except ValueError:
        return None
    first, last = served.get(api, (0, -1))
    if not first <= version <= last:
        return None
    body = _HEADER.size + max(id_length, 0)
    if id_length < -1 or body > len(frame):
        raise MalformedFrame(f"client_id claims {id_length} bytes")
    # As everywhere a client id is UTF-8.
    frame[_HEADER.size : body].decode()
    if request_class(api).has_flexible_header(version):
        body = skip_tags(frame, body + 1, len(frame), frame[body])
    return _Request(api, version, correlation_id, body)
