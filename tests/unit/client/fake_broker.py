"""A broker that says what a test tells it to, over a real socket.

It reads frames with our codecs and answers with them, in the versions of `ranges`. `answers` maps
an API to a message, to a function of (request, version), or to raw bytes that replace the whole
frame; a function may also return None, which closes the connection, or `SILENCE`.
"""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Self

from coterie.client.consumer_groups import (
    CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.apis import request_class, response_class
from coterie.protocol.errors import ErrorCode
from coterie.protocol.frames import decode_request_header
from coterie.protocol.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApiKey
from coterie.protocol.messages.find_coordinator import (
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from coterie.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie.protocol.wire import Message

SILENCE = object()
NODE_ID = 1


class Seen(NamedTuple):
    """A request as it arrived."""

    key: int
    version: int
    message: Message


class FakeBroker:
    def __init__(
        self,
        answers: dict[int, Any] | None = None,
        ranges: dict[int, tuple[int, int]] | None = None,
        topics: dict[str, int] | None = None,
    ) -> None:
        self.ranges = dict(SERVED_VERSIONS if ranges is None else ranges)
        self.topics = topics or {}
        self.requests: list[Seen] = []
        self.answers: dict[int, Any] = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            **(answers or {}),
        }
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()
        self.bootstrap = f"{self.host}:{self.port}"
        self._streams: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for stream in list(self._streams):
            with suppress(OSError):  # the client was faster
                stream.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def seen(self, key: int) -> list[Any]:
        """The requests of an API."""
        return [seen.message for seen in self.requests if seen.key == key]

    def versions(self, key: int) -> list[int]:
        return [seen.version for seen in self.requests if seen.key == key]

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            self._streams.append(stream)
            thread = threading.Thread(target=self._serve, args=(stream,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, stream: socket.socket) -> None:
        with stream:
            try:
                while (frame := _read_frame(stream)) is not None:
                    answer = self._answer(frame)
                    if answer is None:
                        return
                    stream.sendall(answer)
            except OSError:
                return

    def _answer(self, frame: bytes) -> bytes | None:
        number, version = struct.unpack_from(">hh", frame)
        request_type, response_type = _classes(number)
        flexible = request_type.has_flexible_header(version)
        header, position = decode_request_header(frame, 0, len(frame), flexible=flexible)
        request = request_type.decode(frame[position:], version)
        self.requests.append(Seen(number, version, request))
        answer = self.answers[number]
        if callable(answer):
            answer = answer(request, version)
        if answer is SILENCE:
            return b""
        if answer is None or isinstance(answer, bytes):
            return answer
        if isinstance(answer, tuple):  # a message, in another version than that of the request
            answer, version = answer
        assert isinstance(answer, response_type)
        return response_type.framer(version)(answer, header.correlation_id)

    def _api_versions(self, _: Message, version: int) -> Any:
        keys = [
            ApiVersionsResponseApiKey(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.ranges.items()
        ]
        low, high = self.ranges[ApiKey.API_VERSIONS]
        if not low <= version <= high:
            error = ErrorCode.UNSUPPORTED_VERSION
            return ApiVersionsResponse(error_code=error, api_keys=keys), 0
        return ApiVersionsResponse(error_code=0, api_keys=keys)

    def _metadata(self, request: Any, _: int) -> MetadataResponse:
        names = self.topics if request.topics is None else [t.name for t in request.topics]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=NODE_ID, host=self.host, port=self.port)],
            controller_id=NODE_ID,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return MetadataResponseTopic(error_code=error, name=name, partitions=[])
        return MetadataResponseTopic(
            error_code=0,
            name=name,
            topic_id=bytes(range(16)),
            partitions=[partition(index) for index in range(self.topics[name])],
        )

    def _find_coordinator(self, request: Any, version: int) -> FindCoordinatorResponse:
        return coordinators(request, version, self.host, self.port)


def coordinators(
    request: Any, version: int, host: str, port: int, error: int = 0
) -> FindCoordinatorResponse:
    """Answer that every group asked for is at one address, or `error`."""
    if version < 4:
        return FindCoordinatorResponse(error_code=error, node_id=NODE_ID, host=host, port=port)
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponseCoordinator(
                key=key, node_id=NODE_ID, host=host, port=port, error_code=error
            )
            for key in request.coordinator_keys
        ]
    )


def partition(index: int, leader: int = NODE_ID) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=0,
        partition_index=index,
        leader_id=leader,
        replica_nodes=[NODE_ID],
        isr_nodes=[NODE_ID],
    )


def in_turn(*answers: Any) -> Callable[[Any, int], Any]:
    """Answer the first request with the first one, and so on; the last one stays."""
    left = list(answers)

    def answer(request: Any, version: int) -> Any:
        one = left.pop(0) if len(left) > 1 else left[0]
        return one(request, version) if callable(one) else one

    return answer


def _classes(number: int) -> tuple[type[Message], type[Message]]:
    if number == CONSUMER_GROUP_DESCRIBE:
        return ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
    key = ApiKey(number)
    return request_class(key), response_class(key)


def _read_frame(stream: socket.socket) -> bytes | None:
    head = _read(stream, 4)
    return None if head is None else _read(stream, int.from_bytes(head, "big"))


def _read(stream: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        part = stream.recv(count - len(data))
        if not part:
            return None
        data += part
    return data
