"""A broker with scripted responses, over a real socket.

It decodes requests and encodes responses with our codecs, in the versions of `ranges`. `responses`
maps an API to a message, to a function of (request, version), or to raw bytes that replace the
whole frame; a function may also return None, which closes the connection, or `SILENCE`, after
which there is no response.
"""

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Self

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
from coterie.protocol.refusals import refusal
from coterie.protocol.wire import Message

SILENCE = object()
NODE_ID = 1


class Seen(NamedTuple):
    """A received request."""

    key: int
    version: int
    message: Message


class FakeBroker:
    def __init__(
        self,
        # Keys are `Any`, because a dictionary with keys of type ApiKey is not one of int for mypy.
        responses: Mapping[Any, Any] | None = None,
        ranges: dict[Any, tuple[int, int]] | None = None,
        topics: dict[str, int] | None = None,
    ) -> None:
        self.ranges: dict[Any, tuple[int, int]] = {**SERVED_VERSIONS} if ranges is None else ranges
        self.topics = topics or {}
        self.requests: list[Seen] = []
        self.responses: dict[int, Any] = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.CONSUMER_GROUP_DESCRIBE: _no_groups,
            ApiKey.SHARE_GROUP_DESCRIBE: _no_groups,
            ApiKey.STREAMS_GROUP_DESCRIBE: _no_groups,
            **(responses or {}),
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
            with suppress(OSError):  # the client has closed it
                stream.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def seen(self, key: int) -> list[Any]:
        """Return the received requests of an API."""
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
                    response = self._respond(frame)
                    if response is None:
                        return
                    stream.sendall(response)
            except OSError:
                return

    def _respond(self, frame: bytes) -> bytes | None:
        number, version = struct.unpack_from(">hh", frame)
        request_type, response_type = _classes(number)
        flexible = request_type.has_flexible_header(version)
        header, position = decode_request_header(frame, 0, len(frame), flexible=flexible)
        request = request_type.decode(frame[position:], version)
        self.requests.append(Seen(number, version, request))
        response = self.responses[number]
        if callable(response):
            response = response(request, version)
        if response is SILENCE:
            return b""
        if response is None or isinstance(response, bytes):
            return response
        if isinstance(response, tuple):  # a message in another version than that of the request
            response, version = response
        assert isinstance(response, response_type)
        return response_type.framer(version)(response, header.correlation_id)

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
    """Return the response that every requested group has the coordinator at one address."""
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


def in_turn(*responses: Any) -> Callable[[Any, int], Any]:
    """Respond to each request with the next response; the last one is repeated."""
    left = list(responses)

    def respond(request: Any, version: int) -> Any:
        response = left.pop(0) if len(left) > 1 else left[0]
        return response(request, version) if callable(response) else response

    return respond


def _classes(number: int) -> tuple[type[Message], type[Message]]:
    key = ApiKey(number)
    return request_class(key), response_class(key)


def _no_groups(request: Any, version: int) -> Any:
    """Answer that none of the groups is of the type that is asked for."""
    return refusal(request, ErrorCode.GROUP_ID_NOT_FOUND, version)


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
