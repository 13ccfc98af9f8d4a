"""What a check of a request comes to.

A check is a function `check(broker, access, request, connection)`. It returns None if the client
may do all that the request asks; a `Refused`, if nothing of it; an `Allowed`, after it has taken
out of the request what is refused; or a `Handled`, where the handler itself has to look.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple

from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode
from coterie.protocol.refusals import refused_in_steps
from coterie.protocol.resources import ResourceType
from coterie.server.authorization.access import ClientAccess
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.route import Handler
from coterie.server.services import Services

ERRORS = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Refused(NamedTuple):
    """Nothing of a request is done.

    Attributes:
        steps: make the answer.
    """

    steps: Generator[None, None, Any]


class Allowed(NamedTuple):
    """A part of a request is done.

    Attributes:
        complete: adds to the response what was refused, or takes out what may not be seen.
        closes: the error that closes the connection of a request without a response.
    """

    complete: Callable[[Any], Any]
    closes: ErrorCode = ErrorCode.NONE


class Handled(NamedTuple):
    """Another handler does what the client may do.

    Attributes:
        handle: it; the access of the client is in it.
        complete: adds to its response, as that of `Allowed`; None for nothing.
    """

    handle: Handler
    complete: Callable[[Any], Any] | None = None


Outcome = Refused | Allowed | Handled | None
Check = Callable[[Services, ClientAccess, Any, Exchange], Outcome]


def answered(response: Any) -> Refused:
    """Return the outcome with an answer that is made already."""

    def steps() -> Generator[None, None, Any]:
        yield from ()
        return response

    return Refused(steps())


def refused(request: Any, error: ErrorCode, version: int, **others: Any) -> Refused:
    """Return the outcome for a request that is refused as a whole."""
    return Refused(refused_in_steps(request, error, version, **others))


def text_of(error: ErrorCode) -> str:
    """Return Kafka's text for an error of the authorizer."""
    return DEFAULT_MESSAGES[error]


def appended(field: str, elements: Iterable[Any], *, first: bool = False) -> Allowed:
    """Return the outcome that adds refused elements to a list of the response.

    An error of the whole response stands alone.

    Args:
        field: the list.
        elements: the elements.
        first: whether they come before those that the handler makes.
    """
    refused_ones = list(elements)

    def complete(response: Any) -> Any:
        if getattr(response, "error_code", ErrorCode.NONE):
            return response
        found = getattr(response, field)
        setattr(response, field, refused_ones + found if first else found + refused_ones)
        return response

    return Allowed(complete)
