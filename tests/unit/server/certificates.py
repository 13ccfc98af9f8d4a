"""Certificates for tests, made once in a session, and listeners with them."""

import ssl
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from coterie.address import Address
from coterie.authority import CertificateAuthority
from coterie.server.config.listeners import Listener, SecurityProtocol
from tests.unit.server.running import RunningBroker, SocketClient

SSL = Listener(Address("127.0.0.1", 0), "SSL", SecurityProtocol.SSL)


class Files(NamedTuple):
    """Paths of certificates."""

    authority: str
    server: str
    alice: str
    expired: str
    untrusted: str


@cache
def authority() -> CertificateAuthority:
    return CertificateAuthority()


def write_certificates(directory: Path) -> Files:
    """Write certificates of one authority, and one of another."""
    ours, other = authority(), CertificateAuthority("other")
    texts = Files(
        ours.certificate,
        ours.issue("localhost", ["localhost", "127.0.0.1"]).pem,
        ours.issue("alice", organization="Acme, Inc.").pem,
        ours.issue("late", days=-1).pem,
        other.issue("eve").pem,
    )
    paths = []
    for name, text in texts._asdict().items():
        path = directory / f"{name}.pem"
        path.write_text(text)
        paths.append(str(path))
    return Files(*paths)


def self_signed(name: str) -> str:
    """Return a key and a certificate that is its own issuer, without extensions, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return (written + certificate.public_bytes(Encoding.PEM)).decode()


def certificate_of(path: Path) -> str:
    """Return the first certificate of a PEM file, without the key."""
    _, mark, after = path.read_text().partition("-----BEGIN CERTIFICATE-----")
    return mark + after.partition("-----END")[0] + "-----END CERTIFICATE-----\n"


def tls_broker(files: Files, **settings: str) -> RunningBroker:
    """Return a broker with one TLS listener; dots of settings are written as underscores."""
    given = {
        "ssl.keystore.location": files.server,
        "ssl.truststore.location": files.authority,
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    return RunningBroker(given, listeners=[SSL])


def client_context(files: Files, certificate: str | None = None) -> ssl.SSLContext:
    """Return the context of a client, which may have a certificate."""
    context = ssl.create_default_context(cafile=files.authority)
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def tls_client(running: RunningBroker, context: ssl.SSLContext) -> SocketClient:
    """Return a client whose handshake is complete."""
    return SocketClient(context.wrap_socket(running.connect(), server_hostname="localhost"))
