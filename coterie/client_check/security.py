"""How the program under test reaches the scripted broker, if it is to be secured.

Certificates and password are made for one run of the command, and are in its words.
"""

import ssl
from collections.abc import Mapping
from typing import NamedTuple

from coterie.client_check.program import CommandNotUsable
from coterie.security.seeds import ScramSeed
from coterie.server.config.listeners import SecurityProtocol
from coterie.testing.errors import WrongUse
from coterie.testing.security import CertificateFiles
from coterie.testing.security import Security as TestSecurity
from coterie.testing.users import Users

USER = "check-user"
PROTOCOLS = (SecurityProtocol.SASL_PLAINTEXT.value, SecurityProtocol.SASL_SSL.value)
# The places of a command that are about security, and the one that it cannot do without.
PASSWORD_PLACE = "password"  # noqa: S105 - a place in a command


class BrokerSecurity(NamedTuple):
    """What a scripted broker needs.

    Attributes:
        protocol: of its listener.
        settings: of its listener, which has the name `listener`.
        seeds: the users of SCRAM.
    """

    protocol: SecurityProtocol
    settings: Mapping[str, str]
    seeds: list[ScramSeed]


class ClientSecurity:
    """The security of one run of the command.

    Attributes:
        values: what is substituted in the command, by place.
        context: of TLS, for the listeners; None without.
    """

    def __init__(self, protocol: str, mechanism: str, host: str) -> None:
        """Make certificates and a password.

        Args:
            protocol: the security protocol.
            mechanism: what the client logs in with.
            host: of the listeners.

        Raises:
            CommandNotUsable: there is no such mechanism, or a library is not installed.
        """
        secured = TestSecurity(protocol, mechanism=mechanism)
        self._protocol = secured.checked_protocol
        self._files: CertificateFiles | None = None
        self.context: ssl.SSLContext | None = None
        authority = ""
        try:
            self._users = Users([USER], mechanism)
            if self._protocol.has_tls:
                self._files = CertificateFiles(secured, {})
                self._files.begin(host)
                files = self._files.settings
                authority = files["ssl.truststore.location"]
                self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                self.context.load_cert_chain(files["ssl.keystore.location"])
        except WrongUse as error:
            raise CommandNotUsable(str(error)) from None
        self.values: Mapping[str, str] = {
            "security": self._protocol.value,
            "mechanism": mechanism,
            "username": USER,
            PASSWORD_PLACE: self._users.passwords[USER],
            "ca": authority,
        }

    def of_broker(self, listener: str) -> BrokerSecurity:
        """Return what a broker needs whose listener has a name."""
        # The sockets have TLS, and the broker behind them has the logins.
        settings = self._users.settings(listener)
        return BrokerSecurity(SecurityProtocol.SASL_PLAINTEXT, settings, self._users.seeds())

    def end(self) -> None:
        """Remove the certificates."""
        if self._files is not None:
            self._files.end()
