"""Settings of the security in `config`: what counts, and what an argument decides instead.

A setting that would have no effect is refused, with a sentence that says what to write: a test that
relies on it would test something else.
"""

import re
from collections.abc import Mapping

from coterie.server.config.listeners import Listener, SecurityProtocol, prefix_of
from coterie.testing.errors import WrongUse

# `client_config` follows the arguments, so these settings have no second place.
_ADDRESSES = "host=, port= and security="
_USERS = 'users={"alice": "password"}'
_ARGUMENTS: Mapping[str, str] = {
    "listeners": _ADDRESSES,
    "advertised.listeners": _ADDRESSES,
    "listener.security.protocol.map": _ADDRESSES,
    "sasl.jaas.config": _USERS,
    "plain.sasl.jaas.config": _USERS,
}
_CLIENT_AUTH = "ssl.client.auth"
_MECHANISMS = "sasl.enabled.mechanisms"
# The first part may be a mechanism, whose settings the listener has.
_OF_LOGINS = re.compile(r"([^.]+\.)?sasl\.")


def check_security_settings(
    config: Mapping[str, str], listener: Listener, mechanism: str | None = None
) -> None:
    """Check that each setting of the security counts at the listener of a broker.

    Args:
        config: the settings.
        listener: the listener.
        mechanism: what `client_config` lets clients log in with; None if there are no logins.

    Raises:
        WrongUse: one does not.
    """
    prefix, protocol = prefix_of(listener.name), listener.protocol
    for name, value in config.items():
        setting = name.removeprefix(prefix)
        if setting.startswith("listener.name."):
            text = f"the listener is {listener.name}: its settings begin with {prefix}"
            raise WrongUse(f"config: {name}: {text}")
        argument = _ARGUMENTS.get(setting)
        if setting == _CLIENT_AUTH:
            kind = protocol if protocol.has_tls else SecurityProtocol.SSL
            argument = f'security=Security("{kind.value}", client_auth="{value}")'
        if argument is not None:
            raise WrongUse(f"config: {name}: write {argument} instead")
        if setting.startswith("ssl.") and not protocol.has_tls:
            raise WrongUse(
                f'config: {name}: the broker has no TLS: security="SSL" or "SASL_SSL" gives it'
            )
        if _OF_LOGINS.match(setting) and not protocol.has_sasl:
            text = 'the broker has no logins: security="SASL_PLAINTEXT" or "SASL_SSL" gives them'
            raise WrongUse(f"config: {name}: {text}")
        if setting == _MECHANISMS and mechanism not in value.replace(" ", "").split(","):
            raise WrongUse(
                f"config: {name}: clients have no {mechanism}: add it, or name another one in"
                f' security=Security("{protocol.value}", mechanism=...)'
            )


def names_store(config: Mapping[str, str], store: str) -> bool:
    """Return whether settings have a store of their own, for all listeners or for one.

    Args:
        config: the settings.
        store: "keystore" or "truststore".
    """
    ending = re.compile(rf"(listener\.name\.[^.]+\.)?ssl\.{store}\.(location|key|certificate.*)")
    return any(ending.fullmatch(name) for name in config)
