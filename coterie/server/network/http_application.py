"""What the three HTTP faces have in common: metrics, control and console.

Each is an ASGI application (ASGI 3) that says what it serves to a request that is permitted. Here
are the order of the checks, and how an answer or an error is sent. Invariants: on the loopback a
request with a foreign Host or Origin is refused before anything else; every error is an answer, and
one that is no error of the client is reported; a client that is gone is not answered.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from coterie.server.network.http_errors import Kind, Refused, failure_of
from coterie.server.network.http_exchange import (
    JSON_TYPE,
    Answer,
    Disconnected,
    Headers,
    Receive,
    Scope,
    Send,
    check_host,
    check_origin,
    check_token,
    headers_of,
    send_answer,
)


class HttpApplication:
    """The base of an application.

    Attributes:
        raised: the exceptions that are errors of the client, with their kinds.
        remedies: other remedies than those of `http_errors`, by the kind of error.
        more_headers: headers of every answer.
    """

    raised: Mapping[type[Exception], Kind] = {}
    remedies: Mapping[str, str] = {}
    more_headers: tuple[tuple[bytes, bytes], ...] = ()

    def __init__(
        self,
        token: str | None,
        report_failure: Callable[[BaseException], None],
        *,
        is_local: bool = True,
    ) -> None:
        """Prepare to serve.

        Args:
            token: what clients send; None for nothing.
            report_failure: called with errors that are bugs of ours.
            is_local: whether the port is that of the loopback, so that Host and Origin are checked.
        """
        self._token = None if token is None else token.encode()
        self._report_failure = report_failure
        self._is_local = is_local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(scope, receive, send)
        except Disconnected:
            return
        if answer is not None:
            headers = (*answer.headers, *self.more_headers)
            await send_answer(send, answer._replace(headers=headers))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> Answer | None:
        try:
            headers = headers_of(scope)
            if self._is_local:
                check_host(headers)
                check_origin(headers)
            return await self._serve(scope, headers, receive, send)
        except (Disconnected, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - every error is an answer
            return self._failed(error)

    async def _serve(
        self, scope: Scope, headers: Headers, receive: Receive, send: Send
    ) -> Answer | None:
        """Answer a request that is not refused for where it comes from; None if it is answered.

        Raises:
            Refused: it is refused; every other exception is an answer, too.
        """
        raise NotImplementedError

    def _check_token(self, headers: Headers) -> None:
        """Check the token of a request.

        Raises:
            Refused: it is missing or wrong.
        """
        if self._token is not None:
            check_token(headers, self._token)

    def _failed(self, error: Exception) -> Answer:
        status, body = failure_of(error, self.raised)
        if body["kind"] == "InternalError":
            self._report_failure(error)
        body["remedy"] = self.remedies.get(body["kind"], body["remedy"])
        return json_answer(body, status, error.headers if isinstance(error, Refused) else ())


def json_answer(
    body: Any, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Answer:
    """Return an answer with a JSON value."""
    return Answer(status, json.dumps(body).encode(), JSON_TYPE, headers)
