"""The settings of listening sockets [connections/sockets]."""

import socket

from coterie.server.config.config import Config
from coterie.server.network import limits
from coterie.server.network.listening import listen_backlog, set_buffer_sizes

_SIZE_BYTES = 9_000


def sizes(settings: dict[str, str]) -> list[int]:
    """Return the sizes of a socket's buffers as they are set. Linux counts its own data, too."""
    with socket.socket() as listening:
        set_buffer_sizes([listening], Config(settings))
        return [
            listening.getsockopt(socket.SOL_SOCKET, option)
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF)
        ]


def test_buffers_have_the_sizes_that_were_chosen() -> None:
    chosen = str(_SIZE_BYTES)
    untouched = sizes({})
    both = {"socket.receive.buffer.bytes": chosen, "socket.send.buffer.bytes": chosen}
    assert all(_SIZE_BYTES <= size <= 2 * _SIZE_BYTES for size in sizes(both))
    assert _SIZE_BYTES * 2 not in untouched
    assert sizes({"socket.send.buffer.bytes": chosen})[0] == untouched[0]
    assert sizes({"socket.send.buffer.bytes": "-1"}) == untouched


def test_backlog_is_large_unless_it_is_set() -> None:
    assert listen_backlog(Config()) == limits.LISTEN_BACKLOG
    assert listen_backlog(Config({"socket.listen.backlog.size": "50"})) == 50
