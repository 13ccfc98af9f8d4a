"""Certificates for tests, made once in a session, and listeners with them."""

import ssl
from functools import cache
from pathlib import Path
from typing import NamedTuple

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
