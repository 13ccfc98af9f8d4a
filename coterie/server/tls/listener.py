"""What the connections of a listener with TLS share."""

import ssl
from typing import TYPE_CHECKING

from coterie.security.distinguished_name import certificate_name
from coterie.security.mapping_rules import InvalidRule, MappingRule, map_name, parse_rules
from coterie.server.config.listeners import Listener, ListenerSettings, SecurityProtocol
from coterie.server.config.sources import ConfigError
from coterie.server.network.channel import ConnectionServices
from coterie.server.network.connection import Connection
from coterie.server.security.logins import TLS, Failure
from coterie.server.tls.certificates import ListenerCertificates
from coterie.server.tls.handshakes import Handshakes

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

# What one read of a socket returns at most: four records of TLS.
_RECEIVE_BYTES = 65_536


class TlsListener(ListenerCertificates):
    """The certificates of a listener, its handshakes, and who its clients are.

    Attributes:
        handshakes: the connections whose handshake is not complete.
        buffer: where each read of its connections goes, which then use it up at once.
        loop: the event loop.
    """

    def __init__(self, broker: ConnectionServices, listener: Listener) -> None:
        """Read the settings and files of a listener.

        Raises:
            ConfigError: they cannot be used; the text says what to do.
        """
        super().__init__(broker.config, listener)
        self.loop: AbstractEventLoop = broker.loop
        self.handshakes = Handshakes(broker.loop, broker.now_ms)
        self.buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self._quotas, self._counts = broker.connection_quotas, broker.logins.first
        self._environment = broker.environment
        self._rules = _rules(ListenerSettings(broker.config, listener.name))

    def identify(self, connection: Connection, tls: ssl.SSLObject) -> None:
        """Note who a client is, whose handshake is complete [security/client-certificates].

        Raises:
            NotDer: its certificate cannot be read.
        """
        if tls.session_reused and self._has_expired(tls):
            # OpenSSL has checked it when the session began.
            reason = "the certificate of a resumed session has expired"
            self.fail(connection, Failure.CERTIFICATE, "TlsError", reason)
            return
        if self.listener.protocol is SecurityProtocol.SASL_SSL:
            # The client has yet to log in, and its certificate is not who it is.
            return
        self._quotas.logged_in(connection)
        certificate = tls.getpeercert(binary_form=True)
        if certificate is not None:
            name = certificate_name(certificate)
            user = map_name(self._rules, name)
            if user is None:
                reason = f"no rule of ssl.principal.mapping.rules applies to {name[:200]!r}"
                self.fail(connection, Failure.PRINCIPAL, "PrincipalNotMapped", reason)
                return
            connection.client = connection.client._replace(principal=f"User:{user}")
        self._counts.succeeded[self.listener.name, TLS] += 1

    def fail(
        self,
        connection: Connection,
        failure: Failure,
        error: str,
        reason: str,
        *,
        abort: bool = False,
    ) -> None:
        """Count a handshake that has failed, and close the connection."""
        self._counts.failed[self.listener.name, TLS, failure] += 1
        connection.close(error, reason, abort=abort)

    def _has_expired(self, tls: ssl.SSLObject) -> bool:
        """Return whether a client has a certificate that is valid no more."""
        certificate = tls.getpeercert()
        if not certificate:
            return False
        end = certificate["notAfter"]
        assert isinstance(end, str), "it is a time"
        return ssl.cert_time_to_seconds(end) * 1000 < self._environment.wall_ms()


def _rules(settings: ListenerSettings) -> list[MappingRule]:
    setting = "ssl.principal.mapping.rules"
    try:
        return parse_rules(settings.text(setting) or "")
    except InvalidRule as error:
        raise ConfigError(f"{settings.origin(setting)}: {error}") from None
