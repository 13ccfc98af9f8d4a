"""What serves a new connection of a listener, by its security protocol.

A plaintext listener makes nothing but a `Connection`. What the others need is around that or given
to it here, so that requests cost the same as without them.
"""

import asyncio
from collections.abc import Callable
from functools import partial

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
    quotas = broker.connection_quotas
    routes = login_routes(broker, listener) if listener.protocol.has_sasl else None
    encrypted = _encryption(broker, listener) if listener.protocol.has_tls else None

    def accept() -> asyncio.BaseProtocol:
        connection = Connection(broker, name)
        if routes is not None:
            connection.routes = routes
        quotas.await_login(connection)
        inner = around(connection)
        return inner if encrypted is None else encrypted(connection, inner)

    return accept


def _encryption(
    broker: ConnectionServices, listener: Listener
) -> Callable[[Connection, asyncio.Protocol], asyncio.BaseProtocol]:
    """Return what puts TLS between the transport of a connection and the connection."""
    # Imported here, because most brokers have no such listener.
    from coterie.server.tls.connection import TlsConnection
    from coterie.server.tls.listener import TlsListener

    shared = TlsListener(broker, listener)
    broker.tls_listeners.append(shared)
    return partial(TlsConnection, shared)


def login_routes(broker: ConnectionServices, listener: Listener) -> Routes:
    """Return what the clients of a listener with SASL may ask for until they have logged in.

    The login gives the connection the routes of the broker, `connection.routes = broker.routes`,
    and calls `broker.connection_quotas.logged_in(connection)`.

    Raises:
        ConfigError: the settings of its mechanisms cannot be used.
    """
    assert broker.routes is not None
    raise ConfigError(
        f"listener {listener.name} uses {listener.protocol.value}: there is no SASL yet"
    )
