"""`coterie serve --secure DIR`: certificates in a directory, and what clients need of them.

The authority and the users are kept; the certificate of the server is made anew at each start, for
the addresses of that start. Clients need only the directory.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from coterie.authority import CertificateAuthority, Issued, LibraryMissing

# Users that have a certificate.
USERS = ("admin", "client")
_AUTHORITY, _AUTHORITY_KEY, _SERVER = "ca.pem", "ca-key.pem", "server.pem"
_DAYS = 3_650
_RULES = "RULE:^CN=([^,]+).*$/$1/"


class SecureFiles(NamedTuple):
    """Certificates of `--secure`.

    Attributes:
        directory: where they are, as an absolute path with slashes: a backslash would have to be
            doubled in properties and programs.
    """

    directory: str

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return f"{self.directory}/{name}"

    @property
    def properties(self) -> str:
        """The settings of a broker with these certificates, as a properties file."""
        return "\n".join(
            (
                "listeners=SSL://127.0.0.1:9092",
                f"ssl.keystore.location={self.path(_SERVER)}",
                f"ssl.truststore.location={self.path(_AUTHORITY)}",
                "ssl.client.auth=required",
                f"ssl.principal.mapping.rules={_RULES}",
            )
        )

    @property
    def announcement(self) -> str:
        """What clients of each library need, for people."""
        authority, user = self.path(_AUTHORITY), self.path(f"{USERS[1]}.pem")
        names = ", ".join(USERS)
        return f"""
Clients trust {authority} and have a certificate; there is one for each of these users: {names}.

Java, in {self.path("client.properties")}:
{client_properties(authority, user)}
kafka-python:
    security_protocol="SSL", ssl_cafile="{authority}",
    ssl_certfile="{user}", ssl_keyfile="{user}"

aiokafka, with context = ssl.create_default_context(cafile="{authority}"),
context.load_cert_chain("{user}"):
    security_protocol="SSL", ssl_context=context

confluent-kafka:
    "security.protocol": "SSL", "ssl.ca.location": "{authority}",
    "ssl.certificate.location": "{user}", "ssl.key.location": "{user}"
"""


def client_properties(authority: str, user: str) -> str:
    """Return the settings of a client of Java."""
    return (
        "security.protocol=SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={authority}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={user}\n"
    )


def make_files(directory: str, hosts: Iterable[str]) -> SecureFiles:
    """Make what is missing in a directory, and a certificate of the server for its hosts.

    Raises:
        ValueError: the directory has files that cannot be used, or a library is missing.
        OSError: the directory cannot be written.
    """
    files = SecureFiles(Path(directory).absolute().as_posix())
    os.makedirs(files.directory, mode=0o700, exist_ok=True)
    try:
        authority = _authority(files)
    except LibraryMissing as error:
        raise ValueError(f"--secure: {error}") from None
    except ValueError:
        text = f"{files.path(_AUTHORITY)} and {_AUTHORITY_KEY} are no certificate with its key"
        raise ValueError(f"--secure: {text}; remove them to get new ones") from None
    _write(files.path(_SERVER), authority.issue("localhost", dict.fromkeys(hosts)).pem)
    for user in USERS:
        if not os.path.exists(files.path(f"{user}.pem")):
            _write(files.path(f"{user}.pem"), authority.issue(user, days=_DAYS).pem)
    properties = client_properties(files.path(_AUTHORITY), files.path(f"{USERS[1]}.pem"))
    _write(files.path("client.properties"), properties)
    return files


def _authority(files: SecureFiles) -> CertificateAuthority:
    certificate, key = files.path(_AUTHORITY), files.path(_AUTHORITY_KEY)
    if os.path.exists(certificate) and os.path.exists(key):
        return CertificateAuthority(kept=Issued(_read(key), _read(certificate)))
    authority = CertificateAuthority("Coterie --secure", days=_DAYS)
    _write(key, authority.key)
    _write(certificate, authority.certificate)
    # Certificates of another authority would be refused.
    for user in USERS:
        if os.path.exists(files.path(f"{user}.pem")):
            os.remove(files.path(f"{user}.pem"))
    return authority


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii", opener=_private) as file:
        file.write(text)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
