"""Signed tokens of OAUTHBEARER: keys from a file or a URL, and what is refused.

Rules: [security/signed-tokens], [security/times-of-credentials].
"""

import hmac
import http.server
import json
import os
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

from coterie.protocol.messages.metadata import MetadataRequest
from coterie.server.config.sources import ConfigError
from tests.unit.security.test_oauthbearer import message
from tests.unit.security.test_oauthbearer import token as unsigned
from tests.unit.server.logins import LoginClient, StoppedClock, framed, sasl_broker

_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
UNSECURED = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "listener.name.sasl.oauthbearer.sasl.jaas.config": _MODULE,
}
SIGNED = {**UNSECURED, "sasl.server.callback.handler.class": _HANDLER}
# A night.
SLEPT_MS = 8 * 3600 * 1000
REFUSED = b'{"status":"invalid_token"}'


@cache
def keys() -> dict[str, Any]:
    return {
        "rsa": RSAKey.generate_key(2048, {"kid": "rsa"}),
        "ec": ECKey.generate_key("P-256", {"kid": "ec"}),
        "new": ECKey.generate_key("P-256", {"kid": "new"}),
    }


def key_set(*names: str) -> str:
    return json.dumps(KeySet([keys()[name] for name in names]).as_dict(private=False))


def signed(
    name: str = "rsa", algorithm: str = "RS256", key_id: str | None = "", **claims: Any
) -> str:
    now = int(time.time())
    header = {"alg": algorithm} if key_id is None else {"alg": algorithm, "kid": key_id or name}
    content = {"sub": "alice", "exp": now + 60, "iat": now - 1, **claims}
    content = {key: value for key, value in content.items() if value is not None}
    return jwt.encode(header, content, keys()[name], algorithms=[algorithm])


def answer(running: Any, token: str) -> tuple[int, bytes]:
    with LoginClient(running) as client:
        assert client.handshake("OAUTHBEARER").error_code == 0
        found = client.authenticate(message(token))
        return found.error_code, found.auth_bytes


OK = 0, b""
NO = 0, REFUSED


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_text(key_set("rsa", "ec"))
    return path


def settings(url: str, **more: str) -> dict[str, str]:
    given = {"sasl.oauthbearer.jwks.endpoint.url": url}
    return SIGNED | given | {f"sasl.oauthbearer.{name}": value for name, value in more.items()}


def test_tokens_of_a_file_of_keys(file: Path) -> None:
    now = int(time.time())
    with sasl_broker(settings(f"file://{file}")) as running:
        for accepted in (
            signed(),
            signed("ec", "ES256"),
            signed(algorithm="PS384"),
            signed(key_id=None),
            signed(aud="any", iss="any", scope="a b"),
            # By less than the skew.
            signed(exp=now - 10),
            signed(iat=now + 10),
        ):
            assert answer(running, accepted) == OK
        # The public key as the secret of a checksum, which a careless validator accepts.
        claims = {"sub": "alice", "exp": now + 60, "iat": now}
        unkeyed = unsigned(claims, {"alg": "HS256", "kid": "rsa"})
        public = keys()["rsa"].as_pem(private=False)
        checksum = hmac.digest(public, unkeyed[:-1].encode(), "sha256")
        for refused in (
            signed("new", "ES256"),
            signed("new", "ES256", "ec"),
            signed(key_id="unknown"),
            unkeyed + urlsafe_b64encode(checksum).decode().rstrip("="),
            unsigned(claims),
            unsigned(claims, {"alg": "none", "kid": "rsa"}),
            signed()[:-4] + "AAAA",
            signed(exp=now - 40),
            signed(exp=None),
            signed(iat=None),
            signed(iat=now + 40),
            signed(nbf=now + 40),
            signed(sub=" "),
            signed(sub=7),
            signed(scope="a a"),
            "a.b",
        ):
            assert answer(running, refused) == NO, refused
        text = str(running.log.lines)
        assert signed().split(".")[2] not in text


@pytest.mark.parametrize("prefix", ["", "listener.name.sasl.", "listener.name.sasl.oauthbearer."])
def test_audience_and_issuer(file: Path, prefix: str) -> None:
    expected = {"expected.audience": "kafka,other", "expected.issuer": "https://issuer"}
    given = settings(f"file://{file}", **expected)
    prefixed = {
        f"{prefix}{name}" if name.startswith("sasl.oauthbearer.") else name: value
        for name, value in given.items()
    }
    with sasl_broker(prefixed) as running:
        assert answer(running, signed(aud="kafka", iss="https://issuer")) == OK
        assert answer(running, signed(aud=["x", "other"], iss="https://issuer")) == OK
        assert answer(running, signed(aud="x", iss="https://issuer")) == NO
        assert answer(running, signed(aud=7, iss="https://issuer")) == NO
        assert answer(running, signed(aud="kafka", iss="https://other")) == NO
        assert answer(running, signed()) == NO


def test_a_new_file_of_keys_counts_at_once(file: Path) -> None:
    with sasl_broker(settings(f"file://{file}")) as running:
        assert answer(running, signed("new", "ES256")) == NO
        file.write_text(key_set("new"))
        os.utime(file, ns=(1, 1))
        assert answer(running, signed("new", "ES256")) == OK
        assert answer(running, signed()) == NO
        # A file that cannot be read leaves the keys as they were.
        file.write_text("{")
        assert answer(running, signed("new", "ES256")) == OK


class Issuer:
    """Serves a set of keys."""

    def __init__(self) -> None:
        self.keys = key_set("rsa")
        self.asked = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                self.send_response(200)
                self.end_headers()
                self.wfile.write(outer.keys.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    found = Issuer()
    yield found
    found.server.shutdown()
    found.server.server_close()


def test_keys_of_a_url_are_fetched_again_for_an_unknown_key(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.server.security.signed_tokens._UNKNOWN_KEY_MS", 0)
    with sasl_broker(settings(issuer.url)) as running:
        assert answer(running, signed()) == OK
        assert issuer.asked == 1
        issuer.keys = key_set("new")
        # This login fails and lets the keys be fetched; a later one succeeds.
        assert answer(running, signed("new", "ES256")) == NO
        running.wait_for(lambda: answer(running, signed("new", "ES256")) == OK)
        issuer.keys = "no keys"
        assert answer(running, signed(key_id="unknown")) == NO
        running.wait_for(lambda: running.log.named("keys of tokens not fetched") != [])
        assert answer(running, signed("new", "ES256")) == OK


def test_a_stranger_makes_no_more_than_a_fetch_in_ten_seconds(issuer: Issuer) -> None:
    with sasl_broker(settings(issuer.url)) as running:
        for number in range(5):
            assert answer(running, signed(key_id=f"unknown-{number}")) == NO
        assert issuer.asked == 1


def test_unsecured_tokens_and_their_sessions() -> None:
    now = int(time.time())
    with sasl_broker(UNSECURED) as running:
        claims = {"sub": "alice", "exp": now + 3600}
        with LoginClient(running) as client:
            client.handshake("OAUTHBEARER")
            lifetime_ms = client.authenticate(message(unsigned(claims))).session_lifetime_ms
            assert 3_590_000 < lifetime_ms <= 3_600_000
        with LoginClient(running) as client:
            client.handshake("OAUTHBEARER")
            refused = client.authenticate(message(unsigned(claims | {"exp": now - 1})))
            assert (refused.error_code, refused.auth_bytes) == NO
            failed = client.authenticate(b"\x01")
            assert failed.error_code == 58
            assert failed.error_message == REFUSED.decode()
            assert client.rest() == b""


@pytest.mark.parametrize("is_signed", [True, False])
def test_a_machine_that_has_slept_takes_new_tokens(file: Path, *, is_signed: bool) -> None:
    clock = StoppedClock()
    now = (clock() + SLEPT_MS) // 1000
    given = settings(file.as_uri()) if is_signed else UNSECURED
    make = signed if is_signed else lambda **claims: unsigned({"sub": "alice", **claims})
    with sasl_broker(given, clock, SLEPT_MS) as running:
        with LoginClient(running) as client:
            client.handshake("OAUTHBEARER")
            new = client.authenticate(message(make(iat=now - 1, exp=now + 60)))
            assert (new.error_code, new.session_lifetime_ms) == (0, 60_000)
            clock.now_ms += 59_000
            assert client.call(MetadataRequest(topics=[]), 4).brokers
            clock.now_ms += 1_000
            client.socket.sendall(framed(MetadataRequest(topics=[]), 4))
            assert client.rest() == b""
        assert running.close_errors() == ["SessionExpired"]
        expired = make(iat=now - 60, exp=now - 40)
        assert answer(running, expired) == NO


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (SIGNED, "jwks.endpoint.url is not set"),
        (settings("ftp://x/keys"), "no file:, http: or https:"),
        (settings("file:///nowhere/keys"), "keys at /nowhere/keys can't be read: No such file"),
        (SIGNED | {"sasl.server.callback.handler.class": "com.example.Mine"}, "no class is loaded"),
    ],
)
def test_wrong_settings_end_the_start(given: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        sasl_broker(given).__enter__()
