"""The keys and certificates of a listener, and how they are replaced [security/reload]."""

import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from coterie.security.der import alternative_names, expires_s
from coterie.security.distinguished_name import certificate_name
from coterie.server.config.config import Config
from coterie.server.config.listeners import Listener, ListenerSettings
from coterie.server.config.sources import ConfigError
from coterie.server.tls.context import make_context

if TYPE_CHECKING:
    from coterie.server.logging import Logger


class ListenerCertificates:
    """The TLS context of a listener.

    Attributes:
        listener: the listener.
    """

    def __init__(self, config: Config, listener: Listener) -> None:
        """Read the settings and files of a listener.

        Raises:
            ConfigError: they cannot be used; the text says what to do.
        """
        self.listener = listener
        self._config = config
        # All but key and trust stores stay those of the start, as in Kafka: an alteration cannot
        # let in clients without a certificate.
        self._settings = ListenerSettings(config, listener.name, config.altered)
        self._tls = self._prepared = make_context(listener, self._settings, self._settings)

    @property
    def context(self) -> ssl.SSLContext:
        """The context of new connections."""
        return self._tls.context

    def has_expired(self, now_ms: int) -> bool:
        """Return whether the certificate of the server has expired, so that clients refuse it."""
        return expires_s(self._tls.chain[0]) * 1000 < now_ms

    def prepare(self, altered: Mapping[str, str] | None = None) -> None:
        """Read settings and files again; `use_prepared` uses the result [security/reload].

        Args:
            altered: what clients would have altered of the broker, instead of what they have.

        Raises:
            ConfigError: they cannot be used, or the certificate is for another server.
        """
        stores = ListenerSettings(self._config, self.listener.name, altered)
        tls = make_context(self.listener, self._settings, stores)
        before, after = self._tls.chain[0], tls.chain[0]
        if not self._settings.value("ssl.allow.dn.changes"):
            old, new = certificate_name(before), certificate_name(after)
            if old != new:
                raise ConfigError(
                    f"the certificate is for {new}, and was for {old}. Set"
                    " ssl.allow.dn.changes=true at the start if that is intended."
                )
        if not self._settings.value("ssl.allow.san.changes") and not (
            alternative_names(before) <= alternative_names(after)
        ):
            raise ConfigError(
                "the certificate lacks an alternative name of the one before. Set"
                " ssl.allow.san.changes=true at the start if that is intended."
            )
        self._prepared = tls

    def use_prepared(self) -> None:
        """Let new connections use what was read last; open ones keep theirs."""
        self._tls = self._prepared


class CertificateHolder(Protocol):
    """A broker, as far as its certificates go.

    Attributes:
        tls_listeners: its listeners with TLS.
        log: its logger.
    """

    tls_listeners: list[ListenerCertificates]
    log: "Logger"

    @property
    def now_ms(self) -> Callable[[], int]:
        """Return what reads its clock."""


def reload_certificates(broker: CertificateHolder) -> None:
    """Read the files of all listeners with TLS again; one whose files are wrong keeps what it has
    [security/reload].
    """
    log = broker.log
    for each in broker.tls_listeners:
        name = each.listener.name
        try:
            each.prepare()
        except ConfigError as error:
            log.error("certificates not reloaded", listener=name, reason=str(error))  # noqa: TRY400 - the text says all
        else:
            each.use_prepared()
            log.info("certificates reloaded", listener=name)
    warn_of_expired(broker)


def warn_of_expired(broker: CertificateHolder) -> None:
    """Log the listeners whose certificate clients refuse, because it has expired."""
    for each in broker.tls_listeners:
        if each.has_expired(broker.now_ms()):
            name, remedy = each.listener.name, "replace the file and send SIGHUP"
            broker.log.warning("certificate has expired", listener=name, remedy=remedy)
