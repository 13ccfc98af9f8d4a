"""How the connections of a client are secured, as data.

The modules that TLS and logins need are imported where a connection uses them, so that commands
without them start as fast as before.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ssl

OAUTHBEARER = "OAUTHBEARER"


class Security(NamedTuple):
    """What a connection needs; `client_properties.security_of` reads it from properties.

    Attributes:
        context: of TLS; None for plain text.
        mechanism: of the login; "" for none.
        jaas: options of the login module.
        token_endpoint: where an OAuth token is fetched; "" for an unsecured one.
    """

    context: "ssl.SSLContext | None" = None
    mechanism: str = ""
    jaas: Mapping[str, str] = {}
    token_endpoint: str = ""

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"Security(tls={self.context is not None}, mechanism={self.mechanism!r})"


PLAINTEXT = Security()
