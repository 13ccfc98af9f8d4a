"""The TLS context of a listener, made from its settings [security/tls-settings]."""

import ssl
from typing import NamedTuple

from coterie.key_stores import KeyStoreError, load_key_store, load_trust_store
from coterie.server.config.listeners import Listener, ListenerSettings, SecurityProtocol
from coterie.server.config.sources import ConfigError

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
# The cipher suites of TLS 1.3, which OpenSSL always offers together.
_SUITES_OF_1_3 = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
)


class TlsContext(NamedTuple):
    """A context and what it was made of.

    Attributes:
        context: for new connections.
        chain: the certificates of the server in DER, its own first.
    """

    context: ssl.SSLContext
    chain: tuple[bytes, ...]


def make_context(
    listener: Listener, settings: ListenerSettings, stores: ListenerSettings
) -> TlsContext:
    """Read the files of a listener and return its context.

    Args:
        listener: the listener.
        settings: its settings.
        stores: those of them that name key and trust stores, which may be altered.

    Raises:
        ConfigError: a file or a setting cannot be used; the text says what to do.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # No client of TLS 1.3 resumes a session: each handshake checks its certificate by the files of
    # today. Python cannot say so for TLS 1.2 (`TlsListener.identify`).
    context.num_tickets = 0
    _set_versions(context, settings)
    _set_suites(context, settings)
    try:
        store = load_key_store(context, stores)
        _set_client_auth(context, listener, settings, stores)
    except KeyStoreError as error:
        raise ConfigError(str(error)) from None
    return TlsContext(context, store.chain)


def _set_versions(context: ssl.SSLContext, settings: ListenerSettings) -> None:
    enabled = settings.value("ssl.enabled.protocols") or ()
    assert isinstance(enabled, tuple), "the setting is a list"
    for name in enabled:
        if name not in _VERSIONS:
            raise ConfigError(
                f"{settings.origin('ssl.enabled.protocols')}: {name} is not served. Name TLSv1.2"
                " or TLSv1.3."
            )
    newest = settings.text("ssl.protocol")
    versions = sorted(_VERSIONS[name] for name in enabled)
    if newest in _VERSIONS:
        versions = [each for each in versions if each <= _VERSIONS[newest]]
    if not versions:
        raise ConfigError(
            f"{settings.origin('ssl.enabled.protocols')}: no version of TLS is left. Name TLSv1.2"
            " or TLSv1.3, up to ssl.protocol."
        )
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _set_suites(context: ssl.SSLContext, settings: ListenerSettings) -> None:
    setting = "ssl.cipher.suites"
    suites = settings.value(setting) or ()
    assert isinstance(suites, tuple), "the setting is a list"
    if not suites:
        return
    older = [each for each in suites if each not in _SUITES_OF_1_3]
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    if len(older) == len(suites):
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    for suite in older:
        try:
            context.set_ciphers(_openssl_name(suite))
        except ssl.SSLError:
            raise ConfigError(
                f"{settings.origin(setting)}: {suite} is no cipher suite of OpenSSL. Use names such"
                " as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, or leave the setting out."
            ) from None
    context.set_ciphers(":".join(map(_openssl_name, older)))


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite of TLS 1.2: ECDHE-RSA-AES256-GCM-SHA384."""
    name = suite.removeprefix("TLS_").replace("_WITH_", "_").replace("AES_", "AES")
    name = name.removesuffix("_SHA256") if "CHACHA20" in name else name
    return name.removeprefix("RSA_").replace("_CBC", "").replace("_", "-")


def _set_client_auth(
    context: ssl.SSLContext,
    listener: Listener,
    settings: ListenerSettings,
    stores: ListenerSettings,
) -> None:
    """Ask clients for certificates, if that is wanted [security/client-certificates]."""
    setting = "ssl.client.auth"
    if listener.protocol is SecurityProtocol.SASL_SSL:
        asked = settings.own_text(setting) or "none"
    else:
        asked = settings.text(setting) or "none"
    context.verify_mode = _VERIFY[asked]
    # Read in any case: a wrong file ends the start, as in Kafka.
    is_trusting = load_trust_store(context, stores)
    if asked == "none":
        return
    if not is_trusting:
        raise ConfigError(
            f"{settings.origin(setting)}: {asked} needs certificates that are trusted. Name them in"
            f" {stores.name_of('ssl.truststore.location')}."
        )
