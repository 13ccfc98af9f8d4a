"""What serves a new connection of a listener, by its security protocol.

A plaintext listener makes nothing but a `Connection`. What the others need is around that or given
to it here, so that requests cost the same as without them.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from coterie.server.config.listeners import Listener, SecurityProtocol
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
    quotas = broker.connection_quotas
    guarded = _login(broker, listener) if listener.protocol.has_sasl else None
    encrypted = _encryption(broker, listener) if listener.protocol.has_tls else None

    def accept() -> asyncio.BaseProtocol:
        connection = Connection(broker, name)
        quotas.await_login(connection)
        inner = around(connection)
        if guarded is not None:
            inner = guarded(connection, inner)
        return inner if encrypted is None else encrypted(connection, inner)

    return accept


def _login(
    broker: ConnectionServices, listener: Listener
) -> Callable[[Connection, asyncio.Protocol], asyncio.Protocol]:
    """Return what reads the bytes of a connection until its client has logged in."""
    # Imported here, because most brokers have no such listener.
    from coterie.server.security.listener_login import ScramUsersOfBroker, listener_login
    from coterie.server.security.login_connection import LoginConnection

    shared = listener_login(
        broker.config,
        listener,
        ScramUsersOfBroker(broker.credentials, broker.tokens, broker.environment),
        broker.logins,
        broker.environment,
    )
    broker.logins.listeners.append(shared.mechanisms)
    return partial(LoginConnection, broker, shared)


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
