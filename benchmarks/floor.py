"""The floor: the least CPU time that a Python server can spend on a heartbeat.

It is a bare uvloop protocol that unpacks a Heartbeat v4, looks its member up in a dict, stores the
time and answers NONE. There is no other API, no check and no group. The cost of this belongs to
Python, uvloop and the kernel; only the cost beyond it can be reduced.

This is the one place with a codec of its own: with the declared messages it would not be the least.

`python -m benchmarks.floor PORT` serves until SIGTERM and then prints the number of heartbeats.
"""

from __future__ import annotations

import asyncio
import signal
import struct
import sys
import time
from typing import cast

import uvloop

_header = struct.Struct(">ihhih").unpack_from  # size, api key, version, correlation id, client id
_answer = struct.Struct(">iixihx").pack  # size, correlation id, tags, throttle, error, tags
_int32 = struct.Struct(">i").unpack_from
_HEADER_SIZE = 14
_ANSWER_SIZE = 12
_HEARTBEAT = 12


class FloorConnection(asyncio.Protocol):
    """Answers every complete heartbeat of a read with one write."""

    answered = 0
    last_heartbeat: dict[tuple[bytes, bytes, int], float] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's, but have the same methods.
        self._transport = cast("asyncio.Transport", transport)
        self._partial = b""

    def data_received(self, data: bytes) -> None:
        if self._partial:
            data = self._partial + data
        position, available = 0, len(data)
        out = []
        while available - position >= _HEADER_SIZE:
            size, api_key, _, correlation_id, client_size = _header(data, position)
            end = position + 4 + size
            if end > available:
                break
            assert api_key == _HEARTBEAT, "the floor serves heartbeats only"
            group_at = position + _HEADER_SIZE + client_size + 1
            generation_at = group_at + data[group_at]
            member_at = generation_at + 4
            group = data[group_at + 1 : generation_at]
            member = data[member_at + 1 : member_at + data[member_at]]
            self.last_heartbeat[group, member, _int32(data, generation_at)[0]] = time.monotonic()
            out.append(_answer(_ANSWER_SIZE, correlation_id, 0, 0))
            position = end
        self._partial = data[position:]
        if out:
            FloorConnection.answered += len(out)
            self._transport.write(b"".join(out))


async def serve(port: int) -> None:
    """Serve on a loopback port until SIGTERM."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    server = await loop.create_server(FloorConnection, "127.0.0.1", port)
    await stop.wait()
    server.close()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
    print(FloorConnection.answered)
