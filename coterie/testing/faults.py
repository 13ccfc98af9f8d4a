"""Faults: what goes wrong, and for which requests, as data.

A fault is one of the values below, laid over some requests by `Broker.fault`:

    with kafka.fault(AnswerError("NOT_COORDINATOR"), api="Heartbeat", client_id="a") as fault:
        ...
        fault.must_have_hit()

Which requests a fault meets is decided in the order in which they arrive, and chance comes from a
seed, so the same requests meet the same faults.
"""

import random
from typing import Any, NamedTuple, Self

from coterie.coordinator.machine import ClientContext
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.testing.errors import FaultNotHit, WrongUse
from coterie.testing.requests import api_named

# More than any answer that a client waits for.
_GARBAGE_BYTES = 64


class AnswerError(NamedTuple):
    """Answer with an error, and do not handle the request.

    Attributes:
        error: an `ErrorCode` or its name, such as "COORDINATOR_LOAD_IN_PROGRESS".
    """

    error: ErrorCode | str

    @property
    def code(self) -> ErrorCode:
        """The error.

        Raises:
            WrongUse: there is no error of that name.
        """
        if isinstance(self.error, ErrorCode):
            return self.error
        try:
            return ErrorCode[self.error]
        except KeyError:
            raise WrongUse(f"'{self.error}' is no error of Kafka's protocol") from None


class Delay(NamedTuple):
    """Handle the request later; the connection's next requests wait behind it."""

    seconds: float


class NeverAnswer(NamedTuple):
    """Do not handle the request and do not answer it; later responses queue behind it.

    Attributes:
        handle: whether the request takes effect all the same.
    """

    handle: bool = False


class CloseBefore(NamedTuple):
    """Close the connection instead of handling the request."""


class CloseAfter(NamedTuple):
    """Handle the request, and close the connection instead of sending the response."""


class CutAnswer(NamedTuple):
    """Handle the request, send the first bytes of the response and close the connection.

    Attributes:
        sent_bytes: how many, with the four of the length.
    """

    sent_bytes: int = 6


class AnswerGarbage(NamedTuple):
    """Answer with bytes that are no response; the request is not handled.

    Attributes:
        body: the bytes after length and correlation id.
    """

    body: bytes = b"\xff" * _GARBAGE_BYTES


class Throttle(NamedTuple):
    """Handle the request and put a `throttle_time_ms` into its response."""

    milliseconds: int


Action = (
    AnswerError
    | Delay
    | NeverAnswer
    | CloseBefore
    | CloseAfter
    | CutAnswer
    | AnswerGarbage
    | Throttle
)


class Scope(NamedTuple):
    """The requests that a fault concerns; None for all.

    Attributes:
        api: the API.
        version: the version of the request.
        client_id: of the request.
        group: the group id in the request.
        topic: a topic that the request names.
        connection_id: the number of the connection.
    """

    api: ApiKey | None = None
    version: int | None = None
    client_id: str | None = None
    group: str | None = None
    topic: str | None = None
    connection_id: int | None = None

    def covers(self, api: ApiKey, version: int, client: ClientContext, request: Any) -> bool:
        """Return whether a request is in scope."""
        return (
            self.api in (None, api)
            and self.version in (None, version)
            and self.client_id in (None, client.client_id)
            and self.connection_id in (None, client.connection_id)
            and (self.group is None or self.group in _groups(request))
            and (self.topic is None or self.topic in _topics(request))
        )


class Fault:
    """A fault that is installed; a context manager that removes it at its end.

    Attributes:
        action, scope: what goes wrong, and where.
        hits: how many requests have met it.
    """

    def __init__(
        self,
        action: Action,
        scope: Scope,
        *,
        skip: int = 0,
        times: int | None = None,
        probability: float = 1.0,
        seed: int = 0,
    ) -> None:
        """Declare a fault; see `Broker.fault`.

        Raises:
            WrongUse: a value makes no sense.
        """
        if isinstance(action, AnswerError):
            _ = action.code
        if not 0 < probability <= 1:
            raise WrongUse(f"a probability is above 0 and at most 1, not {probability}")
        if skip < 0 or (times is not None and times < 1):
            raise WrongUse("skip is at least 0, and times at least 1")
        self.action = action
        self.scope = scope
        self.hits = 0
        self._skip = skip
        self._times = times
        self._probability = probability
        self._random = random.Random(seed)  # noqa: S311 - repeatable chance, no secrets
        self._is_removed = False

    def __repr__(self) -> str:
        return f"Fault({self.action!r}, {self.scope!r}, hits={self.hits})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Let requests be handled as usual from now on."""
        self._is_removed = True

    @property
    def is_removed(self) -> bool:
        """Whether it meets no request any more."""
        return self._is_removed

    def must_have_hit(self, times: int | None = None) -> None:
        """Check that requests have met it; with `times`, just so many.

        Raises:
            FaultNotHit: they have not.
        """
        if self.hits == 0 or times not in (None, self.hits):
            wanted = "a request" if times is None else f"{times} requests"
            raise FaultNotHit(f"{wanted} should have met {self!r}")

    def meets(self, api: ApiKey, version: int, client: ClientContext, request: Any) -> bool:
        """Decide whether a request meets the fault, and count it."""
        if self._is_removed or not self.scope.covers(api, version, client, request):
            return False
        if self._times is not None and self.hits >= self._times:
            return False
        if self._skip:
            self._skip -= 1
            return False
        if self._probability < 1 and self._random.random() >= self._probability:
            return False
        self.hits += 1
        return True


def scope_of(
    api: str | None,
    version: int | None,
    client_id: str | None,
    group: str | None,
    topic: str | None,
    connection_id: int | None,
) -> Scope:
    """Return a scope from what a test wrote.

    Raises:
        WrongUse: there is no such API.
    """
    named = None if api is None else api_named(api)
    return Scope(named, version, client_id, group, topic, connection_id)


def _groups(request: Any) -> set[str]:
    """Return the group ids in a request."""
    listed = getattr(request, "groups", None) or ()
    found = {each if isinstance(each, str) else each.group_id for each in listed}
    found |= set(getattr(request, "coordinator_keys", None) or ())
    found |= {getattr(request, "group_id", ""), getattr(request, "key", "")}
    return found


def _topics(request: Any) -> set[str]:
    """Return the names of the topics in a request."""
    listed = getattr(request, "topics", None) or getattr(request, "topic_data", None) or ()
    found: set[str] = set()
    for each in listed:
        name = each if isinstance(each, str) else getattr(each, "name", None)
        found.add(str(name or getattr(each, "topic", "")))
    return found
