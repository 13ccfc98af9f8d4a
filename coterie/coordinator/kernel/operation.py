"""Operations: what a shard keeps until records are durable, and how their responses leave."""

from collections.abc import Hashable, Sequence
from typing import Any

from coterie.coordinator.groups.classic.static_member import ReplacementWrite
from coterie.coordinator.groups.classic.sync import AssignmentWrite
from coterie.coordinator.groups.pending_offsets import MarkerWrite
from coterie.coordinator.groups.responses import LARGE_OPERATION_ERROR, ResponsePart, error_response
from coterie.coordinator.kernel.effects import Effects, Event

Completion = AssignmentWrite | ReplacementWrite | MarkerWrite

# The group of an operation whose records do not belong to one group: the marker of a transaction.
NO_GROUP = ""


class Operation:
    """What a request waits for: its own records, or those of the operations before it.

    Attributes:
        group_id: the group of its records, or `NO_GROUP`; None for an operation that only reads.
        response: what to send when they are durable; None if nothing is to be sent then.
        durable_events: what to add to the events then.
        completion: what else to do then.
        request, version: the request, to build its error response if an append fails.
        to: its reply address, or its part of a response about several groups.
    """

    __slots__ = (
        "completion", "durable_events", "group_id", "request", "response", "to", "version",
    )  # fmt: skip

    def __init__(
        self,
        group_id: str | None,
        response: Any,
        durable_events: Sequence[Event],
        completion: Completion | None,
        request: Any,
        to: Hashable,
        version: int,
    ) -> None:
        self.group_id = group_id
        self.response = response
        self.durable_events = durable_events
        self.completion = completion
        self.request = request
        self.to = to
        self.version = version


def refuse_large(effects: Effects[Any], request: Any, version: int) -> Effects[Any]:
    """Fail an operation that does not fit a batch. Its verb has changed nothing but its records."""
    assert effects.quiet, f"{effects!r} of an operation that is refused"
    assert effects.completion is None, f"{request} checks the size itself"
    return Effects(error_response(request, LARGE_OPERATION_ERROR, version))


def send_response(to: Any, response: Any, effects: Effects[Any]) -> None:
    """Send a delayed response, or put it into its place in a response about several groups."""
    if type(to) is ResponsePart:
        to.deliver(response, effects)
    elif to is not None:
        effects.reply(to, response)
