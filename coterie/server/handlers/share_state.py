"""The APIs of the share coordinator, about any number of share partitions of one group.

InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState, DeleteShareGroupState and
ReadShareGroupStateSummary [share-partitions/state-requests]. Brokers of this process ask each
other's coordinators without them.
"""

from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.services import Services
from coterie.server.share_state.asking import ask_all


def handle(broker: Services, request: Any, connection: Exchange) -> Any:
    """Ask about each share partition, and answer when all answers are there."""
    delayed: DelayedResponse | None = None
    response: Any = None

    def done(made: Any) -> None:
        nonlocal response
        response = made
        if delayed is not None:
            delayed.send(made)

    ask_all(connection.route.api, request, broker.share_state.ask, done, broker.loop.call_soon)
    if response is None:
        delayed = DelayedResponse(connection)
        connection.delay_and_mute(delayed)
    return response


HANDLERS = dict.fromkeys(
    (
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ),
    handle,
)
