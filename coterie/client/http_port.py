"""JSON over HTTP from something that is not Kafka: a control port, or a schema registry.

A request has a connection of its own and follows no redirection, so what it is sent, such as a
token, goes to the host of the URL only. Invariant: each failure is a `ClientError` with the name of
what was asked; errors show the URL, which has no password.
"""

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from coterie.client.errors import ClientError

_HTTPS = "https"
SCHEMES = ("http", _HTTPS)
# OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH.
_FOR_ANOTHER_HOST = (62, 64)


class HttpAnswer(NamedTuple):
    """An answer: its HTTP status, and its body as JSON."""

    status: int
    body: Any

    @property
    def is_error(self) -> bool:
        """Whether the request was refused."""
        return self.status != http.client.OK


class HttpPort(NamedTuple):
    """Where something answers.

    Attributes:
        what: what it is, as sentences name it: "control port".
        url: its URL, without user and password.
        timeout_s: how long an answer may take.
        option: the option that names it, for remedies.
        failure: the class of its errors.
        most_bytes: how long an answer may be; None for any length.
    """

    what: str
    url: str
    timeout_s: float
    option: str
    failure: type[ClientError]
    most_bytes: int | None = None

    def send(
        self, method: str, path: str, headers: Mapping[str, str], data: bytes = b""
    ) -> HttpAnswer:
        """Send a request; return its answer.

        Args:
            method: of HTTP.
            path: with its query, escaped.
            headers: of the request.
            data: its body.

        Raises:
            ClientError: nothing answers there, or something else; of the class `failure`.
        """
        connection = self._connection()
        try:
            connection.request(method, path, data, dict(headers))
            response = connection.getresponse()
            body = response.read(self.most_bytes)
            if self.most_bytes is not None and len(body) == self.most_bytes and response.read(1):
                text = f"The {self.what} at {self.url} answers with more than {self.most_bytes:,}"
                raise self.failure(f"{text} bytes.")
            return HttpAnswer(response.status, json.loads(body))
        except TimeoutError as error:
            text = f"The {self.what} at {self.url} does not answer within {self.timeout_s:g} s."
            raise self.failure(text) from error
        except ssl.SSLError as error:
            raise self.failure(*self._tls_failed(error)) from error
        except (http.client.HTTPException, ValueError) as error:
            text = f"What answers at {self.url} is no {self.what}."
            remedy = "" if self._has_tls else "If it has TLS, its URL begins with https://."
            raise self.failure(text, remedy) from error
        except OSError as error:
            text = f"No {self.what} reached at {self.url}: {error.strerror or error}."
            raise self.failure(text) from error
        finally:
            connection.close()

    def _tls_failed(self, error: ssl.SSLError) -> tuple[str, str]:
        """Return why a handshake has failed, and what to do about it."""
        if not isinstance(error, ssl.SSLCertVerificationError):
            text = f"TLS with the {self.what} at {self.url} fails: {error.reason or error}."
            return text, "If it has no TLS, its URL begins with http://."
        host = urlsplit(self.url).hostname
        if error.verify_code in _FOR_ANOTHER_HOST:
            text = f"The certificate of the {self.what} at {self.url} is not for {host}."
            return text, f"Name it with {self.option} by a host that is in its certificate."
        text = f"The certificate of the {self.what} at {self.url} is not trusted."
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
