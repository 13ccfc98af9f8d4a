"""What `coterie replay` prints: the conversation, and how the answers of the replay differ."""

from collections.abc import Iterator
from typing import Any

from coterie.conversation.syntax import format_time
from coterie.recording.conversation import RecordedExchange
from coterie.recording.format import Kind
from coterie.recording.notation import (
    ConversationNames,
    answer_lines,
    learn_topics,
    request_line,
)
from coterie.recording.replay import ReplayOutcome, Result

# More differences of one answer are counted instead of shown.
_SHOWN_DIFFERENCES = 10


def names_of(exchanges: list[RecordedExchange]) -> ConversationNames:
    """Return names for all clients and topics of a recording, whatever is shown of it."""
    names = ConversationNames()
    for exchange in exchanges:
        learn_topics(exchange.response, names)
        names.connection(exchange)
    return names


def conversation_lines(
    outcomes: list[ReplayOutcome], began_ms: int, names: ConversationNames
) -> Iterator[str]:
    """Return the recorded conversation with the differences of the replay.

    Args:
        outcomes: what is shown, in the order of the requests.
        began_ms: the time that is shown as 00:00.000.
        names: those of the recording.
    """
    for kind, outcome in _moments(outcomes):
        exchange = outcome.exchange
        if kind is Kind.REQUEST:
            line = request_line(exchange, names)
            yield f"{format_time(exchange.at_ms - began_ms)} {line}"
            if outcome.skipped:
                yield f"          (not sent: {outcome.skipped})"
            if exchange.answered_at_ms is None:
                yield from _differences(outcome)
        elif exchange.answered_at_ms is not None:
            time = format_time(exchange.answered_at_ms - began_ms)
            for line in answer_lines(exchange, exchange.response, names):
                yield f"{time} {line}"
            yield from _differences(outcome)


def _moments(outcomes: list[ReplayOutcome]) -> list[tuple[Kind, ReplayOutcome]]:
    """Return requests and responses in the order of their times."""
    moments = []
    for outcome in outcomes:
        exchange = outcome.exchange
        moments.append(((exchange.at_ms, 1, exchange.number), Kind.REQUEST, outcome))
        if exchange.answered_at_ms is not None:
            place = (exchange.answered_at_ms, 0, exchange.number)
            # A response never precedes its request, also in the same millisecond.
            place = max(place, (exchange.at_ms, 1, exchange.number))
            moments.append((place, Kind.RESPONSE, outcome))
    moments.sort(key=lambda moment: moment[:2])
    return [(kind, outcome) for _, kind, outcome in moments]


def _differences(outcome: ReplayOutcome) -> Iterator[str]:
    for difference in outcome.differences[:_SHOWN_DIFFERENCES]:
        yield f"        ! {difference}"
    more = len(outcome.differences) - _SHOWN_DIFFERENCES
    if more > 0:
        yield f"        ! and {more} more differences"


def summary(result: Result, where: str) -> str:
    """Return the last line."""
    text = f"{result.requests} requests replayed to {where}: {result.equal} answered as recorded"
    text += f", {result.different} otherwise"
    return text + (f", {result.skipped} not sent" if result.skipped else "")


def as_json(
    outcomes: list[ReplayOutcome],
    began_ms: int,
    recorded: ConversationNames,
    replayed: ConversationNames,
) -> list[dict[str, Any]]:
    """Return an object for each exchange, with the keys of documentation/reference/json_keys.tsv.

    Args:
        outcomes: what is shown, in the order of the requests.
        began_ms: the time 0.
        recorded: the names of the recording.
        replayed: the names of the replay, whose ids are others.
    """
    objects = []
    for outcome in outcomes:
        exchange, response = outcome.exchange, outcome.response
        answered_ms = exchange.answered_at_ms
        lines = None
        if answered_ms is not None:
            lines = answer_lines(exchange, exchange.response, recorded)
        objects.append(
            {
                "number": exchange.number,
                "connection": exchange.connection,
                **({} if exchange.node_id is None else {"broker": exchange.node_id}),
                "client_id": exchange.client_id,
                "api": exchange.name,
                "version": exchange.version,
                "at_ms": exchange.at_ms - began_ms,
                "answered_at_ms": None if answered_ms is None else answered_ms - began_ms,
                "request": request_line(exchange, recorded),
                "recorded": lines,
                "replayed": response and answer_lines(exchange, response, replayed),
                "skipped": outcome.skipped or None,
                "differences": [each._asdict() for each in outcome.differences],
            }
        )
    return objects
