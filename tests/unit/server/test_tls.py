"""TLS of connections, with real sockets: certificates, bytes in any pieces, ends."""

import socket
import ssl
import warnings
from pathlib import Path
from typing import Self, cast

import pytest

from coterie.address import Address
from coterie.authority import CertificateAuthority
from coterie.protocol.frames import encode_request
from coterie.protocol.messages.api_versions import ApiVersionsRequest
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from coterie.server.config.listeners import Listener, SecurityProtocol
from coterie.server.network.connection import Connection
from tests.unit.server.certificates import (
    Files,
    authority,
    certificate_of,
    client_context,
    self_signed,
    tls_broker,
    tls_client,
    write_certificates,
)
from tests.unit.server.logins import ALICE, SETTINGS, LoginClient, framed
from tests.unit.server.running import RunningBroker, SocketClient, is_closed

HELLO = ApiVersionsRequest(client_software_name="t", client_software_version="1")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


def principals(running: RunningBroker) -> set[str]:
    connections = cast("dict[Connection, str]", running.broker.connection_quotas._connections)
    return set(running.call(lambda: [each.client.principal for each in connections]))


class TestCertificates:
    """[security/client-certificates]"""

    @pytest.mark.parametrize("auth", ["none", "requested"])
    def test_without_a_certificate_a_client_is_anonymous(self, files: Files, auth: str) -> None:
        with (
            tls_broker(files, ssl_client_auth=auth) as running,
            tls_client(running, client_context(files)) as client,
        ):
            assert client.call(HELLO, 3).error_code == 0
            assert principals(running) == {"User:ANONYMOUS"}

    @pytest.mark.parametrize("auth", ["requested", "required"])
    def test_the_name_of_the_certificate_is_the_principal(self, files: Files, auth: str) -> None:
        with (
            tls_broker(files, ssl_client_auth=auth) as running,
            tls_client(running, client_context(files, files.alice)) as client,
        ):
            assert client.call(HELLO, 3).error_code == 0
            assert principals(running) == {r"User:CN=alice,O=Acme\, Inc."}

    def test_a_certificate_that_was_not_asked_for_is_not_looked_at(self, files: Files) -> None:
        with (
            tls_broker(files) as running,
            tls_client(running, client_context(files, files.untrusted)) as client,
        ):
            assert client.call(HELLO, 3).error_code == 0
            assert principals(running) == {"User:ANONYMOUS"}

    @pytest.mark.parametrize(
        ("certificate", "auth", "reason"),
        [
            (None, "required", "PEER_DID_NOT_RETURN_A_CERTIFICATE"),
            ("expired", "requested", "CERTIFICATE_VERIFY_FAILED: certificate has expired"),
            ("untrusted", "requested", "CERTIFICATE_VERIFY_FAILED: unable to get local issuer"),
            ("server", "required", "CERTIFICATE_VERIFY_FAILED: unsuitable certificate purpose"),
        ],
    )
    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    def test_others_are_refused_with_an_alert(
        self,
        files: Files,
        certificate: str | None,
        auth: str,
        reason: str,
        version: ssl.TLSVersion,
    ) -> None:
        """Under TLS 1.3 the client sees the alert at its first read."""
        path = None if certificate is None else str(getattr(files, certificate))
        context = client_context(files, path)
        context.maximum_version = version
        with tls_broker(files, ssl_client_auth=auth) as running:
            with (
                pytest.raises((ssl.SSLError, ConnectionError)),
                tls_client(running, context) as client,
            ):
                client.call(HELLO, 3)
            running.wait_for(lambda: bool(running.close_errors()))
            (line,) = running.log.named("connection closed")
            assert line["error"] == "TlsError"
            assert line["reason"].startswith(reason)
            with tls_client(running, client_context(files, files.alice)) as client:
                assert client.call(HELLO, 3).error_code == 0

    @pytest.mark.parametrize("is_self_signed", [True, False])
    def test_certificates_of_clients_are_trusted_that_the_store_has(
        self, files: Files, tmp_path: Path, *, is_self_signed: bool
    ) -> None:
        """As Java's tools make them: one self-signed certificate for each client, of one name."""
        if is_self_signed:
            pems = [self_signed("client") for _ in range(3)]
        else:
            pems = [CertificateAuthority("not in the store").issue("client").pem for _ in range(3)]
        paths = [tmp_path / f"client-{number}.pem" for number in range(3)]
        for path, pem in zip(paths, pems, strict=True):
            path.write_text(pem)
        *trusted, other = paths
        store = tmp_path / "store.pem"
        store.write_text("".join(map(certificate_of, trusted)))
        settings = {"ssl_client_auth": "required", "ssl_truststore_location": str(store)}
        with tls_broker(files, **settings) as running:
            for path in trusted:
                with tls_client(running, client_context(files, str(path))) as client:
                    assert client.call(HELLO, 3).error_code == 0
            with tls_client(running, client_context(files, str(other))) as client:
                client.send(HELLO, 3)
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    client.socket.recv(1)

    def test_rules_map_the_name(self, files: Files) -> None:
        """[security/mapping-rules]"""
        rules = "RULE:^CN=([a-z]+),.*$/$1/U"
        with (
            tls_broker(
                files, ssl_client_auth="requested", ssl_principal_mapping_rules=rules
            ) as running,
            tls_client(running, client_context(files, files.alice)) as client,
        ):
            client.call(HELLO, 3)
            assert principals(running) == {"User:ALICE"}

    def test_a_name_without_a_rule_is_refused(self, files: Files) -> None:
        with tls_broker(
            files, ssl_client_auth="requested", ssl_principal_mapping_rules="RULE:^x$/y/"
        ) as running:
            with tls_client(running, client_context(files, files.alice)) as client:
                client.send(HELLO, 3)
                assert is_closed(client.socket)
            (line,) = running.log.named("connection closed")
            assert line["error"] == "PrincipalNotMapped"
            assert "alice" in line["reason"]


@pytest.mark.parametrize("days", [-1, 1])
def test_an_expired_certificate_of_the_broker_is_logged(
    days: int, files: Files, tmp_path: Path
) -> None:
    path = tmp_path / "server.pem"
    path.write_text(authority().issue("localhost", ["localhost"], days=days).pem)
    with tls_broker(files, ssl_keystore_location=str(path)) as running:
        lines = running.log.named("certificate has expired")
        assert [each["listener"] for each in lines] == (["SSL"] if days < 0 else [])


class TestVersions:
    def test_old_versions_are_refused_with_an_alert(self, files: Files) -> None:
        context = client_context(files)
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            context.minimum_version = ssl.TLSVersion.TLSv1_1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        with tls_broker(files) as running:
            with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
                tls_client(running, context)
            (line,) = running.log.named("connection closed")
            assert line["reason"] == "UNSUPPORTED_PROTOCOL"

    @pytest.mark.parametrize(
        ("settings", "version"),
        [
            ({}, "TLSv1.3"),
            ({"ssl_enabled_protocols": "TLSv1.2"}, "TLSv1.2"),
            ({"ssl_protocol": "TLSv1.2"}, "TLSv1.2"),
            ({"ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, "TLSv1.2"),
            ({"ssl_cipher_suites": "TLS_AES_256_GCM_SHA384"}, "TLSv1.3"),
        ],
    )
    def test_the_newest_that_is_enabled(
        self, files: Files, settings: dict[str, str], version: str
    ) -> None:
        with (
            tls_broker(files, **settings) as running,
            tls_client(running, client_context(files)) as client,
        ):
            assert isinstance(client.socket, ssl.SSLSocket)
            assert client.socket.version() == version
            cipher = client.socket.cipher()
            if "ssl_cipher_suites" in settings and version == "TLSv1.2":
                assert cipher is not None
                assert cipher[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"


class MemoryClient:
    """A client of TLS whose bytes pass through the test."""

    def __init__(self, running: RunningBroker, files: Files) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client_context(files).wrap_bio(
            self.incoming, self.outgoing, server_hostname="localhost"
        )
        self.socket = running.connect()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def shake_hands(self, piece: int = 1 << 20) -> None:
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.flush(piece)
                received = self.socket.recv(1 << 16)
                if not received:
                    raise EOFError from None
                self.incoming.write(received)
            else:
                self.flush(piece)
                return

    def flush(self, piece: int = 1 << 20) -> None:
        while self.outgoing.pending:
            self.socket.sendall(self.outgoing.read(piece))

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                data += self.tls.read(size - len(data))
            except ssl.SSLWantReadError:
                received = self.socket.recv(1 << 16)
                if not received:
                    raise EOFError from None
                self.incoming.write(received)
        return data

    def answer(self) -> int:
        """Read an answer; return its correlation id."""
        frame = self.read(int.from_bytes(self.read(4)))
        return int.from_bytes(frame[:4])


class TestPieces:
    def test_every_split_of_a_record(self, files: Files) -> None:
        with tls_broker(files) as running, MemoryClient(running, files) as client:
            client.shake_hands(piece=1)
            size = len(encode_request(HELLO, 3, 1, "c")) + 22
            for split in range(size + 1):
                client.tls.write(encode_request(HELLO, 3, split, "c"))
                client.flush(max(split, 1))
                assert client.answer() == split

    def test_records_of_one_byte(self, files: Files) -> None:
        with tls_broker(files) as running, MemoryClient(running, files) as client:
            client.shake_hands()
            for byte in encode_request(HELLO, 3, 7, "c"):
                client.tls.write(bytes([byte]))
            client.flush()
            assert client.answer() == 7
            client.tls.write(b"".join(encode_request(HELLO, 3, each, "c") for each in range(50)))
            client.flush()
            assert [client.answer() for _ in range(50)] == list(range(50))

    def test_requests_in_the_last_segment_of_the_handshake(self, files: Files) -> None:
        with tls_broker(files) as running, MemoryClient(running, files) as client:
            with pytest.raises(ssl.SSLWantReadError):
                client.tls.do_handshake()
            client.flush()
            while True:
                client.incoming.write(client.socket.recv(1 << 16))
                try:
                    client.tls.do_handshake()
                except ssl.SSLWantReadError:
                    continue
                break
            client.tls.write(encode_request(HELLO, 3, 9, "c"))
            client.flush()
            assert client.answer() == 9

    def test_large_requests_and_answers(self, files: Files) -> None:
        with tls_broker(files) as running, tls_client(running, client_context(files)) as client:
            topics = [
                CreateTopicsRequestTopic(
                    name=f"topic-{n:04}", num_partitions=50, replication_factor=1
                )
                for n in range(60)
            ]
            created = client.call(CreateTopicsRequest(topics=topics, timeout_ms=1000), 5)
            assert {each.error_code for each in created.topics} == {0}
            client.send(MetadataRequest(topics=None), 9)
            found = client.receive(MetadataRequest(topics=None), 9)
            assert len(found.topics) == 60

    def test_close_notify_in_mid_frame(self, files: Files) -> None:
        with tls_broker(files) as running, MemoryClient(running, files) as client:
            client.shake_hands()
            client.tls.write(
                encode_request(HELLO, 3, 1, "c") + encode_request(HELLO, 3, 2, "c")[:9]
            )
            with pytest.raises(ssl.SSLWantReadError):
                client.tls.unwrap()
            client.flush()
            assert client.answer() == 1
            with pytest.raises((ssl.SSLZeroReturnError, EOFError)):
                client.read(1)
            running.wait_for(lambda: not len(running.broker.connection_quotas))

    def test_garbage_after_the_handshake(self, files: Files) -> None:
        with tls_broker(files) as running, MemoryClient(running, files) as client:
            client.shake_hands()
            client.socket.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
            running.wait_for(lambda: running.close_errors() == ["TlsError"])


class TestOtherProtocols:
    """[security/wrong-protocol]"""

    @pytest.mark.parametrize(
        "data",
        [b"GET / HTTP/1.1\r\n\r\n", encode_request(HELLO, 3, 1, "c"), bytes(100)],
        ids=["http", "kafka", "zeros"],
    )
    def test_plaintext_on_a_tls_port_is_closed_at_once(self, files: Files, data: bytes) -> None:
        with tls_broker(files) as running:
            with tls_client(running, client_context(files)) as other:
                with running.connect() as stream:
                    stream.sendall(data)
                    assert is_closed(stream)
                assert other.call(HELLO, 3).error_code == 0
            assert running.close_errors() == ["TlsError"]

    def test_tls_on_a_plaintext_port_is_closed_at_once(self, files: Files) -> None:
        with RunningBroker() as running:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                tls_client(running, client_context(files))
            assert running.close_errors() == ["MalformedFrame"]
            running.assert_unharmed()


def test_the_stop_sends_the_last_answers(files: Files) -> None:
    running = tls_broker(files)
    with running:
        client = tls_client(running, client_context(files))
        assert client.call(HELLO, 3).error_code == 0
    with client:
        # With a close_notify: the end is no error of TLS.
        assert client.socket.recv(1) == b""


def test_a_login_behind_tls_makes_the_principal(files: Files) -> None:
    """The certificate of a client does not, on a listener of SASL_SSL."""
    given = {
        **SETTINGS,
        "ssl.keystore.location": files.server,
        "ssl.truststore.location": files.authority,
        "listener.name.sasl.ssl.client.auth": "required",
    }
    listener = Listener(Address("127.0.0.1", 0), "SASL", SecurityProtocol.SASL_SSL)
    with RunningBroker(given, listeners=[listener]) as running:
        context = client_context(files, files.alice)
        stream = context.wrap_socket(running.connect(), server_hostname="localhost")
        with LoginClient(stream) as client:
            # What follows the login in the same record is a request like any other.
            client.handshake()
            request = MetadataRequest(topics=None)
            token = framed(SaslAuthenticateRequest(auth_bytes=ALICE), 2, 2)
            client.socket.sendall(token + encode_request(request, 9, 3, "test"))
            assert client.receive(SaslAuthenticateRequest(auth_bytes=b""), 2).error_code == 0
            assert client.receive(request, 9).brokers
            assert client.call(HELLO, 3).error_code == 0
            assert principals(running) == {"User:alice"}


class TestResumption:
    """[security/tls-settings]"""

    def test_sessions_of_tls_1_3_are_not_resumed(self, files: Files) -> None:
        context = client_context(files)
        with tls_broker(files) as running, tls_client(running, context) as first:
            assert first.call(HELLO, 3).error_code == 0
            assert not resumed(running, context, first)

    def test_an_expired_certificate_resumes_no_session(self, files: Files) -> None:
        context = client_context(files, files.alice)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with (
            tls_broker(files, ssl_client_auth="required") as running,
            tls_client(running, context) as first,
        ):
            assert first.call(HELLO, 3).error_code == 0
            # As OpenSSL of Python has it; its memory does not grow with clients.
            assert resumed(running, context, first)
            session = cast("ssl.SSLSocket", first.socket).session
            assert session is not None
            assert session.has_ticket
            environment = running.broker.environment
            environment.wall_ms = lambda: running.broker.now_ms() + 400 * 86_400_000
            with pytest.raises((EOFError, ConnectionError)):
                resumed(running, context, first)
            running.wait_for(lambda: running.close_errors() == ["TlsError"])


def resumed(running: RunningBroker, context: ssl.SSLContext, first: SocketClient) -> bool:
    """Let a client connect with the session of another connection; return whether it has it."""
    session = cast("ssl.SSLSocket", first.socket).session
    stream = context.wrap_socket(running.connect(), server_hostname="localhost", session=session)
    with SocketClient(stream) as client:
        assert client.call(HELLO, 3).error_code == 0
        return bool(stream.session_reused)
