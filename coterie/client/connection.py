"""One blocking connection to one broker.

A request is sent in the highest version that both the broker and this client support
[client/negotiation]. Invariants: one request is in flight at a time, so the
next response belongs to it; after a failure the connection is closed and not used again, because
the position in the byte stream is then unknown.
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
    LoginFailed,
    VersionUnsupported,
    error_name,
)
from coterie.client.security import PLAINTEXT, Security
from coterie.protocol.api_keys import OLDEST_VERSIONS, SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.frames import MAX_FRAME_BYTES, decode_response, encode_request
from coterie.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.protocol.wire import Message

R = TypeVar("R", bound=Message)

CLIENT_ID = "coterie-cli"

_RECEIVE_BYTES = 262_144
_NO_VERSION_LIMIT = 32_767
# A socket timeout of 0 means non-blocking, so an expired deadline still waits this long.
_MIN_TIMEOUT_S = 0.001


class Deadline:
    """The time at which an operation, including its retries, is given up [client/deadline]."""

    __slots__ = ("_at_s", "timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._at_s = time.monotonic() + timeout_s

    def left_s(self) -> float:
        """Return the seconds left; zero or less after the deadline."""
        return self._at_s - time.monotonic()


class Connection:
    """A connection that has logged in and knows the broker's versions; made by `open`."""

    def __init__(self, address: Address, stream: socket.socket, *, is_secured: bool) -> None:
        self.address = address
        self._hint = "" if is_secured else _NOT_SECURED
        self.broken = False
        self._socket = stream
        self._correlation_id = 0
        self._ranges: dict[int, tuple[int, int]] = {}

    @classmethod
    def open(cls, address: Address, deadline: Deadline, security: Security = PLAINTEXT) -> Self:
        """Connect to a broker, ask for the versions it supports, and log in.

        Raises:
            BrokerUnreachable: the connection is refused, or the host name does not resolve.
            BrokerTimedOut, ConnectionLost: there is no valid response to ApiVersions.
            LoginFailed: TLS or the login fails.
        """
        try:
            stream = socket.create_connection(
                address, timeout=max(deadline.left_s(), _MIN_TIMEOUT_S)
            )
        except TimeoutError as error:
            raise BrokerUnreachable(
                f"No broker reached at {address}: no connection within {deadline.timeout_s:g} s."
            ) from error
        except OSError as error:
            raise BrokerUnreachable(f"No broker reached at {address}: {_reason(error)}.") from error
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if security.context is not None:
            from coterie.client.tls import encrypted

            timeout_s = max(deadline.left_s(), _MIN_TIMEOUT_S)
            stream = encrypted(stream, address, timeout_s, security.context)
        connection = cls(address, stream, is_secured=security is not PLAINTEXT)
        connection._negotiate(deadline)
        if security.mechanism:
            connection._log_in(security, deadline)
        return connection

    def close(self) -> None:
        """Close the socket; closing it again has no effect."""
        self.broken = True
        self._socket.close()

    def version_for(self, cls: type[Message], highest: int = _NO_VERSION_LIMIT) -> int:
        """Return the version in which an API is used: the highest that all support.

        Args:
            cls: the request or response class.
            highest: the last version that the caller supports.

        Raises:
            VersionUnsupported: there is no common version.
        """
        assert cls.api_key is not None, f"{cls.__name__} belongs to no API"
        api = cls.__name__.removesuffix("Request").removesuffix("Response")
        low, high = cls.versions
        if cls.api_key in OLDEST_VERSIONS:
            # Versions that Kafka 4 has removed lack what this client has to say.
            low = SERVED_VERSIONS[ApiKey(cls.api_key)][0]
        broker_low, broker_high = self._ranges.get(cls.api_key, (0, -1))
        version = min(high, highest, broker_high)
        if broker_high < 0:
            raise VersionUnsupported(f"The broker at {self.address} does not support {api}.")
        if version < max(low, broker_low):
            raise VersionUnsupported(
                f"The broker at {self.address} supports {api} {broker_low} to {broker_high}; "
                f"this client supports {low} to {min(high, highest)}."
            )
        return version

    def call(
        self,
        request: Message,
        response_type: type[R],
        deadline: Deadline,
        highest: int = _NO_VERSION_LIMIT,
    ) -> R:
        """Send a request and return its response.

        Fields that do not exist in the negotiated version are left out, so a request can have the
        fields of old and of new versions at the same time.

        Raises:
            VersionUnsupported: there is no common version.
            BrokerTimedOut: there was no response before the deadline.
            ConnectionLost: the broker closed the connection, or its response is malformed.
        """
        version = self.version_for(type(request), highest)
        frame = self._exchange(request, version, deadline)
        return self._decode(response_type, version, frame)

    def _negotiate(self, deadline: Deadline) -> None:
        """Ask for the supported versions, in version 0 if the broker does not support ours."""
        version = ApiVersionsRequest.versions[1]
        request = ApiVersionsRequest(
            client_software_name="coterie", client_software_version=__version__
        )
        frame = self._exchange(request, version, deadline)
        # In every version the error code follows the correlation id: the header of this response is
        # never flexible [framing/request-header].
        if frame[4:6] == struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION):
            version = 0
            frame = self._exchange(request, version, deadline)
        response = self._decode(ApiVersionsResponse, version, frame)
        if response.error_code:
            self.close()
            raise ConnectionLost(
                f"The broker at {self.address} did not state its versions: "
                f"{error_name(response.error_code)}."
            )
        self._ranges = {
            api.api_key: (api.min_version, api.max_version) for api in response.api_keys
        }

    def _log_in(self, security: Security, deadline: Deadline) -> None:
        """Log in [client/mechanisms].

        Raises:
            LoginFailed: the broker refuses the login.
        """
        from coterie.client.client_properties import credentials_of
        from coterie.client.login import requests

        login = requests(credentials_of(security), f"The broker at {self.address}")
        try:
            step = next(login)
            while True:
                frame = self._exchange(step.message, step.version, deadline)
                step = login.send(self._decode(step.response, step.version, frame))
        except StopIteration:
            return
        except LoginFailed:
            self.close()
            raise

    def _exchange(self, request: Message, version: int, deadline: Deadline) -> bytes:
        """Send a request and return the frame of the response, without its length."""
        self._correlation_id += 1
        sent = encode_request(request, version, self._correlation_id, CLIENT_ID)
        name = type(request).__name__
        try:
            self._socket.settimeout(max(deadline.left_s(), _MIN_TIMEOUT_S))
            self._socket.sendall(sent)
            (length,) = struct.unpack(">i", self._receive(4, deadline))
            # The first bytes of a TLS or HTTP response are no valid length [client/plaintext]. They
            # are refused here, before waiting for as many bytes as they seem to announce.
            if 0 <= length <= MAX_FRAME_BYTES:
                return self._receive(length, deadline)
        except TimeoutError as error:
            self.close()
            raise BrokerTimedOut(
                f"The broker at {self.address} did not respond to {name} "
                f"within {deadline.timeout_s:g} s.",
                "Raise --timeout, or find out what keeps the broker busy.",
            ) from error
        except OSError as error:
            self.close()
            raise ConnectionLost(
                f"The broker at {self.address} closed the connection at {name}: {_reason(error)}.",
                self._hint,
            ) from error
        self.close()
        raise ConnectionLost(
            f"The server at {self.address} does not speak the Kafka protocol.", self._hint
        )

    def _receive(self, count: int, deadline: Deadline) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            self._socket.settimeout(max(deadline.left_s(), _MIN_TIMEOUT_S))
            part = self._socket.recv(min(count - len(parts), _RECEIVE_BYTES))
            if not part:
                raise ConnectionResetError("end of stream")
            parts += part
        return bytes(parts)

    def _decode(self, response_type: type[R], version: int, frame: bytes) -> R:
        try:
            correlation_id, response = decode_response(response_type, frame, version)
        except MalformedFrame as error:
            self.close()
            raise ConnectionLost(
                f"The broker at {self.address} sent a malformed {response_type.__name__} "
                f"v{version}: {error}."
            ) from error
        if correlation_id != self._correlation_id:
            self.close()
            raise ConnectionLost(
                f"The broker at {self.address} sent a response to request {correlation_id} "
                f"instead of {self._correlation_id}."
            )
        return response


_NOT_SECURED = (
    "Check the port. A listener with TLS or SASL needs --command-config FILE, with the properties"
    " that Kafka's own tools take."
)


def _reason(error: OSError) -> str:
    """Return the operating system's message, in lower case as part of a sentence."""
    text = error.strerror or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
