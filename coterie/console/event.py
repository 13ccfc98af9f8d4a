"""A server-sent event, and its form on the wire."""

import json
from typing import Any, NamedTuple


class Event(NamedTuple):
    """A server-sent event.

    Attributes:
        name: what it is about.
        data: its JSON.
    """

    name: str
    data: Any


def encoded(event: Event) -> bytes:
    """Return an event as it is sent."""
    text = json.dumps(event.data, separators=(",", ":"))
    return f"event: {event.name}\ndata: {text}\n\n".encode()
