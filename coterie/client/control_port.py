"""HTTP to the control port of `coterie serve --control`: a request and its answer, as JSON.

An answer that is an error has `kind`, `error` and `remedy`; docs/control.md lists them.
"""

import json
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from coterie.client.errors import ClientError
from coterie.client.http_port import SCHEMES, HttpAnswer, HttpPort


class ControlUnreachable(ClientError):  # noqa: N818 - the name says what happened
    """Nothing answers at the address of a control port."""


class ControlPort(NamedTuple):
    """Where a control port is.

    Attributes:
        url: its URL.
        token: what it wants to be sent.
        timeout_s: how long an answer may take.
    """

    url: str
    token: str
    timeout_s: float

    @classmethod
    def of(cls, url: str, token: str, timeout_s: float) -> Self:
        """Return it after a look at the URL.

        Raises:
            ValueError: this is no URL of HTTP with a host and a port.
        """
        parts = urlsplit(url)
        # The port is read here, because a wrong one is an error only then.
        if parts.scheme not in SCHEMES or not parts.hostname or not parts.port:
            raise ValueError(f"'{url}' is no URL such as http://127.0.0.1:8081")
        if not token.isascii() or not token.isprintable():
            raise ValueError("a token is of printable ASCII characters")
        return cls(url, token, timeout_s)

    def send(self, method: str, path: str, body: Any = None) -> HttpAnswer:
        """Send a request; return its answer.

        Args:
            method: of HTTP.
            path: with its query, escaped.
            body: the JSON of a POST; None for none.

        Raises:
            ControlUnreachable: nothing answers there, or something else than a control port.
        """
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = b"" if body is None else json.dumps(body).encode()
        port = HttpPort(
            "control port", self.url, self.timeout_s, "--control-url", ControlUnreachable
        )
        return port.send(method, path, headers, data)
