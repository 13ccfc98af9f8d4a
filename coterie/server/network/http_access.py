"""Who may use an HTTP port: its certificate, its token, and where it may listen without them.

[metrics/access]. Shared by the ports of metrics and of the control.
"""

import ssl
from typing import NamedTuple

from coterie.address import LOOPBACK

_KIND = b"bearer"


class HttpAccess(NamedTuple):
    """How an HTTP port is secured.

    Attributes:
        certificate: a PEM file with a key and its certificates; None for plain HTTP.
        token: what clients send; None for nothing.
    """

    certificate: str | None = None
    token: str | None = None

    @property
    def scheme(self) -> str:
        """The scheme of its addresses."""
        return "http" if self.certificate is None else "https"

    def check(self, host: str, port_option: str, token_option: str) -> None:
        """Check the options before anything listens.

        Args:
            host: where the port is to listen.
            port_option, token_option: what the options are called, for the errors.

        Raises:
            ValueError: other machines could use the port, or the certificate cannot be loaded.
        """
        if self.certificate is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                    self.certificate, password=""
                )
            except (OSError, ValueError) as error:
                reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
                raise ValueError(
                    f"--http-certificate {self.certificate}: {reason}; a PEM file with an"
                    " unencrypted key and its certificates is needed"
                ) from error
        if host in LOOPBACK or (self.certificate is not None and self.token is not None):
            return
        raise ValueError(
            f"{port_option} on {host or 'every address'} lets other machines read it. Give"
            f" {token_option} and --http-certificate, or listen on {LOOPBACK[0]}."
        )


OPEN = HttpAccess()


def has_token(given: bytes, token: bytes) -> bool:
    """Return whether an Authorization header has the token.

    They are compared in constant time, so that the time of the answer says nothing of the token.
    """
    # Imported here, because every broker imports this module, and few have such a port.
    import hmac

    kind, _, sent = given.partition(b" ")
    return hmac.compare_digest(sent.strip(), token) and kind.lower() == _KIND
