"""Requests: who sent one, and where its response goes."""

from collections.abc import Hashable
from typing import NamedTuple

# Kafka's name for a client that has not logged in.
ANONYMOUS = "User:ANONYMOUS"


class ClientContext(NamedTuple):
    """The sender of the requests of one connection.

    A connection has one of these, and replaces it when a request has another client id,
    or when ApiVersions names the client's software.

    Attributes:
        connection_id: the number of the connection, counted from the start of the broker.
        listener: the name of the listener that accepted the connection.
        principal: who has logged in.
        client_host: the peer's address as Java prints it, with a leading slash.
        client_id: the client id of the request header.
        software_name, software_version: the client library, from ApiVersions; "" if unknown.
        client_port: the peer's port.
        by_token: whether the login was with a delegation token.
    """

    connection_id: int = 0
    listener: str = "PLAINTEXT"
    principal: str = ANONYMOUS
    client_host: str = ""
    client_id: str = ""
    software_name: str = ""
    software_version: str = ""
    client_port: int = 0
    by_token: bool = False

    @property
    def login(self) -> str | None:
        """The principal of a client that has logged in; None for others."""
        return None if self.principal == ANONYMOUS else self.principal


class RequestContext:
    """Where a request comes from.

    This class and those below that are made for every request have slots. A named tuple takes
    almost twice as long to make, and its fields take more than twice as long to read.

    Attributes:
        client: who sent it.
        version: the version of the request.
        to: the reply address of a later response; opaque here.
    """

    __slots__ = ("client", "to", "version")

    def __init__(self, client: ClientContext, version: int, to: Hashable) -> None:
        self.client = client
        self.version = version
        self.to = to
