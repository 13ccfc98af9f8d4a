"""Routes that check what the client may do; only used while there is an authorizer.

A check decides before the handler. If it takes a part out of the request, the route of this one
request completes the response, whenever it is sent: at once, later, or in steps
[security/refusals].

Invariant: an API without a declared need, or one for which a login is enough, has no route.
"""

from collections.abc import Callable, Generator
from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.server.authorization.access import Access
from coterie.server.authorization.checks import check_of
from coterie.server.authorization.outcome import Check, Handled, Refused
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.route import Handler, Route
from coterie.server.network.sliced_response import answer_at_once, answer_in_slices
from coterie.server.services import Services


def authorized_route(access: Access, route: Route) -> Route:
    """Return the same route, which asks an authorizer first."""
    check = check_of(route.api, route.version)
    if check is None:
        return route
    return route.with_handler(_Checked(access, route.api, check, route.handle).handle)


class _Checked:
    """One API and version with an authorizer."""

    def __init__(self, access: Access, api: ApiKey, check: Check, handle: Handler) -> None:
        self._access = access
        self._api = api
        self._check = check
        self._handle = handle

    def handle(self, broker: Services, request: Any, connection: Exchange) -> Any:
        """Handle what the client may do, and refuse the rest."""
        client = self._access.of(connection, self._api)
        outcome = self._check(broker, client, request, connection)
        if outcome is None:
            return self._handle(broker, request, connection)
        if isinstance(outcome, Refused):
            return answer_in_slices(broker, connection, outcome.steps)
        if isinstance(outcome, Handled):
            if outcome.complete is None:
                return outcome.handle(broker, request, connection)
            return _handle_part(broker, request, connection, outcome.handle, outcome.complete)
        response = _handle_part(broker, request, connection, self._handle, outcome.complete)
        if outcome.closes:
            name = ErrorCode(outcome.closes).name
            connection.close(name, f"{self._api.kafka_name} without a response")
        return response


def _handle_part(
    broker: Services,
    request: Any,
    connection: Exchange,
    handle: Handler,
    complete: Callable[[Any], Any],
) -> Any:
    """Handle a part of a request, and complete its response."""
    whole = connection.route
    connection.route = _completing(whole, handle, complete)
    response = handle(broker, request, connection)
    if response is None:
        # It is sent later, by this route.
        return None
    connection.route = whole
    return answer_at_once(connection, complete(response))


def _completing(route: Route, handle: Handler, complete: Callable[[Any], Any]) -> Route:
    """Return the route of a request of which a part was refused.

    Its handler gets the part that was not refused, if the request is postponed.
    """
    framer, in_steps = route.framer, route.in_steps

    def frame(message: Any, correlation_id: int) -> bytes:
        return framer(complete(message), correlation_id)

    def frame_in_steps(message: Any, correlation_id: int) -> Generator[None, None, bytearray]:
        assert in_steps is not None, "the route below encodes in steps"
        return (yield from in_steps(complete(message), correlation_id))

    return Route(
        route.api,
        route.version,
        handle,
        route.decoder,
        frame,
        flexible=route.flexible,
        in_steps=None if in_steps is None else frame_in_steps,
        decode_in_steps=route.decode_in_steps,
    )
