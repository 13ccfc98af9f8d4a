"""The buffer of a large request: nothing is copied when the last byte arrives."""

import time

from coterie.server.network.receive_buffer import ReceiveBuffer


def test_large_request_is_collected_as_it_arrives() -> None:
    """[connections/turns]"""
    buffer = ReceiveBuffer()
    chunk = bytes(range(256)) * 1024
    data = chunk * 40 + b"the next request"
    for position in range(0, len(data), len(chunk)):
        buffer.add(data[position : position + len(chunk)])
    assert buffer.size_bytes == len(data)
    began_s = time.thread_time()
    taken = buffer.take()
    taking_s = time.thread_time() - began_s
    assert taken == data
    assert not buffer
    # Joining would copy them all.
    began_s = time.thread_time()
    joined = b"".join([taken[:-1], taken[-1:]])
    assert taking_s < (time.thread_time() - began_s) / 2
    assert joined == data
    buffer.add(b"small")
    assert buffer.take() == b"small"
