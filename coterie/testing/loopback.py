"""Requests of a test to its broker, over a connection in memory.

They meet the same handlers as those of clients. Faults and pauses do not apply to them, and they
are not among the recorded requests.
"""

from typing import TypeVar

from coterie.conversation.pipe import AskingEnd
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.frames import decode_response, encode_request
from coterie.protocol.wire import Message
from coterie.server.broker import Broker
from coterie.server.network.routes import Routes

R = TypeVar("R", bound=Message)

CLIENT_ID = "coterie-testing"
_CORRELATION_ID = 1
_LENGTH_BYTES = 4
_CLIENT = ("127.0.0.1", 0)


async def ask(broker: Broker, request: Message, response_class: type[R]) -> R:
    """Return the broker's response to a request, in the highest version that it serves."""
    api_key = type(request).api_key
    assert api_key is not None, "a request has an API key"
    version = SERVED_VERSIONS[ApiKey(api_key)][1]
    end = AskingEnd(_CLIENT)
    # Without the gate of a broker that is paused, behind which the test would wait.
    around, broker.around_connections = broker.around_connections, None
    connection = broker.accept(end)
    broker.around_connections = around
    # Without the faults that are laid over the broker's table.
    connection.routes = Routes()
    frame = encode_request(request, version, _CORRELATION_ID, CLIENT_ID)
    try:
        answer = await end.ask(frame[_LENGTH_BYTES:])
    finally:
        connection.close_quietly()
    if answer is None:
        raise ConnectionError("the broker has closed the connection")
    return decode_response(response_class, answer, version)[1]
