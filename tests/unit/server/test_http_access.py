"""The HTTP ports: where they may listen, tokens, and TLS [metrics/access]."""

import re
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from coterie.server.network.http_access import HttpAccess, has_token
from tests.unit.server.certificates import authority
from tests.unit.server.process import run, serving
from tests.unit.server.running import PATIENCE_S

METRICS = ("--data-dir", ":memory:", "--metrics-port", "0")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    issued = authority().issue("localhost", ["localhost", "127.0.0.1"])
    (tmp_path / "server.pem").write_text(issued.pem)
    return tmp_path / "server.pem"


@pytest.mark.parametrize(
    ("given", "is_right"),
    [
        (b"Bearer secret", True),
        (b"bearer  secret ", True),
        (b"Basic secret", False),
        (b"Bearer secre", False),
        (b"Bearer secrets", False),
        (b"secret", False),
        (b"", False),
    ],
)
def test_token_of_a_request(given: bytes, is_right: bool) -> None:
    assert has_token(given, b"secret") is is_right


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_loopback_needs_nothing(host: str) -> None:
    HttpAccess().check(host, "--metrics-port", "--metrics-token")


@pytest.mark.parametrize("access", [HttpAccess(), HttpAccess(token="t")])
@pytest.mark.parametrize("host", ["", "0.0.0.0", "10.1.2.3", "::"])
def test_other_addresses_need_token_and_certificate(access: HttpAccess, host: str) -> None:
    with pytest.raises(ValueError, match="Give --metrics-token and --http-certificate"):
        access.check(host, "--metrics-port", "--metrics-token")


def test_certificate_alone_does_not_open_an_address(certificate: Path) -> None:
    with pytest.raises(ValueError, match="Give --metrics-token"):
        HttpAccess(str(certificate)).check("0.0.0.0", "--metrics-port", "--metrics-token")
    HttpAccess(str(certificate), "t").check("0.0.0.0", "--metrics-port", "--metrics-token")


def test_file_that_is_no_certificate(tmp_path: Path) -> None:
    (tmp_path / "file.pem").write_text("no certificate")
    result = run(*METRICS, "--http-certificate", str(tmp_path / "file.pem"))
    assert result.returncode == 2
    assert "a PEM file with an unencrypted key and its certificates is needed" in result.stderr


def test_control_off_the_loopback_needs_a_certificate() -> None:
    result = run("--data-dir", ":memory:", "--control", "0", "--control-host", "0.0.0.0")
    assert result.returncode == 2
    assert "--control on 0.0.0.0 lets other machines read it" in result.stderr


def test_scraper_needs_the_token_over_tls(certificate: Path) -> None:
    given = ("--metrics-token", "secret", "--http-certificate", str(certificate))
    with serving(*METRICS, *given) as process:
        assert process.stdout is not None
        process.stdout.readline()
        match = re.fullmatch(r"metrics on (https://\S+)\n", process.stdout.readline())
        assert match
        trust = ssl.create_default_context(cadata=authority().certificate)
        request = urllib.request.Request(match[1], headers={"Authorization": "Bearer secret"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S, context=trust) as response:
            assert b"kafka_coordinator_group_num_groups" in response.read()
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            urllib.request.urlopen(match[1], timeout=PATIENCE_S, context=trust)
        assert refused.value.headers["www-authenticate"] == "Bearer"
        refused.value.close()
