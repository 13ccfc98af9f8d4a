"""`coterie serve`, where the listener says who a client is.

Some of Kafka's tests have a class in Java for it (`principal.builder.class`): without a login,
clients of the listener CLIENT are User:client, and those of BROKER are User:broker. The variable
PRINCIPAL_TYPE may have another type than User.
"""

import os

from coterie.cli.main import main
from coterie.server.broker import Broker
from coterie.server.network.connection import Connection

_TYPE = os.environ.get("PRINCIPAL_TYPE", "User")
_PRINCIPALS = {"CLIENT": f"{_TYPE}:client", "BROKER": f"{_TYPE}:broker"}


def _named(connection: Connection) -> Connection:
    """Name the client of a connection after its listener."""
    principal = _PRINCIPALS[connection.client.listener]
    connection.client = connection.client._replace(principal=principal)
    return connection


if __name__ == "__main__":
    Broker.around_connections = staticmethod(_named)
    main(prog_name="coterie")
