"""The settings of listening sockets, which accepted ones inherit [connections/sockets]."""

import socket
from collections.abc import Iterable

from coterie.server.config.broker_keys import LISTEN_BACKLOG, RECEIVE_BUFFER, SEND_BUFFER
from coterie.server.config.config import Config
from coterie.server.network import limits

_BUFFERS = ((RECEIVE_BUFFER, socket.SO_RCVBUF), (SEND_BUFFER, socket.SO_SNDBUF))


def listen_backlog(config: Config) -> int:
    """Return how many connections the system keeps until they are accepted."""
    is_set = LISTEN_BACKLOG in config.names
    return config.get_int(LISTEN_BACKLOG) if is_set else limits.LISTEN_BACKLOG


def set_buffer_sizes(sockets: Iterable[socket.socket], config: Config) -> None:
    """Set the sizes of buffers that the user has chosen, before the sockets listen."""
    chosen = [
        (option, config.get_int(name))
        for name, option in _BUFFERS
        if name in config.names and config.get_int(name) >= 0
    ]
    for listening in sockets if chosen else ():
        for option, size_bytes in chosen:
            listening.setsockopt(socket.SOL_SOCKET, option, size_bytes)
