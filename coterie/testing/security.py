"""The security of a broker of a test: TLS with an authority that is thrown away with the broker.

Keys and certificates are files in a temporary directory, because clients want paths.
"""

import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from coterie.authority import CertificateAuthority, LibraryMissing
from coterie.server.config.listeners import SecurityProtocol
from coterie.testing.client_configs import CONFLUENT, KAFKA_STREAMS
from coterie.testing.errors import WrongUse
from coterie.testing.security_settings import names_store

# A certificate that is as it should be, and what may be wrong with one.
VALID, EXPIRED, WRONG_HOST, UNTRUSTED = "valid", "expired", "wrong-host", "untrusted"
_CERTIFICATES = (VALID, EXPIRED, WRONG_HOST, UNTRUSTED)
_OF_CLIENTS = (VALID, EXPIRED, UNTRUSTED)
_CLIENT_AUTH = ("none", "requested", "required")
# The names of users are those of their certificates, without the parts behind.
_RULES = "RULE:^CN=([^,]+).*$/$1/"


class Security(NamedTuple):
    """The security of a broker of a test.

    Attributes:
        protocol: the security protocol of its listener: "SSL", "SASL_PLAINTEXT" or "SASL_SSL".
        client_auth: whether clients need a certificate: "none", "requested" or "required".
        mechanism: what clients log in with: "PLAIN", "SCRAM-SHA-256" or "SCRAM-SHA-512".
    """

    protocol: str = SecurityProtocol.SSL.value
    client_auth: str = "none"
    mechanism: str = "SCRAM-SHA-512"

    @property
    def checked_protocol(self) -> SecurityProtocol:
        """The security protocol.

        Raises:
            WrongUse: there is no such protocol.
        """
        names = [each.value for each in SecurityProtocol if each is not SecurityProtocol.PLAINTEXT]
        if self.protocol not in names:
            raise WrongUse(f"security: {self.protocol!r} is none of: {', '.join(names)}")
        return SecurityProtocol(self.protocol)


class CertificateFiles:
    """The authority of a broker, and the files of its server and clients."""

    def __init__(self, security: Security, config: Mapping[str, str]) -> None:
        """Check what is asked for; nothing is made yet.

        Args:
            security: what is asked for.
            config: the settings of the test, which may name stores of its own.

        Raises:
            WrongUse: there is no such way to ask for certificates.
        """
        if security.client_auth not in _CLIENT_AUTH:
            raise WrongUse(
                f"client_auth: {security.client_auth!r} is none of: {', '.join(_CLIENT_AUTH)}"
            )
        self._protocol = security.checked_protocol
        self._client_auth = security.client_auth
        self._has_key_store = names_store(config, "keystore")
        self._has_trust_store = names_store(config, "truststore")
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._authority: CertificateAuthority
        self._other: CertificateAuthority
        self._hosts: list[str] = []

    def begin(self, host: str) -> None:
        """Make an authority and the certificate of a server.

        Raises:
            WrongUse: the library for it is not installed.
        """
        try:
            self._authority = CertificateAuthority("authority of a test")
            self._other = CertificateAuthority("another authority")
        except LibraryMissing as error:
            raise WrongUse(f"security: {error}") from None
        self._directory = tempfile.TemporaryDirectory(prefix="coterie-certificates-")
        self._hosts = list(dict.fromkeys([host, "localhost", "127.0.0.1"]))
        self._write("authority.pem", self._authority.certificate)
        if not self._has_key_store:
            self.certify(VALID)

    def end(self) -> None:
        """Remove all files."""
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    @property
    def asks_clients(self) -> bool:
        """Whether clients are asked for certificates."""
        return self._client_auth != "none"

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of the broker."""
        stores = {}
        if not self._has_key_store:
            stores["ssl.keystore.location"] = self._path("server.pem")
        if not self._has_trust_store:
            stores["ssl.truststore.location"] = self._path("authority.pem")
        return {
            **stores,
            # With a login only the one of the listener counts.
            f"listener.name.{self._protocol.value.lower()}.ssl.client.auth": self._client_auth,
            "ssl.principal.mapping.rules": _RULES,
            # The faults change these.
            "ssl.allow.dn.changes": "true",
            "ssl.allow.san.changes": "true",
        }

    def certify(self, certificate: str) -> None:
        """Write a certificate of the server, and what is wrong with it if anything is.

        Raises:
            WrongUse: an unknown kind of certificate, or the server has another key store.
        """
        _check(certificate, _CERTIFICATES)
        if self._has_key_store:
            raise WrongUse(
                "config names the key store of this broker: change its file, and call"
                " reload_certificates()"
            )
        hosts = ["broker.invalid"] if certificate == WRONG_HOST else self._hosts
        self._write("server.pem", self._issued(certificate, "broker", hosts).pem)

    def client_config(self, library: str, user: str | None, certificate: str) -> dict[str, Any]:
        """Return the settings with which a client of a library reaches the broker.

        Args:
            library: its name.
            user: the name in the certificate of the client; None for none.
            certificate: what is wrong with it, if anything is.

        Raises:
            WrongUse: an unknown kind of certificate.
        """
        _check(certificate, _OF_CLIENTS)
        key = path = None
        if user is not None:
            issued = self._issued(certificate, user, ())
            path = self._write(f"{user}-{certificate}.pem", issued.pem)
            key = self._write(f"{user}-{certificate}.key.pem", issued.key)
        return _LIBRARIES[library](self._path("authority.pem"), path, key)

    def _issued(self, certificate: str, name: str, hosts: "list[str] | tuple[()]") -> Any:
        authority = self._other if certificate == UNTRUSTED else self._authority
        return authority.issue(name, hosts, days=-1 if certificate == EXPIRED else 1)

    def _path(self, name: str) -> str:
        assert self._directory is not None, "the broker runs"
        return os.path.join(self._directory.name, name)

    def _write(self, name: str, text: str) -> str:
        path = self._path(name)
        with open(path, "w", encoding="ascii", opener=_private) as file:
            file.write(text)
        return path


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _check(certificate: str, known: tuple[str, ...]) -> None:
    if certificate not in known:
        raise WrongUse(f"certificate: {certificate!r} is none of: {', '.join(known)}")


# --- the names of the settings, by library -------------------------------------------------------


def _kafka_python(authority: str, path: str | None, key: str | None) -> dict[str, Any]:
    config = {"ssl_cafile": authority}
    return config if path is None else config | {"ssl_certfile": path, "ssl_keyfile": key}


def _aiokafka(authority: str, path: str | None, _key: str | None) -> dict[str, Any]:
    context = ssl.create_default_context(cafile=authority)
    if path is not None:
        context.load_cert_chain(path)
    return {"ssl_context": context}


def _confluent(authority: str, path: str | None, key: str | None) -> dict[str, Any]:
    config = {"ssl.ca.location": authority}
    names = {"ssl.certificate.location": path, "ssl.key.location": key}
    return config if path is None else config | names


def _streams(authority: str, path: str | None, _key: str | None) -> dict[str, Any]:
    config = {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": path}
    return config if path is None else config | store


_LIBRARIES: Mapping[str, Callable[[str, str | None, str | None], dict[str, Any]]] = {
    "aiokafka": _aiokafka,
    CONFLUENT: _confluent,
    KAFKA_STREAMS: _streams,
    "kafka-python": _kafka_python,
}
