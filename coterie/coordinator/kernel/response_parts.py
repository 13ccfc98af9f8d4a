"""Responses about several groups, whose parts may be delayed apart [coordinator/durable-responses].

A request about several groups touches several partitions, and each may delay its part until earlier
appends are durable. `MultiGroupResponse` collects the parts.
"""

from collections.abc import Hashable
from typing import Any

from coterie.coordinator.kernel.effects import Effects


class MultiGroupResponse:
    """A response that leaves when the part of every group is there.

    Attributes:
        to: the reply address.
        message: the response.
        parts: the list inside `message`, with one place per group.
        missing: the number of parts that are not there yet.
    """

    __slots__ = ("message", "missing", "parts", "to")

    def __init__(self, to: Hashable, message: Any, parts: list[Any]) -> None:
        self.to = to
        self.message = message
        self.parts = parts
        self.missing = len(parts)


class ResponsePart:
    """The place of one group in a `MultiGroupResponse`, used where a reply address is expected."""

    __slots__ = ("index", "response")

    def __init__(self, response: MultiGroupResponse, index: int) -> None:
        self.response = response
        self.index = index

    def deliver(self, part: Any, effects: Effects[Any]) -> None:
        """Put the group's part in its place; with the last one, send the whole response."""
        response = self.response
        assert part is not None, "a part is a message"
        assert 0 <= self.index < len(response.parts), "a part has a place in its response"
        assert response.parts[self.index] is None, "a place takes one part"
        response.parts[self.index] = part
        response.missing -= 1
        assert response.missing >= 0, "a part is delivered once"
        if not response.missing:
            effects.reply(response.to, response.message)
