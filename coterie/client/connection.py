"""One blocking connection to one broker, spoken to in the versions that both sides know.

Invariants: requests and answers alternate, so an answer's correlation id is that of the request
before it; after any failure the connection is closed and not used again, because what the socket
holds next can't be told.
"""

import socket
import struct
import time
from typing import Self, TypeVar

from coterie import __version__
from coterie.address import Address
from coterie.client.errors import (
    BrokerTimedOut,
    BrokerUnreachable,
    ConnectionLost,
    VersionUnsupported,
    error_name,
)
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.frames import MAX_FRAME_BYTES, decode_response, encode_request
from coterie.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.protocol.wire import Message

R = TypeVar("R", bound=Message)

CLIENT_ID = "coterie-cli"

_RECEIVE_BYTES = 262_144
_NO_VERSION_LIMIT = 32_767
# A socket takes a timeout of 0 for "do not block", so a deadline that has passed waits this long.
_SHORTEST_WAIT_S = 0.001


class Deadline:
    """The moment by which an operation with all its retries must be over."""

    __slots__ = ("_at_s", "timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._at_s = time.monotonic() + timeout_s

    def left_s(self) -> float:
        """Seconds left; zero or less when it has passed."""
        return self._at_s - time.monotonic()


class Connection:
    """A negotiated connection; made by `open`."""

    def __init__(self, address: Address, stream: socket.socket) -> None:
        self.address = address
        self.broken = False
        self._socket = stream
        self._correlation_id = 0
        self._ranges: dict[int, tuple[int, int]] = {}

    @classmethod
    def open(cls, address: Address, deadline: Deadline) -> Self:
        """Connect and learn the versions the broker serves.

        Raises:
            BrokerUnreachable: nobody listens there, or the name does not resolve.
            BrokerTimedOut, ConnectionLost: somebody listens, but does not answer ApiVersions.
        """
        try:
            stream = socket.create_connection(
                address, timeout=max(deadline.left_s(), _SHORTEST_WAIT_S)
            )
        except TimeoutError as error:
            raise BrokerUnreachable(
                f"No broker reached at {address}: no connection within {deadline.timeout_s:g} s."
            ) from error
        except OSError as error:
            raise BrokerUnreachable(f"No broker reached at {address}: {_reason(error)}.") from error
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = cls(address, stream)
        connection._negotiate(deadline)
        return connection

    def close(self) -> None:
        """Close the socket; harmless when done twice."""
        self.broken = True
        self._socket.close()

    def version_for(self, cls: type[Message], highest: int = _NO_VERSION_LIMIT) -> int:
        """The version spoken for an API: the highest that broker, codec and caller can all do.

        Args:
            cls: the request or response class.
            highest: the last version whose rules the caller follows.

        Raises:
            VersionUnsupported: there is none.
        """
        assert cls.api_key is not None, f"{cls.__name__} belongs to no API"
        api = cls.__name__.removesuffix("Request").removesuffix("Response")
        low, high = cls.versions
        broker_low, broker_high = self._ranges.get(cls.api_key, (0, -1))
        version = min(high, highest, broker_high)
        if broker_high < 0:
            raise VersionUnsupported(f"The broker at {self.address} does not serve {api}.")
        if version < max(low, broker_low):
            raise VersionUnsupported(
                f"The broker at {self.address} serves {api} {broker_low} to {broker_high}; "
                f"this client speaks {low} to {min(high, highest)}."
            )
        return version

    def call(
        self,
        request: Message,
        response_type: type[R],
        deadline: Deadline,
        highest: int = _NO_VERSION_LIMIT,
    ) -> R:
        """Send a request and wait for its answer.

        Fields that the version spoken does not carry are left out, so a request may hold an old
        version's form and a new one's at once.

        Raises:
            VersionUnsupported: no common version.
            BrokerTimedOut: no answer before `deadline`.
            ConnectionLost: the broker hung up or answered nonsense.
        """
        version = self.version_for(type(request), highest)
        frame = self._exchange(request, version, deadline)
        return self._decode(response_type, version, frame)

    def _negotiate(self, deadline: Deadline) -> None:
        """Ask for the versions served; a broker that does not know ours answers error 35 in v0."""
        version = ApiVersionsRequest.versions[1]
        request = ApiVersionsRequest(
            client_software_name="coterie", client_software_version=__version__
        )
        frame = self._exchange(request, version, deadline)
        # The answer's header is never flexible, and the error code comes first in every version.
        if frame[4:6] == struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION):
            version = 0
            frame = self._exchange(request, version, deadline)
        answer = self._decode(ApiVersionsResponse, version, frame)
        if answer.error_code:
            self.close()
            raise ConnectionLost(
                f"The broker at {self.address} does not tell its versions: "
                f"{error_name(answer.error_code)}."
            )
        self._ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    def _exchange(self, request: Message, version: int, deadline: Deadline) -> bytes:
        """Send one request; the frame that answers it, without its length."""
        self._correlation_id += 1
        sent = encode_request(request, version, self._correlation_id, CLIENT_ID)
        name = type(request).__name__
        try:
            self._socket.settimeout(max(deadline.left_s(), _SHORTEST_WAIT_S))
            self._socket.sendall(sent)
            (length,) = struct.unpack(">i", self._receive(4, deadline))
            # What answers with TLS or HTTP is noticed here, before a byte of it is waited for.
            if 0 <= length <= MAX_FRAME_BYTES:
                return self._receive(length, deadline)
        except TimeoutError as error:
            self.close()
            raise BrokerTimedOut(
                f"The broker at {self.address} did not answer {name} "
                f"within {deadline.timeout_s:g} s.",
                "Raise --timeout, or look at what keeps the broker.",
            ) from error
        except OSError as error:
            self.close()
            raise ConnectionLost(
                f"The broker at {self.address} closed the connection at {name}: {_reason(error)}.",
                "" if self._ranges else _NOT_PLAINTEXT,
            ) from error
        self.close()
        raise ConnectionLost(f"What listens at {self.address} is no broker.", _NOT_PLAINTEXT)

    def _receive(self, count: int, deadline: Deadline) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            self._socket.settimeout(max(deadline.left_s(), _SHORTEST_WAIT_S))
            part = self._socket.recv(min(count - len(parts), _RECEIVE_BYTES))
            if not part:
                raise ConnectionResetError("end of stream")
            parts += part
        return bytes(parts)

    def _decode(self, response_type: type[R], version: int, frame: bytes) -> R:
        try:
            correlation_id, answer = decode_response(response_type, frame, version)
        except MalformedFrame as error:
            self.close()
            raise ConnectionLost(
                f"The broker at {self.address} answered with bytes that are no "
                f"{response_type.__name__} v{version}: {error}."
            ) from error
        if correlation_id != self._correlation_id:
            self.close()
            raise ConnectionLost(
                f"The broker at {self.address} answered request {correlation_id}, "
                f"asked was {self._correlation_id}."
            )
        return answer


_NOT_PLAINTEXT = (
    "Is it a Kafka listener without TLS and SASL? This command line speaks plain text only."
)


def _reason(error: OSError) -> str:
    """The operating system's words, without its number and in the middle of a sentence."""
    text = error.strerror or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
