"""Who sends the requests of a connection."""

from typing import NamedTuple

# Kafka's name for a client that has not logged in.
ANONYMOUS = "User:ANONYMOUS"


class ClientContext(NamedTuple):
    """The sender of the requests of one connection.

    A connection has one of these, and replaces it when a request has another client id
    [connections/client-context].

    Attributes:
        connection_id: the number of the connection, counted from the start of the broker.
        listener: the name of the listener that accepted the connection.
        principal: who has logged in.
        client_host: the peer's address as Java prints it, with a leading slash.
        client_id: the client id of the request header.
        software_name, software_version: the client library, from ApiVersions; "" if unknown.
    """

    connection_id: int
    listener: str
    principal: str = ANONYMOUS
    client_host: str = ""
    client_id: str = ""
    software_name: str = ""
    software_version: str = ""
