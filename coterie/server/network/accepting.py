"""What serves a new connection of a listener, by its security protocol.

A plaintext listener makes nothing but a `Connection`. What the others need is around that or given
to it here, so that requests cost the same as without them.
"""

import asyncio
from collections.abc import Callable

from coterie.server.config.listeners import Listener, SecurityProtocol
from coterie.server.config.sources import ConfigError
from coterie.server.network.channel import ConnectionServices
from coterie.server.network.connection import Connection
from coterie.server.network.routes import Routes

# What the event loop calls for each connection that it accepts.
Factory = Callable[[], asyncio.BaseProtocol]
# Returns what the transport of a connection talks to.
Around = Callable[[Connection], asyncio.Protocol]


def connection_factory(broker: ConnectionServices, listener: Listener, around: Around) -> Factory:
    """Return what makes the connections of a listener.

    Raises:
        ConfigError: the listener cannot be served with its settings.
    """
    name = listener.name
    if listener.protocol is SecurityProtocol.PLAINTEXT:
        return lambda: around(Connection(broker, name))
    if listener.protocol.has_tls:
        raise ConfigError(f"listener {name} uses {listener.protocol.value}, which is not there yet")
    routes = login_routes(broker, listener)

    def accept() -> asyncio.Protocol:
        connection = Connection(broker, name)
        connection.routes = routes
        return around(connection)

    return accept


def login_routes(broker: ConnectionServices, listener: Listener) -> Routes:
    """Return what the clients of a listener with SASL may ask for until they have logged in.

    The login gives the connection the routes of the broker: `connection.routes = broker.routes`.

    Raises:
        ConfigError: the settings of its mechanisms cannot be used.
    """
    assert broker.routes is not None
    raise ConfigError(
        f"listener {listener.name} uses {listener.protocol.value}: there is no SASL yet"
    )
