"""A certificate authority for tests and a laptop: keys and certificates with one call each.

Keys are of the curve P-256, with which a handshake costs the server least.
"""

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509

_LIBRARY = "certificates need a library: pip install 'coterie[security]'"
# Certificates begin a day ago, because the clocks of machines and containers differ.
_EARLY = timedelta(days=1)
DEFAULT_DAYS = 365


class LibraryMissing(Exception):  # noqa: N818 - it is no failure of the program
    """The library for certificates is not installed; the text says how to install it."""


class Issued(NamedTuple):
    """A key and its certificate, as PEM."""

    key: str
    certificate: str

    def __repr__(self) -> str:
        # Without the key, which no log may have.
        return "Issued(...)"

    @property
    def pem(self) -> str:
        """Both in one text, as Kafka's key stores of type PEM have them."""
        return self.key + self.certificate


class CertificateAuthority:
    """Issues certificates.

    Attributes:
        certificate: its own, as PEM: what clients trust.
        key: its key, as PEM.
    """

    def __init__(
        self, name: str = "Coterie", *, days: int = DEFAULT_DAYS, kept: Issued | None = None
    ) -> None:
        """Make a key and a certificate, or take those that were made earlier.

        Args:
            name: of the authority.
            days: how long its certificate is valid.
            kept: its key and certificate.

        Raises:
            LibraryMissing: the library for it is not installed.
            ValueError: what was kept cannot be read.
        """
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric import ec
            from cryptography.x509.oid import NameOID
        except ImportError:
            raise LibraryMissing(_LIBRARY) from None
        if kept is None:
            self._key: Any = ec.generate_private_key(ec.SECP256R1())
            self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
            self._identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
            self.key, self.certificate = _key_text(self._key), self._own_certificate(days)
        else:
            self.key, self.certificate = kept
            self._key = serialization.load_pem_private_key(kept.key.encode(), None)
            self._name = x509.load_pem_x509_certificate(kept.certificate.encode()).subject
            self._identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())

    def _own_certificate(self, days: int) -> str:
        from cryptography import x509

        signs = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        is_authority = x509.BasicConstraints(ca=True, path_length=0)
        builder = self._builder(self._name, self._key.public_key(), days)
        builder = builder.add_extension(is_authority, critical=True)
        builder = builder.add_extension(signs, critical=True)
        return self._signed(builder.add_extension(self._identifier, critical=False))

    def issue(
        self,
        common_name: str,
        hosts: Iterable[str] = (),
        *,
        days: int = DEFAULT_DAYS,
        organization: str | None = None,
    ) -> Issued:
        """Return a new key with its certificate.

        Args:
            common_name: who it is for.
            hosts: host names and addresses of a server; none for a client.
            days: how long it is valid from now on; negative if it has expired.
            organization: a further part of the name.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization is not None:
            parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        builder = self._builder(x509.Name(parts), key.public_key(), days)
        names = [_general_name(each) for each in hosts]
        purpose = ExtendedKeyUsageOID.SERVER_AUTH
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        else:
            purpose = ExtendedKeyUsageOID.CLIENT_AUTH
        issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier)
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        builder = builder.add_extension(issuer, critical=False)
        return Issued(_key_text(key), self._signed(builder))

    def _builder(self, name: "x509.Name", key: Any, days: int) -> "x509.CertificateBuilder":
        from cryptography import x509

        now = datetime.now(UTC)
        ends = now + timedelta(days=days)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, ends) - _EARLY)
            .not_valid_after(ends)
        )

    def _signed(self, builder: "x509.CertificateBuilder") -> str:
        from cryptography.hazmat.primitives import hashes, serialization

        certificate = builder.sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_text(key: Any) -> str:
    from cryptography.hazmat.primitives import serialization

    text: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return text.decode()


def _general_name(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
