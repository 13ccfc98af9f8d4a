"""Responses to requests that change topics or stored settings."""

from typing import TypeVar

from coterie.server.metadata.topic_changes import Change
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.services import Services

Response = TypeVar("Response")


def answer_with_change(
    broker: Services, connection: Exchange, change: Change[Response]
) -> Response | None:
    """Make a change and return the response that is its result, or send it later.

    The connection is muted meanwhile.
    """
    outcome: list[tuple[Response, Exception | None]] = []
    delayed: DelayedResponse | None = None

    def changed(response: Response, failure: Exception | None) -> None:
        if delayed is None:
            outcome.append((response, failure))
        elif failure is None:
            delayed.send(response)
        else:
            connection.fail_request(failure)

    broker.changes.submit(change, changed)
    if outcome:
        ((response, failure),) = outcome
        if failure is not None:
            raise failure
        return response
    delayed = DelayedResponse(connection)
    connection.delay_and_mute(delayed)
    return None
