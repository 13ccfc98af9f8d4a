"""One part of a conversation with one broker: what is sent, and what is answered.

Invariant: the values of an answer are those of both brokers, without ids that one makes up.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.compared.share_groups.parts import Asked, Closing, Parked, Part
from tests.compared.transactions.plain_values import plain
from tests.compared.transactions.side import Side

# Until a fetch surely waits, and until what a connection held is released.
_PARKED_S = 0.05
_CLOSED_S = 0.3


class Answer(NamedTuple):
    """What a broker has answered.

    Attributes:
        request: the request as it was sent.
        raw: the answer; None if the connection was closed.
        value: the answer as plain values.
        seconds: how long it took.
    """

    asked: Asked
    request: Any
    raw: Any
    value: Any
    seconds: float


def all_answers(part: Part, side: Side) -> list[Answer]:
    """Do a part of a conversation with one broker; return all that it answers."""
    return list(_answers(side, part))


def _answers(side: Side, part: Part) -> Iterator[Answer]:
    """Do a part of a conversation with one broker."""
    if isinstance(part, Asked):
        request = part.step.request(side)
        begun = time.monotonic()
        raw = side.call(request, part.step.version, part.connection)
        yield _answer(side, part, request, raw, begun)
        time.sleep(part.rest_s)
    elif isinstance(part, Closing):
        side.reconnect(part.connection)
        time.sleep(_CLOSED_S)
    elif isinstance(part, Parked):
        fetch = part.fetch
        request, version = fetch.step.request(side), fetch.step.version
        begun = time.monotonic()
        side.send(request, version, fetch.connection)
        time.sleep(_PARKED_S)
        yield from _answers(side, part.meanwhile)
        raw = side.receive(request, version, fetch.connection)
        yield _answer(side, fetch, request, raw, begun)


def _answer(side: Side, asked: Asked, request: Any, raw: Any, begun: float) -> Answer:
    seconds = time.monotonic() - begun
    asked.step.learn(side, raw)
    if asked.step.ends:
        side.settle(asked.step.ends)
    value: Any = "closed" if raw is None else plain(raw, side)
    return Answer(asked, request, raw, value, seconds)
