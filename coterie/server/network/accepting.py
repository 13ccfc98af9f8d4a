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
    # Only a listener with logins pays for this import.
    from coterie.server.security.listener_login import ScramUsersOfBroker, listener_login
    from coterie.server.security.login_connection import LoginConnection

    login = listener_login(
        broker.config,
        listener,
        ScramUsersOfBroker(broker.credentials),
        broker.failed_logins,
        broker.environment.random_bytes,
    )

    def accept() -> asyncio.Protocol:
        connection = Connection(broker, name)
        return LoginConnection(broker, login, connection, around(connection))

    return accept
