"""The connections of the consumer for tests: versions, frames, throttle times."""

import asyncio
from collections.abc import Callable, Generator
from typing import TypeVar

from coterie.client.errors import LoginFailed
from coterie.client.login import requests
from coterie.client.mechanisms import Credentials, scram
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.frames import decode_response, encode_request
from coterie.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.protocol.wire import Message
from coterie.security.mechanisms import Mechanism
from coterie.security.scram import NUMBERS

R = TypeVar("R", bound=Message)

_LENGTH_BYTES = 4
_MANY_BYTES = 1 << 20
# How long it waits after a refused login, and how long before the end of one it logs in again.
_REFUSED_S = 0.5
_SPARE_S = 1.0


class Lost(Exception):  # noqa: N818 - a lost connection is no error of ours
    """The connection has ended, or cannot be made."""


class Link:
    """One connection, on which one request is under way at a time."""

    def __init__(
        self,
        flaws: frozenset[str],
        client_id: str,
        login: Credentials | None,
        report: Callable[[str], None],
    ) -> None:
        self._flaws = flaws
        self._login = login
        self._report = report
        # When the login ends; None for never.
        self._login_ends_s: float | None = None
        self._client_id = client_id
        self._lock = asyncio.Lock()
        self._versions: dict[int, tuple[int, int]] = {}
        self._throttled_until_s = 0.0
        self._count = 0
        self._writer: asyncio.StreamWriter | None = None

    async def open(self, host: str, port: int) -> None:
        """Connect, and ask for the broker's versions."""
        try:
            self._reader, self._writer = await asyncio.open_connection(host, port)
        except OSError as error:
            raise Lost(str(error)) from None
        request = ApiVersionsRequest(client_software_name="tiny", client_software_version="1.0")
        version = SERVED_VERSIONS[ApiKey.API_VERSIONS][1]
        await self._write(encode_request(request, version, 0, self._client_id))
        frame = await self._read()
        # The error comes first in every version, and a refusal is in version 0.
        if int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION:
            if "gives-up-on-refused-version" in self._flaws:
                self.close()
                raise Lost("refused")
            version = 0
            await self._write(encode_request(request, version, 0, self._client_id))
            frame = await self._read()
        response = self._decoded(ApiVersionsResponse, frame, version)
        self._versions = {
            each.api_key: (each.min_version, each.max_version) for each in response.api_keys
        }
        if self._login is not None:
            if "asks-before-login" in self._flaws:
                await self._write(encode_request(MetadataRequest(topics=[]), 4, 1, self._client_id))
            await self._log_in(self._login)

    async def _log_in(self, login: Credentials) -> None:
        try:
            await self._send_tokens(login)
        except LoginFailed as error:
            self._report(str(error))
            if "gives-up-when-refused" in self._flaws:
                await asyncio.Event().wait()
            await asyncio.sleep(0 if "hammers-logins" in self._flaws else _REFUSED_S)
            self.close()
            raise Lost(str(error)) from None

    async def _send_tokens(self, login: Credentials) -> None:
        steps = requests(login, "the broker")
        lifetime_ms = 0
        try:
            step = next(steps)
            while True:
                await self._write(encode_request(step.message, step.version, 0, self._client_id))
                answer = self._decoded(step.response, await self._read(), step.version)
                lifetime_ms = getattr(answer, "session_lifetime_ms", 0)
                step = steps.send(answer)
        except StopIteration:
            pass
        now_s = asyncio.get_running_loop().time()
        self._login_ends_s = now_s + lifetime_ms / 1000 if lifetime_ms else None

    def version(self, api: ApiKey) -> int:
        """Return the newest version that both sides know."""
        newest = SERVED_VERSIONS[api][1]
        if "lets-broker-name-it" in self._flaws and api is ApiKey.CONSUMER_GROUP_HEARTBEAT:
            return 0
        if "ignores-announced-versions" in self._flaws:
            return newest
        if api not in self._versions:
            raise Lost(f"{api.kafka_name} is not announced")
        return min(newest, self._versions[api][1])

    async def ask(self, request: Message, response: type[R]) -> R:
        """Return the response to a request."""
        api = ApiKey(type(request).api_key or 0)
        async with self._lock:
            loop = asyncio.get_running_loop()
            if "ignores-throttle" not in self._flaws:
                await asyncio.sleep(max(0.0, self._throttled_until_s - loop.time()))
            ends_s = self._login_ends_s
            if ends_s is not None and not self._flaws & {"logs-in-once", "joins-anew-when-cut"}:
                assert self._login is not None, "it has logged in"
                if loop.time() > ends_s - _SPARE_S:
                    await self._log_in(self._login)
            self._count += 1
            version = self.version(api)
            await self._write(encode_request(request, version, self._count, self._client_id))
            answer = self._decoded(response, await self._read(), version)
            throttle_ms = getattr(answer, "throttle_time_ms", 0)
            self._throttled_until_s = loop.time() + throttle_ms / 1000
            return answer

    def _decoded(self, response: type[R], frame: bytes, version: int) -> R:
        try:
            correlation_id, answer = decode_response(response, frame, version)
        except MalformedFrame as error:
            self.close()
            raise Lost(str(error)) from None
        if "refuses-unknown-tags" in self._flaws:
            known = response.framer(version)(answer, correlation_id)
            if len(known) != _LENGTH_BYTES + len(frame):
                self.close()
                raise Lost("unknown fields")
        return answer

    async def _write(self, data: bytes) -> None:
        if self._writer is None or self._writer.is_closing():
            raise Lost("closed")
        self._writer.write(data)

    async def _read(self) -> bytes:
        try:
            if "expects-whole-frames" in self._flaws:
                return (await self._reader.read(_MANY_BYTES))[_LENGTH_BYTES:]
            length = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES), "big")
            return await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, OSError):
            self.close()
            raise Lost("closed") from None

    def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()


def with_its_password(credentials: Credentials) -> Generator[bytes, bytes, None]:
    """Yield the tokens of SCRAM with the password as the nonce: a flaw."""
    number = NUMBERS[Mechanism(credentials.mechanism)]
    return scram(credentials, number, credentials.secret)
