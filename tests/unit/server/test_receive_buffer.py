"""The buffer of a large request: nothing is copied when the last byte arrives."""

import tracemalloc

from coterie.server.network.receive_buffer import ReceiveBuffer


def test_large_request_is_collected_as_it_arrives() -> None:
    """[connections/turns]"""
    tracemalloc.start()
    buffer = ReceiveBuffer()
    chunk = bytes(range(256)) * 1024
    # Nearly as large as the first place, so that a copy needs more than the place gives back.
    data = chunk * 120 + b"the next request"
    for position in range(0, len(data), len(chunk)):
        buffer.add(data[position : position + len(chunk)])
    assert buffer.size_bytes == len(data)
    before_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    taken = buffer.take()
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Joining would need memory for a copy of them all.
    assert peak_bytes - before_bytes < len(data) / 2
    assert taken == data
    assert not buffer
    buffer.add(b"small")
    assert buffer.take() == b"small"
