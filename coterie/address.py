"""Addresses: that of a broker, HOST:PORT, as it is read and written, and that of a peer."""

import socket
from contextlib import suppress
from typing import NamedTuple, Self

# What names or reaches this machine only.
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Address(NamedTuple):
    """A host name or IP address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str, default_port: int | None = None) -> Self:
        """Read HOST:PORT, with an IPv6 address as HOST in brackets.

        Args:
            text: the address; white space around it is ignored.
            default_port: used if the text names no port; without it a port is required.

        Raises:
            ValueError: the text is not an address.
        """
        host, colon, port = text.strip().rpartition(":")
        has_port = bool(colon) and (":" not in host or (host[0] == "[" and host[-1] == "]"))
        if not has_port and default_port is not None:
            host, port = text.strip(), str(default_port)
        host = host.removeprefix("[").removesuffix("]")
        is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536
        if not host or not is_port or not (has_port or default_port is not None):
            raise ValueError(f"{text!r} is not HOST:PORT")
        return cls(host, int(port))

    @classmethod
    def parse_list(cls, text: str, default_port: int | None = None) -> list[Self]:
        """Read addresses with commas between them.

        Raises:
            ValueError: an address is invalid, or there is none.
        """
        addresses = [cls.parse(part, default_port) for part in text.split(",") if part.strip()]
        if not addresses:
            raise ValueError("no address is given")
        return addresses


def peer_address(text: str) -> str | None:
    """Return the address that connections from a host have; None if the text is no IP address.

    Other names than localhost are not resolved: that may take seconds [quotas/entities].
    """
    if text == "localhost":
        return "127.0.0.1"
    for family in (socket.AF_INET, socket.AF_INET6):
        # ValueError: the text is none that the system can be given, as with a zero in it.
        with suppress(OSError, ValueError):
            return socket.inet_ntop(family, socket.inet_pton(family, text))
    return None
