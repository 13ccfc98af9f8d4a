"""The newest requests with what became of them, for the report of a failed test.

An answer is only looked at when a report is made, so that requests cost little.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.errors import ErrorCode
from coterie.protocol.frames import decode_response
from coterie.protocol.resources import groups_of
from coterie.protocol.schema import fields_of
from coterie.protocol.spliced import EncodedArray
from coterie.protocol.wire import Struct
from coterie.server.network.connection import Connection
from coterie.server.network.route import Handler, Route
from coterie.server.services import Services
from coterie.testing.request_subjects import topics_of
from coterie.testing.requests import Request

_LENGTH_BYTES = 4
# Of a request about more topics only so many are named.
_SHOWN_SUBJECTS = 3
_OK = "ok"
_NOT_YET = "not answered yet"
_NO_ANSWER_WANTED = "no answer wanted"


class Exchanged(NamedTuple):
    """A request and what became of it, for people.

    Attributes:
        number: how many requests were received before it.
        at_ms: when it arrived, in epoch milliseconds.
        client_id: of its header.
        request: its API and version, such as "OffsetCommit v3".
        subject: the groups or topics that it is about.
        outcome: "ok", the errors of the answer, or why there is none.
        fault: the number of the fault that it met; null for none.
        node_id: which of several brokers has received it; null for the only one.
    """

    number: int
    at_ms: int
    client_id: str
    request: str
    subject: str
    outcome: str
    fault: int | None
    node_id: int | None


class HandledRequest:
    """A request while it is handled, and afterwards.

    Attributes:
        request: the request.
        number: how many requests were received before it.
        fault: the number of the fault that it met.
        outcome: what became of it, if a fault or `answered` has decided that.
    """

    __slots__ = ("_answer", "_api", "_framer", "fault", "number", "outcome", "request")

    def __init__(self, number: int, api: ApiKey, request: Request) -> None:
        """Begin without an answer."""
        self.number = number
        self.request = request
        self.fault: int | None = None
        self.outcome: str | None = None
        self._api = api
        self._answer: Any = None
        self._framer: Callable[[Any, int], bytes] | None = None

    def watched(self, route: Route) -> Route:
        """Return a route whose later answer is noted here, for handlers that answer later."""
        framer = self._framer = route.framer

        def noted(message: Any, correlation_id: int) -> bytes:
            self.answered(message)
            return framer(message, correlation_id)

        return Route(
            route.api, route.version, route.handle, route.decoder, noted, flexible=route.flexible
        )

    def passed_on(self, below: Handler, broker: Any, request: Any, connection: Connection) -> Any:
        """Let the handler handle the request, and note its answer."""
        connection.route = self.watched(connection.route)
        response = below(broker, request, connection)
        if response is not None:
            self.answered(response)
        return response

    def answered(self, message: Any) -> None:
        """Note the answer."""
        if self._api in (ApiKey.FETCH, ApiKey.SHARE_FETCH):
            # Its records would fill the memory.
            self.outcome = self.outcome or _outcome(message)
        else:
            self._answer = message

    def shown(self, broker: Services) -> Exchanged:
        """Describe it."""
        request = self.request
        subjects = sorted(groups_of(request.message))
        if not subjects and getattr(request.message, "topics", ()) is not None:
            subjects = sorted(topics_of(request.message, broker) - {""})
        if len(subjects) > _SHOWN_SUBJECTS:
            rest = len(subjects) - _SHOWN_SUBJECTS
            subjects = [*subjects[:_SHOWN_SUBJECTS], f"and {rest} more"]
        return Exchanged(
            self.number,
            request.at_ms,
            request.client_id,
            f"{request.api} v{request.version}",
            ", ".join(subjects),
            self.outcome or self._outcome(),
            self.fault,
            request.node_id if broker.leadership is not None else None,
        )

    def _outcome(self) -> str:
        if self._answer is None:
            wants_none = getattr(self.request.message, "acks", None) == 0
            return _NO_ANSWER_WANTED if wants_none else _NOT_YET
        try:
            return _outcome(self._answer)
        except _IsEncodedError:
            assert self._framer is not None, "an answer is noted by its framer"
            frame = self._framer(self._answer, 0)[_LENGTH_BYTES:]
            version = self.request.version
            return _outcome(decode_response(response_class(self._api), frame, version)[1])


class _IsEncodedError(Exception):
    """An array is encoded already, so its errors cannot be read."""


def _outcome(message: Struct) -> str:
    """Return the names of the errors in an answer, "ok" for none; also the generation it names."""
    codes = dict.fromkeys(_codes(message))
    if codes:
        return ", ".join(codes)
    generation: int = getattr(message, "generation_id", -1)
    return _OK if generation < 0 else f"{_OK}, generation {generation}"


def _codes(holder: Struct) -> list[str]:
    found = []
    for field in fields_of(type(holder)):
        value = getattr(holder, field.name)
        if field.name == "error_code" and value:
            found.append(ErrorCode(value).name)
        elif isinstance(value, EncodedArray):
            if len(value):
                raise _IsEncodedError
        elif isinstance(value, list) and value and isinstance(value[0], Struct):
            for each in value:
                found += _codes(each)
        elif isinstance(value, Struct):
            found += _codes(value)
    return found
