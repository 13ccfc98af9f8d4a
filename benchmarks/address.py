"""The addresses that a benchmark may load: loopback addresses and no others.

A load generator that accepts any host can be turned against one by accident. Both the driver and
the generator process check addresses with `Address.parse` or `require_loopback`. No address is
taken from a response, so a broker cannot redirect the load either.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

import coterie.address


class NotLoopback(Exception):  # noqa: N818 - the name says what is wrong
    """An address is not, or not only, on this machine's loopback interface."""


def require_loopback(host: str) -> str:
    """Return the IP address of a host that resolves to loopback addresses only.

    Raises:
        NotLoopback: the host resolves to another address, or does not resolve.
    """
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError as error:
        raise NotLoopback(f"{host!r} does not resolve: {error}") from error
    addresses = sorted(str(address).partition("%")[0] for address in found)
    outside = [address for address in addresses if not ipaddress.ip_address(address).is_loopback]
    if outside:
        raise NotLoopback(
            f"{host!r} is {outside[0]}: the benchmark sends to loopback addresses only "
            "(127.0.0.0/8, ::1). Run it on the machine of the broker."
        )
    # A name such as localhost may have addresses of both families. Brokers usually listen on
    # 127.0.0.1, which sorts before ::1.
    return addresses[0]


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a broker, and the id of its process if that is known."""

    host: str
    port: int
    pid: int | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse "host:port" or "host:port:pid"; an IPv6 host is in brackets.

        Raises:
            NotLoopback: the host is not on this machine.
            ValueError: the text has another form.
        """
        before, _, last = text.rpartition(":")
        try:
            # Without brackets a host has no colon: two of them mean that the last one is a pid.
            has_pid = last.isdigit() and before.rpartition("]")[2].count(":") == 1
            host, port = coterie.address.Address.parse(before if has_pid else text)
        except ValueError:
            raise ValueError(f"{text!r} is not host:port or host:port:pid") from None
        return cls(require_loopback(host), port, int(last) if has_pid else None)
