"""Requests that name many groups: they are handled in slices, some groups at a time.

Each group has an operation of its own anyway, and a request that names many is not atomic. So it is
divided into requests of some groups each, between which other requests may be handled. Kafka does
the same with the partitions of `__consumer_offsets`. The parts of the response are joined when the
last one is there, and it is encoded in slices, too.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.refusals import refusal
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.sliced_response import run_in_slices, send_in_slices
from coterie.server.services import Services

# How many groups are handled together. Describing a group of a thousand members takes one
# millisecond, others some microseconds.
GROUPS_TOGETHER = 8

# How many members of consumer groups are described together, and how many of their partitions, each
# of which is described twice: some milliseconds.
MEMBERS_TOGETHER = 100
OWNED_TOGETHER = 10_000

# A request, its response, and a part of the request.
Q = TypeVar("Q")
R = TypeVar("R")
P = TypeVar("P")

Verb = Callable[[int, Q, RequestContext], Effects[R]]


def parts_of(values: list[P]) -> list[list[P]]:
    """Return the groups of a request in parts."""
    starts = range(0, len(values), GROUPS_TOGETHER)
    return [values[first : first + GROUPS_TOGETHER] for first in starts]


class PartedRequest:
    """A request that is handled in parts. It mutes its connection."""

    def __init__(
        self,
        broker: Services,
        connection: Exchange,
        verb: Verb[Any, Any],
        joined: Callable[[list[Any]], Any],
    ) -> None:
        """Delay the response.

        Args:
            broker: its coordinator handles the parts.
            connection: the connection of the request.
            verb: the method of the coordinator.
            joined: returns the response of which it gets the parts.
        """
        self._broker = broker
        self._connection = connection
        self._verb = verb
        self._joined = joined
        self._context = connection.client, connection.version
        self._delayed = DelayedResponse(connection)
        self._responses: list[Any] = []
        self._missing = 0
        connection.delay_and_mute(self._delayed)

    def submit(
        self,
        requests: Sequence[Any],
        complete: Callable[[Any], Callable[[Any], Any] | None] | None = None,
    ) -> None:
        """Handle the parts in later turns.

        Args:
            requests: the parts.
            complete: prepares a part, and returns what completes its response, if anything does.
        """
        self._missing = len(requests)
        self._responses = [None] * len(requests)
        steps = self._submit_each(requests, complete)
        run_in_slices(self._broker, self._connection, steps, lambda _: None)

    def _submit_each(
        self,
        requests: Sequence[Any],
        complete: Callable[[Any], Callable[[Any], Any] | None] | None,
    ) -> Generator[None, None, None]:
        client, version = self._context
        for index, request in enumerate(requests):
            completed = None if complete is None else complete(request)
            part = _Part(self._connection, self, index, completed)
            context = RequestContext(client, version, part)
            self._broker.groups.submit_delayed(self._verb, request, context, part)
            yield

    def take(self, index: int, response: Any) -> None:
        """Take a part of the response, and send all of it after the last one."""
        self._responses[index] = response
        self._missing -= 1
        if not self._missing:
            send_in_slices(self._broker, self._delayed, self.join(self._responses))

    def join(self, responses: list[Any]) -> Generator[None, None, Any]:
        """Return the response of which these are the parts."""
        yield
        return self._joined(responses)


class _Part(DelayedResponse):
    """Takes a part of a response in the place of its connection."""

    __slots__ = ("_complete", "_index", "_whole")

    def __init__(
        self,
        connection: Exchange,
        whole: PartedRequest,
        index: int,
        complete: Callable[[Any], Any] | None,
    ) -> None:
        super().__init__(connection)
        self._whole = whole
        self._index = index
        self._complete = complete

    def send(self, message: Any) -> None:
        """Pass the part on."""
        complete = self._complete
        self._whole.take(self._index, message if complete is None else complete(message))


def described_by_id(
    broker: Services,
    connection: Exchange,
    request: Any,
    verb: Verb[Any, Any],
    response: Callable[..., R],
    *,
    is_served: bool,
) -> R | None:
    """Describe groups that a request names by their ids, each once.

    Args:
        broker: the broker.
        connection: the connection of the request.
        request: the request, with `group_ids`.
        verb: the method of the coordinator.
        response: the class of the response, with `groups`.
        is_served: whether the type of groups is switched on.
    """
    groups = request.group_ids = list(dict.fromkeys(request.group_ids))
    if not is_served:
        not_served: R = refusal(request, ErrorCode.UNSUPPORTED_VERSION, connection.version)
        return not_served
    if len(groups) <= GROUPS_TOGETHER:
        answer: R | None = broker.groups.submit(verb, request, connection)
        return answer
    parted = PartedRequest(
        broker,
        connection,
        verb,
        lambda parts: response(groups=[one for each in parts for one in each.groups]),
    )
    parted.submit(
        [
            type(request)(
                group_ids=part,
                include_authorized_operations=request.include_authorized_operations,
            )
            # Those without an id come first, as in Kafka.
            for part in parts_of(sorted(groups, key=bool))
        ]
    )
    return None
