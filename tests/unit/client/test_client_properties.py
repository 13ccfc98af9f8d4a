"""Client properties: which are read, which are ignored, and what is said of wrong ones.

Rules: [client/properties].
"""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from coterie.client.client_properties import credentials_of, security_of
from coterie.client.errors import ClientError, LoginFailed
from coterie.client.security import PLAINTEXT
from coterie.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE

JAAS = "sasl.jaas.config"
SASL = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN"}


def test_no_properties_mean_plain_text() -> None:
    assert security_of({}) is PLAINTEXT
    assert security_of({"client.id": "x", "sasl.login.refresh.buffer.seconds": "3"}) is PLAINTEXT


def test_user_and_password_of_the_login_module() -> None:
    jaas = PLAIN_MODULE + ' required username="a\\"b" password=plain;'
    found = credentials_of(security_of({**SASL, JAAS: jaas}))
    assert (found.mechanism, found.user, found.secret) == ("PLAIN", 'a"b', "plain")


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"security.protocol": "TLS"}, "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"ssl.truststore.locaton": "x"}, "did you mean ssl.truststore.location"),
        ({"security.protocol": "SASL_SSL"}, "does not have the SASL mechanism GSSAPI"),
        (SASL, "the class of a login module is missing"),
        ({**SASL, JAAS: f"{PLAIN_MODULE} required;"}, "names no user"),
        ({**SASL, JAAS: f'{PLAIN_MODULE} required username="u"'}, "does not end with ;"),
        (
            {**SASL, JAAS: f'{PLAIN_MODULE} required username="u;'},
            "no word, quoted text, = or ; follows",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/no/such"},
            "/no/such cannot be read",
        ),
    ],
)
def test_wrong_properties(properties: dict[str, str], text: str) -> None:
    with pytest.raises(ClientError, match=text):
        security_of(properties)


def test_store_that_is_no_certificate(tmp_path: Path) -> None:
    store = tmp_path / "trust.pem"
    store.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    properties = {"security.protocol": "SSL", "ssl.truststore.location": str(store)}
    with pytest.raises(
        ClientError, match=r"ssl\.truststore\.location: OpenSSL cannot read the certificates"
    ):
        security_of(properties)


class Endpoint(BaseHTTPRequestHandler):
    """Issues a token to a client with the right secret."""

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        is_right = self.headers["Authorization"] == "Basic aWQ6c2VjcmV0"  # id:secret
        self.send_response(200 if is_right else 401)
        self.end_headers()
        self.wfile.write(f'{{"access_token": "token for {form}"}}'.encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()
        thread.join()


def oauth(endpoint: str, secret: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": endpoint,
        JAAS: f'{OAUTHBEARER_MODULE} required clientId="id" clientSecret="{secret}" scope=s;',
    }


def test_token_is_fetched(endpoint: str) -> None:
    found = credentials_of(security_of(oauth(endpoint, "secret")))
    assert found.secret == "token for grant_type=client_credentials&scope=s"


def test_refused_token_has_the_status_and_no_secret(endpoint: str) -> None:
    with pytest.raises(LoginFailed, match="HTTP status 401") as failed:
        credentials_of(security_of(oauth(endpoint, "hush")))
    assert "hush" not in str(failed.value)


def test_token_is_not_read_from_a_file() -> None:
    with pytest.raises(LoginFailed, match="no http or https address"):
        credentials_of(security_of(oauth("file:///etc/passwd", "x")))
