"""Keys and certificates from the files that Kafka's settings name: PEM and PKCS12, not JKS.

What a file is follows from its first bytes, not from its name or from `ssl.keystore.type`: since
Java 9 keytool writes PKCS12 into files that are called .jks [security/key-stores]. Listeners and
clients have the same settings.
"""

import os
import re
import ssl
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from cryptography import x509

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
# A sequence in DER, with a length of several bytes.
_PKCS12_MAGIC = b"\x30"
_PEM_MARK = b"-----BEGIN "
_CERTIFICATE = re.compile(
    rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\r?\n?", re.DOTALL
)
_EXTRA = "pip install 'coterie[security]'"


class KeyStoreError(Exception):
    """A store cannot be used; the text says where it was given, and what to do."""


class StoreSettings(Protocol):
    """The settings of a listener or a client, by Kafka's names without a prefix."""

    def text(self, name: str) -> str | None:
        """Return the value of a setting; None if it was not given."""

    def name_of(self, name: str) -> str:
        """Return the name by which a setting is or may be given."""

    def origin(self, name: str) -> str:
        """Return where a setting was given."""


class KeyStore(NamedTuple):
    """The key and the certificates of a server.

    Attributes:
        pem: the key and the chain, the server's own certificate first.
        password: of the key; None if it is not encrypted.
        chain: the certificates in DER, the server's own first.
    """

    pem: bytes
    password: str | None
    chain: tuple[bytes, ...]

    def __repr__(self) -> str:
        # Without the key and its password, which no log may have.
        return f"KeyStore({len(self.chain)} certificates)"


def load_key_store(context: ssl.SSLContext, settings: StoreSettings) -> KeyStore:
    """Read the key store of a listener or a client, and let a context use it.

    OpenSSL reads it from a file that only this user can read, and that is removed at once.

    Raises:
        KeyStoreError: there is none, or it cannot be used; the text says what to do.
    """
    store = read_key_store(settings)
    number, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(store.pem)
        # Not None, with which OpenSSL would ask the terminal.
        context.load_cert_chain(path, password=store.password or "")
    except ssl.SSLError as error:
        setting = settings.name_of("ssl.keystore.location")
        if error.reason == "KEY_VALUES_MISMATCH":
            text = "the first certificate is not that of the key. Put the server's own first"
        elif store.password is not None:
            text = "the key cannot be read with ssl.key.password. Check the password and the key"
        else:
            text = f"OpenSSL cannot use key and certificates ({error.reason or error}). Check them"
        raise KeyStoreError(f"{setting}: {text}.") from None
    finally:
        os.unlink(path)
    return store


def load_trust_store(context: ssl.SSLContext, settings: StoreSettings) -> bool:
    """Let a context trust the certificates of a trust store; return whether there is one.

    Raises:
        KeyStoreError: it cannot be used; the text says what to do.
    """
    trusted = read_trust_store(settings)
    if trusted is None:
        return False
    # As in Java each certificate of a trust store is trusted by itself, not only those of
    # authorities: without it OpenSSL takes the first one of several with one name.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=trusted.decode())
    except ssl.SSLError as error:
        raise KeyStoreError(
            f"{settings.origin('ssl.truststore.location')}: OpenSSL cannot read the certificates"
            f" ({error.reason or error}). Check them."
        ) from None
    return True


def read_key_store(settings: StoreSettings) -> KeyStore:
    """Read the key store of a listener.

    Raises:
        KeyStoreError: there is none, or it cannot be read; the text says what to do.
    """
    setting = "ssl.keystore.location"
    password = settings.text("ssl.key.password")
    inline = settings.text("ssl.keystore.certificate.chain"), settings.text("ssl.keystore.key")
    if inline != (None, None):
        _check_inline(settings, setting)
        pem = "\n".join(each or "" for each in inline).encode()
        # Not where it was given, which for an option has the whole text.
        return _of_pem(settings.name_of("ssl.keystore.certificate.chain"), pem, password)
    location = settings.text(setting)
    if not location:
        raise KeyStoreError(
            f"{settings.name_of(setting)} is missing: TLS needs a key and a certificate. Name a"
            " PEM or PKCS12 file there."
        )
    where = f"{settings.origin(setting)}: {location}"
    data = _read(where, location)
    if _PEM_MARK in data:
        if settings.text("ssl.keystore.password") is not None:
            raise KeyStoreError(
                f"{where} is a PEM file, which has no password of its own. Remove"
                " ssl.keystore.password; that of the key is ssl.key.password."
            )
        return _of_pem(where, data, password)
    store = _pkcs12(settings, where, location, data, "ssl.keystore.password")
    return _of_pkcs12(where, store)


def read_trust_store(settings: StoreSettings) -> bytes | None:
    """Return the certificates of a trust store as PEM; None if the listener has none.

    Raises:
        KeyStoreError: it cannot be read; the text says what to do.
    """
    setting = "ssl.truststore.location"
    inline, location = settings.text("ssl.truststore.certificates"), settings.text(setting)
    if inline is not None:
        return _certificates(settings.name_of("ssl.truststore.certificates"), inline.encode())
    if not location:
        return None
    where = f"{settings.origin(setting)}: {location}"
    data = _read(where, location)
    if _PEM_MARK in data:
        if settings.text("ssl.truststore.password") is not None:
            text = "is a PEM file, which has no password. Remove ssl.truststore.password."
            raise KeyStoreError(f"{where} {text}")
        return _certificates(where, data)
    store = _pkcs12(settings, where, location, data, "ssl.truststore.password")
    found = [each.certificate for each in store.additional_certs]
    if store.cert is not None:
        found.append(store.cert.certificate)
    if not found:
        raise KeyStoreError(f"{where} has no certificate. Import one with keytool -importcert.")
    return b"".join(map(_pem, found))


def _check_inline(settings: StoreSettings, location: str) -> None:
    """Check that a key store in the settings is complete and the only one."""
    for setting in ("ssl.keystore.certificate.chain", "ssl.keystore.key"):
        if settings.text(setting) is None:
            raise KeyStoreError(
                f"{settings.name_of(setting)} is missing: ssl.keystore.key and"
                " ssl.keystore.certificate.chain are given together."
            )
    if settings.text(location):
        raise KeyStoreError(
            f"{settings.origin(location)}: {location} and ssl.keystore.key both give a key; give"
            " one of them"
        )


def _read(where: str, location: str) -> bytes:
    try:
        with open(location, "rb") as file:
            data = file.read()
    except OSError as error:
        raise KeyStoreError(f"{where} cannot be read: {error.strerror}. Name a file.") from None
    if data.startswith(_JKS_MAGIC):
        raise KeyStoreError(
            f"{where} is in the old format JKS. Convert it: keytool -importkeystore"
            f" -srckeystore {location} -destkeystore {location}.p12 -deststoretype PKCS12"
        )
    if _PEM_MARK not in data and not data.startswith(_PKCS12_MAGIC):
        raise KeyStoreError(f"{where} is neither a PEM nor a PKCS12 file. Name one of these.")
    return data


def _of_pem(where: str, data: bytes, password: str | None) -> KeyStore:
    """Return a key store of PEM.

    Kafka reads PKCS8 only, in BEGIN PRIVATE KEY; OpenSSL reads the older forms of keys, too.
    """
    if b"PRIVATE KEY-----" not in data:
        raise KeyStoreError(
            f"{where} has no private key. Put the key in front of the certificates."
        )
    if b"BEGIN ENCRYPTED PRIVATE KEY-----" in data and password is None:
        text = "has an encrypted key. Give its password in ssl.key.password."
        raise KeyStoreError(f"{where} {text}")
    chain = tuple(ssl.PEM_cert_to_DER_cert(each) for each in _certificate_texts(where, data))
    return KeyStore(data, password, chain)


def _certificates(where: str, data: bytes) -> bytes:
    return "\n".join(_certificate_texts(where, data)).encode()


def _certificate_texts(where: str, data: bytes) -> list[str]:
    found = [each.decode("ascii", "replace") for each in _CERTIFICATE.findall(data)]
    if not found:
        raise KeyStoreError(
            f"{where} has no certificate. Add it, with -----BEGIN CERTIFICATE-----."
        )
    return found


# --- PKCS12, which the standard library cannot read ----------------------------------------------


def _pkcs12(
    settings: StoreSettings, where: str, location: str, data: bytes, password_setting: str
) -> Any:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise KeyStoreError(
            f"{where} is a PKCS12 file, for which a library is missing. Install it with {_EXTRA},"
            f" or convert the file: openssl pkcs12 -in {location} -nodes -out store.pem"
        ) from None
    password = settings.text(password_setting)
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise KeyStoreError(
            f"{where} cannot be opened with the password of {settings.name_of(password_setting)}."
            " Check both."
        ) from None


def _of_pkcs12(where: str, store: Any) -> KeyStore:
    from cryptography.hazmat.primitives import serialization

    if store.key is None or store.cert is None:
        raise KeyStoreError(f"{where} has no private key. Name a key store, not a trust store.")
    key = store.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    others = [each.certificate for each in store.additional_certs]
    chain = _chain(store.cert.certificate, others)
    pem = key + b"".join(map(_pem, chain))
    der = serialization.Encoding.DER
    return KeyStore(pem, None, tuple(each.public_bytes(der) for each in chain))


def _chain(own: "x509.Certificate", others: list["x509.Certificate"]) -> list["x509.Certificate"]:
    """Return a certificate, that of its issuer, and so on."""
    chain, by_name = [own], {each.subject: each for each in others}
    while chain[-1].issuer in by_name:
        chain.append(by_name.pop(chain[-1].issuer))
    return chain


def _pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM)
