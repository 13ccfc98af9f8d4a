"""TLS on the client's side: the context that client properties describe [client/tls].

A certificate of the broker is always verified: against the certificates of the trust store, or
against those of the operating system where there is none.
"""

import socket
import ssl
from collections.abc import Callable, Mapping
from tempfile import NamedTemporaryFile

from coterie.address import Address
from coterie.client.errors import ClientError, LoginFailed

_PEM = b"-----BEGIN"
# Openssl writes attributes in front of a certificate.
_LOOKED_AT_BYTES = 65_536
_CHAIN = "ssl.keystore.certificate.chain"
_KEY_REMEDY = "A PEM file with a key and its certificates is needed; ssl.key.password decrypts it."
_REMEDY = (
    "Give PEM: for example `keytool -importkeystore -srckeystore STORE -destkeystore store.p12"
    " -deststoretype PKCS12`, then `openssl pkcs12 -in store.p12 -out store.pem`,"
    " and the property ...store.type=PEM."
)


def client_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context for connections to brokers.

    Raises:
        ClientError: a store cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # An empty value switches the check of the host name off, as in Kafka's clients.
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
    context.check_hostname = bool(algorithm.strip())
    certificates = properties.get("ssl.truststore.certificates")
    if certificates:
        _loading(
            "ssl.truststore.certificates", context.load_verify_locations, None, None, certificates
        )
    elif "ssl.truststore.location" in properties:
        path = _pem_path(properties, "ssl.truststore.location")
        _loading("ssl.truststore.location", context.load_verify_locations, path)
    else:
        context.load_default_certs()
    password = properties.get("ssl.key.password") or None
    if properties.get("ssl.keystore.key"):
        pem = properties["ssl.keystore.key"] + "\n" + properties.get(_CHAIN, "")
        with NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(pem)
            file.flush()
            _loading("ssl.keystore.key", context.load_cert_chain, file.name, None, password or "")
    elif "ssl.keystore.location" in properties:
        path = _pem_path(properties, "ssl.keystore.location")
        _loading("ssl.keystore.location", context.load_cert_chain, path, None, password or "")
    return context


def encrypted(
    stream: socket.socket, address: Address, timeout_s: float, context: ssl.SSLContext
) -> socket.socket:
    """Return the connection with TLS; the broker's certificate is verified [client/tls].

    Raises:
        LoginFailed: the certificate is not accepted, or the handshake fails.
    """
    try:
        stream.settimeout(timeout_s)
        return context.wrap_socket(stream, server_hostname=address.host)
    except ssl.SSLCertVerificationError as error:
        stream.close()
        raise LoginFailed(
            f"The certificate of the broker at {address} is not accepted: {error.verify_message}.",
            "Name the certificate of its authority with ssl.truststore.location, and use a host"
            " name that the certificate has.",
        ) from error
    except OSError as error:
        stream.close()
        reason = getattr(error, "reason", None) or error.strerror or str(error)
        raise LoginFailed(
            f"No TLS with the broker at {address}: {reason}.",
            "Check the port and security.protocol.",
        ) from error


def _loading(name: str, load: Callable[..., object], *arguments: object) -> None:
    try:
        load(*arguments)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise ClientError(f"{name} cannot be loaded: {reason}.", _KEY_REMEDY) from error


def _pem_path(properties: Mapping[str, str], name: str) -> str:
    path = properties[name]
    try:
        with open(path, "rb") as file:
            is_pem = _PEM in file.read(_LOOKED_AT_BYTES)
    except OSError as error:
        raise ClientError(f"{name}: {path} cannot be read: {error.strerror}.") from error
    if not is_pem:
        raise ClientError(f"{name}: {path} is no PEM file.", _REMEDY)
    return path
