"""The addresses of a test's broker, which no other program gets while the broker is down.

A socket that is bound and does not listen holds each. As long as the broker listens it takes the
connections; when it is down, connections are refused as if the socket was not there. Linux gives
such a port to nobody who asks for any free one, neither to listen nor to connect. Other systems may
refuse to bind the same port twice, so nothing is held there.
"""

import socket
import sys
from collections.abc import Sequence

from coterie.address import Address
from coterie.server.config.listeners import Listener

_CAN_HOLD = sys.platform == "linux"


class HeldAddresses:
    """Sockets that hold addresses until `close`."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._sockets: dict[Address, socket.socket] = {}

    def hold(self, listeners: Sequence[Listener]) -> list[Listener]:
        """Hold the addresses of listeners, and return the listeners with their ports.

        What cannot be held stays as it is: the broker, which binds it next, says why.
        """
        return [each._replace(address=self._held(each.address)) for each in listeners]

    def close(self) -> None:
        """Hold nothing any more."""
        for each in self._sockets.values():
            each.close()
        self._sockets.clear()

    def _held(self, address: Address) -> Address:
        if not _CAN_HOLD or address in self._sockets:
            return address
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        holder = socket.socket(family, socket.SOCK_STREAM)
        try:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(address)
        except OSError:
            holder.close()
            return address
        held = Address(address.host, holder.getsockname()[1])
        self._sockets[held] = holder
        return held
