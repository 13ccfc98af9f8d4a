"""TLS on the client's side: the context that client properties describe [client/tls].

A certificate of the broker is always verified: against the certificates of the trust store, or
against those of the operating system where there is none.
"""

import socket
import ssl
from collections.abc import Mapping

from coterie.address import Address
from coterie.client.errors import ClientError, LoginFailed
from coterie.key_stores import KeyStoreError, load_key_store, load_trust_store

# What names a key of the client.
_KEYS = ("ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain")


class _Properties:
    """Client properties as the settings of key stores."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def text(self, name: str) -> str | None:
        return self._properties.get(name)

    def name_of(self, name: str) -> str:
        return name

    def origin(self, name: str) -> str:
        return name


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
    settings = _Properties(properties)
    try:
        if not load_trust_store(context, settings):
            context.load_default_certs()
        if any(name in properties for name in _KEYS):
            load_key_store(context, settings)
    except KeyStoreError as error:
        raise ClientError(str(error)) from error
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
