"""New certificates while the broker runs: by an altered setting, and by a signal."""

import ssl
from pathlib import Path

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.incremental_alter_configs import (
    SET,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from tests.unit.server.certificates import (
    Files,
    authority,
    client_context,
    tls_broker,
    tls_client,
    write_certificates,
)
from tests.unit.server.running import RunningBroker, SocketClient
from tests.unit.server.test_tls import HELLO

_LOCATION = "listener.name.ssl.ssl.keystore.location"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return write_certificates(tmp_path)


def certificate_of(running: RunningBroker, files: Files) -> bytes | None:
    """Return the certificate that a new connection is shown."""
    with tls_client(running, client_context(files)) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        assert client.call(HELLO, 3).error_code == 0
        return client.socket.getpeercert(binary_form=True)


def write_another(path: str) -> None:
    """Write another certificate for the same server."""
    Path(path).write_text(authority().issue("localhost", ["localhost", "127.0.0.1"]).pem)


def alter(
    client: SocketClient, name: str, value: str, *, validate: bool = False
) -> tuple[int, str]:
    config = IncrementalAlterConfigsRequestConfig(name=name, config_operation=SET, value=value)
    resource = IncrementalAlterConfigsRequestResource(
        resource_type=4, resource_name="1", configs=[config]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate)
    (found,) = client.call(request, 1).responses
    return found.error_code, found.error_message or ""


class TestAltered:
    """[security/reload]"""

    def test_new_connections_get_the_new_certificate(self, files: Files) -> None:
        with (
            tls_broker(files) as running,
            tls_client(running, client_context(files)) as old,
        ):
            before = certificate_of(running, files)
            write_another(files.server)
            assert certificate_of(running, files) == before
            assert alter(old, _LOCATION, files.server, validate=True) == (0, "")
            assert certificate_of(running, files) == before
            assert alter(old, _LOCATION, files.server) == (0, "")
            assert certificate_of(running, files) != before
            assert old.call(HELLO, 3).error_code == 0

    @pytest.mark.parametrize(
        ("name", "hosts", "text"),
        [
            (
                "other",
                ["localhost", "127.0.0.1"],
                "is for CN=other, and was for CN=localhost",
            ),
            ("localhost", ["localhost", "x"], "lacks an alternative name of the one before"),
        ],
    )
    def test_a_certificate_for_another_server_is_refused(
        self, files: Files, tmp_path: Path, name: str, hosts: list[str], text: str
    ) -> None:
        path = tmp_path / "new.pem"
        path.write_text(authority().issue(name, hosts).pem)
        with (
            tls_broker(files) as running,
            tls_client(running, client_context(files)) as client,
        ):
            before = certificate_of(running, files)
            error, message = alter(client, _LOCATION, str(path))
            assert error == ErrorCode.INVALID_REQUEST
            assert text in message
            assert certificate_of(running, files) == before
            # What counts is what the start was given, as in Kafka.
            for allowed in ("dn", "san"):
                changes = f"listener.name.ssl.ssl.allow.{allowed}.changes"
                assert alter(client, changes, "true") == (0, "")
            assert alter(client, _LOCATION, str(path))[0] == ErrorCode.INVALID_REQUEST
        with (
            tls_broker(files, ssl_allow_dn_changes="true", ssl_allow_san_changes="true") as running,
            tls_client(running, client_context(files)) as client,
        ):
            assert alter(client, _LOCATION, str(path)) == (0, "")
            assert certificate_of(running, files) != before

    def test_an_alteration_lets_nobody_in(self, files: Files) -> None:
        with (
            tls_broker(files, ssl_client_auth="required") as running,
            tls_client(running, client_context(files, files.alice)) as client,
        ):
            assert alter(client, "listener.name.ssl.ssl.client.auth", "none") == (0, "")
            assert alter(client, _LOCATION, files.server) == (0, "")
            with (
                pytest.raises((ssl.SSLError, ConnectionError)),
                tls_client(running, client_context(files)) as other,
            ):
                other.call(HELLO, 3)

    def test_a_file_that_cannot_be_used_changes_nothing(self, files: Files) -> None:
        with (
            tls_broker(files) as running,
            tls_client(running, client_context(files)) as client,
        ):
            before = certificate_of(running, files)
            Path(files.server).write_text("broken")
            error, message = alter(client, _LOCATION, files.server)
            assert error == ErrorCode.INVALID_REQUEST
            assert "is neither a PEM nor a PKCS12 file" in message
            assert certificate_of(running, files) == before


class TestSignal:
    """[security/reload]"""

    def test_all_files_are_read_again(self, files: Files) -> None:
        with tls_broker(files) as running:
            before = certificate_of(running, files)
            write_another(files.server)
            running.call(running.broker.reload_certificates)
            after = certificate_of(running, files)
            assert after != before
            Path(files.server).write_text("broken")
            running.call(running.broker.reload_certificates)
            assert certificate_of(running, files) == after
            (line,) = running.log.named("certificates not reloaded")
            assert line["listener"] == "SSL"
            assert "neither a PEM" in line["reason"]
