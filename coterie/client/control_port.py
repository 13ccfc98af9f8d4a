"""HTTP to the control port of `coterie serve --control`: a request and its answer, as JSON.

An answer that is an error has `kind`, `error` and `remedy`; docs/control.md lists them.
"""

import http.client
import json
import ssl
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from coterie.client.errors import ClientError

_HTTPS = "https"
_SCHEMES = ("http", _HTTPS)
# OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH.
_FOR_ANOTHER_HOST = (62, 64)


class ControlAnswer(NamedTuple):
    """An answer: its HTTP status, and its body as JSON."""

    status: int
    body: Any

    @property
    def is_error(self) -> bool:
        """Whether the request was refused."""
        return self.status != http.client.OK


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
        if parts.scheme not in _SCHEMES or not parts.hostname or not parts.port:
            raise ValueError(f"'{url}' is no URL such as http://127.0.0.1:8081")
        if not token.isascii() or not token.isprintable():
            raise ValueError("a token is of printable ASCII characters")
        return cls(url, token, timeout_s)

    def send(self, method: str, path: str, body: Any = None) -> ControlAnswer:
        """Send a request; return its answer.

        Args:
            method: of HTTP.
            path: with its query, escaped.
            body: the JSON of a POST; None for none.

        Raises:
            ControlUnreachable: nothing answers there, or something else than a control port.
        """
        connection = self._connection()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = b"" if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            return ControlAnswer(response.status, json.loads(response.read()))
        except TimeoutError as error:
            text = f"The control port at {self.url} does not answer within {self.timeout_s:g} s."
            raise ControlUnreachable(text) from error
        except ssl.SSLError as error:
            raise ControlUnreachable(*self._tls_failed(error)) from error
        except (http.client.HTTPException, ValueError) as error:
            text = f"What answers at {self.url} is no control port."
            remedy = "" if self._has_tls else "If it has TLS, its URL begins with https://."
            raise ControlUnreachable(text, remedy) from error
        except OSError as error:
            text = f"No control port reached at {self.url}: {error.strerror or error}."
            raise ControlUnreachable(text) from error
        finally:
            connection.close()

    def _tls_failed(self, error: ssl.SSLError) -> tuple[str, str]:
        """Return why a handshake has failed, and what to do about it."""
        if not isinstance(error, ssl.SSLCertVerificationError):
            text = f"TLS with the control port at {self.url} fails: {error.reason or error}."
            return text, "If it has no TLS, its URL begins with http://."
        host = urlsplit(self.url).hostname
        if error.verify_code in _FOR_ANOTHER_HOST:
            text = f"The certificate of the control port at {self.url} is not for {host}."
            return text, "Name the port with --control-url by a host that is in its certificate."
        text = f"The certificate of the control port at {self.url} is not trusted."
        return text, "Name the file of its authority in SSL_CERT_FILE."

    @property
    def _has_tls(self) -> bool:
        return urlsplit(self.url).scheme == _HTTPS

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host = str(parts.hostname)
        if not self._has_tls:
            return http.client.HTTPConnection(host, parts.port, timeout=self.timeout_s)
        return http.client.HTTPSConnection(host, parts.port, timeout=self.timeout_s)
