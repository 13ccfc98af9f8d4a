"""The APIs of a connection whose login is limited in time, and its next login (KIP-368).

Such a connection has a table of its own, so no other pays for a look at the clock. When the time is
over, the next request closes the connection without an answer; SaslHandshake begins a new login
even then [security/reauthentication].
"""

from functools import partial
from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.api_versions import ApiVersionsResponse
from coterie.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from coterie.protocol.refusals import refusal
from coterie.security.login import Login, Session, answer_of
from coterie.security.mechanisms import RANDOM_BYTES, listed
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.route import Handler, Route
from coterie.server.network.routes import Routes
from coterie.server.security.listener_login import ListenerLogin
from coterie.server.security.logins import Failure
from coterie.server.security.shown import shown
from coterie.server.services import Services

# As in Kafka a connection does not begin to log in again so soon after it has done so before.
_SOONEST_MS = 1_000


class SessionRoutes(Routes):
    """The table of one connection, over that of the broker."""

    def __init__(self, below: Routes, listener: ListenerLogin, session: Session) -> None:
        """Guard the routes of a table.

        Args:
            below: the table of the broker.
            listener: how clients of the listener log in.
            session: what the login has begun.
        """
        super().__init__()
        self._below = below
        self._listener = listener
        self._session = session
        # The next login, from its handshake on, and when the last of these began.
        self._login: Login | None = None
        self._began_ms = -_SOONEST_MS
        # A route of this table, with that of the table below of which it was made.
        self._made: dict[int, tuple[Route, Route]] = {}

    def load(self, route_key: int) -> Route:
        """Return a route. The dictionary itself stays empty, so each request comes here."""
        below = self._below.get(route_key)
        if below is None:
            below = self._below.load(route_key)
        made = self._made.get(route_key)
        if made is None or made[0] is not below:
            made = self._made[route_key] = below, below.with_handler(self._guarded(below))
        return made[1]

    def over(self, routes: Routes) -> Routes:
        """See `Routes.over`: this table stays, over another one."""
        self._below = routes
        return self

    def _guarded(self, below: Route) -> Handler:
        if below.api is ApiKey.SASL_HANDSHAKE:
            return self._handshake
        if below.api is ApiKey.SASL_AUTHENTICATE:
            return partial(self._authenticate, below)
        return partial(self._serve, below)

    def _serve(self, below: Route, broker: Services, request: Any, connection: Exchange) -> Any:
        """Serve a request while the session lasts."""
        if self._login is not None:
            if self._is_abandoned(connection):
                return None
            error = ErrorCode.ILLEGAL_SASL_STATE
            # Without the annotation the compiled form would take the first class for that of both.
            answer: Any
            if below.api is ApiKey.API_VERSIONS:
                # The body of an unknown version is not decoded.
                answer = ApiVersionsResponse(error_code=error, api_keys=[])
            else:
                answer = refusal(request, error, connection.version)
            reason = f"{below.api.kafka_name} in a login"
            return self._fail(broker, connection, answer, Failure.REQUEST, reason)
        expires_ms = self._session.expires_ms
        if expires_ms is not None and connection.now_ms >= expires_ms:
            connection.close("SessionExpired", "the login was limited in time")
            return None
        return below.handle(broker, request, connection)

    def _is_abandoned(self, connection: Exchange) -> bool:
        """Close the connection if its client has chosen another mechanism than before."""
        login = self._login
        if login is None or not login.changes_mechanism:
            return False
        self._count(connection, Failure.MECHANISM)
        connection.close("LoginFailed", "another mechanism than before")
        return True

    def _handshake(
        self, broker: Services, request: SaslHandshakeRequest, connection: Exchange
    ) -> SaslHandshakeResponse | None:
        refused = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
        if self._login is not None:
            if self._is_abandoned(connection):
                return None
            reason = "SaslHandshake in a login"
            self._fail(broker, connection, refused, Failure.REQUEST, reason)
            return None
        if connection.now_ms - self._began_ms < _SOONEST_MS:
            return refused
        self._began_ms = connection.now_ms
        login = Login(self._listener.mechanisms, self._session)
        random = self._listener.random_bytes(RANDOM_BYTES)
        error = login.handshake(request.mechanism, connection.version, random)
        if error is not ErrorCode.NONE:
            # Not even an answer, unlike before the first login: Kafka has none here.
            reason = f"unsupported mechanism {shown(request.mechanism)}"
            self._count(connection, Failure.MECHANISM)
            connection.close("LoginFailed", reason)
            return None
        self._login = login
        names = listed(list(self._listener.mechanisms.servers))
        return SaslHandshakeResponse(error_code=error, mechanisms=names)

    def _authenticate(
        self,
        below: Route,
        broker: Services,
        request: SaslAuthenticateRequest,
        connection: Exchange,
    ) -> Any:
        login = self._login
        if login is None:
            return self._serve(below, broker, request, connection)
        if self._is_abandoned(connection):
            return None
        wall_ms = broker.environment.wall_ms()
        verdict = login.token(request.auth_bytes, connection.now_ms, wall_ms)
        session, answer = verdict.session, answer_of(verdict)
        if verdict.error is not ErrorCode.NONE:
            reason = shown(verdict.text)
            return self._fail(broker, connection, answer, Failure.CREDENTIALS, reason)
        if session is not None:
            counts = self._listener.logins.again.succeeded
            counts[connection.client.listener, session.mechanism] += 1
            self._session, self._login = session, None
        return answer

    def _count(self, connection: Exchange, failure: Failure) -> None:
        counts = self._listener.logins.again.failed
        counts[connection.client.listener, self._session.mechanism, failure] += 1

    def _fail(
        self, broker: Services, connection: Exchange, answer: Any, failure: Failure, reason: str
    ) -> None:
        """Send an answer after the delay of failures, and close [security/login-delay]."""
        self._count(connection, failure)
        response = DelayedResponse(connection)
        # Not the framer of the route: that may expect an encoded array.
        frame = type(answer).framer(connection.version)(answer, connection.correlation_id)

        def end() -> None:
            if not connection.closed:
                response.send_frame(frame)
                connection.close("LoginFailed", reason)

        listener = self._listener
        if listener.logins.hold(broker.loop, listener.delay_s, end) is None:
            connection.close("LoginFailed", reason)
        else:
            connection.delay_and_mute(response)
