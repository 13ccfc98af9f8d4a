"""SIGTERM under load: everything that is stored was answered before the connection ends.

Rules: [connections/stop].
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from coterie.protocol.frames import encode_request
from coterie.protocol.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.protocol.messages.produce import ProduceResponse
from coterie.protocol.wire import Message
from tests.live.broker_process import FAST_GROUPS, BrokerProcess
from tests.live.deadlines import PAUSE_S
from tests.unit.server.produced import batch, produce_request
from tests.unit.server.running import SocketClient

PRODUCE_VERSION = 9
PRODUCER_ID = 7
IN_FLIGHT = 64
STOPS = 4
# Long enough for hundreds of batches to be answered, and for many to be under way at the signal.
LOAD_S = 0.3


class PipelinedProducer:
    """An idempotent producer with many batches under way, which reads until the server is gone.

    Attributes:
        answered: how many batches were acknowledged.
        refused: the error codes of others.
    """

    def __init__(self, port: int, first_sequence: int) -> None:
        self.answered = 0
        self.refused: list[int] = []
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._sequences = count(first_sequence)
        self._may_send = threading.Semaphore(IN_FLIGHT)
        self._threads = [threading.Thread(target=each) for each in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until the server has closed the connection."""
        for thread in self._threads:
            thread.join()
        self._socket.close()

    def _send(self) -> None:
        try:
            while self._may_send.acquire(timeout=60):
                records = batch(b"x" * 2_000, producer=(PRODUCER_ID, 0, next(self._sequences)))
                self._socket.sendall(encode_request(produce_request(records), 9, 1, "stop"))
        except OSError:
            # As client libraries do, which then read no more.
            self._end()

    def _receive(self) -> None:
        for frame in self._frames():
            answer = ProduceResponse.decode(frame, PRODUCE_VERSION, 5)
            code = answer.responses[0].partition_responses[0].error_code
            if code:
                self.refused.append(code)
            else:
                self.answered += 1
            self._may_send.release()
        self._end()
        self._may_send.release()

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _frames(self) -> Iterator[bytes]:
        with self._socket.makefile("rb") as stream, contextlib.suppress(OSError):
            while len(prefix := stream.read(4)) == 4:
                (length,) = struct.unpack(">i", prefix)
                frame = stream.read(length)
                if len(frame) < length:
                    return
                yield frame


def call(port: int, request: Message, version: int) -> Any:
    with SocketClient(socket.create_connection(("127.0.0.1", port), timeout=30)) as client:
        return client.call(request, version)


def create_topic(port: int) -> None:
    """Ask until the topic exists."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    while call(port, request, 9).topics[0].error_code:
        time.sleep(0.05)


def end_offset(port: int) -> int:
    partition = ListOffsetsRequestPartition(partition_index=0, timestamp=LATEST_TIMESTAMP)
    topics = [ListOffsetsRequestTopic(name="t", partitions=[partition])]
    answer = call(port, ListOffsetsRequest(replica_id=-1, topics=topics), 6)
    return int(answer.topics[0].partitions[0].offset)


@pytest.mark.slow
@pytest.mark.parametrize("flush", ["never", "commit"])
def test_stored_batches_are_answered_before_a_stop(tmp_path: Path, flush: str) -> None:
    broker = BrokerProcess(tmp_path / "data", {**FAST_GROUPS, "num.partitions": "1"})
    command = broker.command()
    broker.command = lambda: [*command, "--flush", flush]  # type: ignore[method-assign]
    stored, answered, unanswered = 0, 0, []
    try:
        for number in range(STOPS + 1):
            broker.start()
            create_topic(broker.port)
            before, stored = stored, end_offset(broker.port)
            if number:
                assert stored - before > IN_FLIGHT
                unanswered.append(stored - before - answered)
            producer = PipelinedProducer(broker.port, stored)
            while producer.answered <= IN_FLIGHT:
                assert not producer.refused
                time.sleep(PAUSE_S)
            time.sleep(LOAD_S)
            assert broker.stop() == 0
            producer.join()
            assert producer.refused == []
            answered = producer.answered
    finally:
        broker.kill()
    assert unanswered == [0] * STOPS
