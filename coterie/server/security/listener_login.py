"""How clients of one listener log in: its mechanisms, and what a failure costs.

A listener has the mechanisms of `sasl.enabled.mechanisms`. The users of PLAIN come from its
`sasl.jaas.config`, those of SCRAM from the security log [security/login-settings].
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from coterie.protocol.messages.security_records import UserScramCredentialRecord
from coterie.security.credentials import Credentials
from coterie.security.delegation_tokens import DelegationTokens
from coterie.security.jaas import (
    OAUTHBEARER_MODULE,
    PLAIN_MODULE,
    JaasError,
    LoginModule,
    parse_jaas,
)
from coterie.security.login import Mechanisms
from coterie.security.mechanisms import LoggedIn, Mechanism, Server
from coterie.security.oauthbearer import OAuthBearerServer
from coterie.security.plain import PlainServer
from coterie.security.scram import NUMBERS, ScramKeys, ScramServer, ScramUser
from coterie.server.config.broker_keys import OAUTH_HANDLER
from coterie.server.config.listeners import Listener, ListenerSettings, prefix_of
from coterie.server.config.sources import ConfigError
from coterie.server.security.logins import Logins

if TYPE_CHECKING:
    from coterie.server.config.config import Config
    from coterie.server.environment import Environment

# What the value of PLAIN has besides.
_USERS = ' user_NAME="PASSWORD"'
# Random bytes of the secret from which the salts of unknown users follow.
_SECRET_BYTES = 32


class ListenerLogin(NamedTuple):
    """How clients of a listener log in.

    Attributes:
        mechanisms: the mechanisms.
        delay_s: how long the answer to a failed login is held.
        largest_bytes: the largest frame before the login has succeeded.
        logins: all logins of the broker.
        random_bytes: returns so many random bytes.
    """

    mechanisms: Mechanisms
    delay_s: float
    largest_bytes: int
    logins: Logins
    random_bytes: Callable[[int], bytes]


class ScramUsersOfBroker:
    """The users and tokens that may log in with SCRAM."""

    def __init__(
        self, credentials: Credentials, tokens: DelegationTokens, environment: "Environment"
    ) -> None:
        """Take the users and tokens of the security log, and what has the clock."""
        self._credentials = credentials
        self._tokens = tokens
        self._environment = environment

    def find(self, name: str, mechanism: int) -> ScramUser | None:
        """See `ScramUsers`."""
        found = self._credentials.find(name, mechanism)
        return None if found is None else ScramUser(_keys(found), LoggedIn(name))

    def find_token(self, token_id: str, mechanism: int) -> ScramUser | None:
        """See `ScramUsers`."""
        return self._tokens.login(token_id, mechanism, self._environment.wall_ms())

    def example(self, mechanism: int) -> ScramKeys | None:
        """See `ScramUsers`. It is the oldest user, so that it is soon found."""
        for user in self._credentials.users:
            found = self._credentials.find(user, mechanism)
            if found is not None:
                return _keys(found)
        return None


def _keys(found: UserScramCredentialRecord) -> ScramKeys:
    return ScramKeys(found.salt, found.iterations, found.stored_key, found.server_key)


def listener_login(
    config: "Config",
    listener: Listener,
    users: ScramUsersOfBroker,
    logins: Logins,
    environment: "Environment",
) -> ListenerLogin:
    """Return how clients of a listener log in, by its settings.

    Raises:
        ConfigError: they cannot be used.
    """
    settings = ListenerSettings(config, listener.name)
    servers: dict[Mechanism, Server] = {}
    max_session_ms = {}
    for mechanism in _enabled(settings, listener):
        servers[mechanism] = _server(mechanism, config, listener, users, environment)
        limit_ms = settings.value("connections.max.reauth.ms", mechanism.value)
        assert isinstance(limit_ms, int), "it has a default"
        max_session_ms[mechanism] = limit_ms
    largest = settings.value("sasl.server.max.receive.size")
    assert isinstance(largest, int), "it has a default"
    delay_ms = config.get_int("connection.failed.authentication.delay.ms")
    if delay_ms >= config.get_int("connections.max.idle.ms"):
        raise ConfigError(
            f"{config.origin('connection.failed.authentication.delay.ms')}:"
            " connection.failed.authentication.delay.ms must be less than connections.max.idle.ms"
        )
    return ListenerLogin(
        Mechanisms(servers, max_session_ms),
        delay_ms / 1000,
        largest,
        logins,
        environment.random_bytes,
    )


def _enabled(settings: ListenerSettings, listener: Listener) -> list[Mechanism]:
    """Return the mechanisms of a listener, in the order in which they are given."""
    setting = "sasl.enabled.mechanisms"
    given = settings.value(setting)
    names = given if isinstance(given, tuple) else ()
    known = ", ".join(each.value for each in Mechanism)
    found: list[Mechanism] = []
    for name in names:
        if name == "GSSAPI":
            raise ConfigError(
                f"{settings.origin(setting)}: listener {listener.name} has the mechanism GSSAPI"
                f" (Kerberos), which is not served. Set {setting} to some of {known}."
            )
        try:
            mechanism = Mechanism(name)
        except ValueError:
            raise ConfigError(
                f"{settings.origin(setting)}: {name!r} is no mechanism of this broker. Set"
                f" {setting} to some of {known}."
            ) from None
        if mechanism not in found:
            found.append(mechanism)
    if not found:
        raise ConfigError(
            f"{settings.origin(setting)}: listener {listener.name} has no mechanism. Set {setting}"
            f" to some of {known}."
        )
    return found


def _server(
    mechanism: Mechanism,
    config: "Config",
    listener: Listener,
    users: ScramUsersOfBroker,
    environment: "Environment",
) -> Server:
    if mechanism is not Mechanism.OAUTHBEARER:
        _check_no_handler(config, listener, mechanism)
    if mechanism in NUMBERS:
        return ScramServer(mechanism, users, environment.random_bytes(_SECRET_BYTES))
    if mechanism is Mechanism.PLAIN:
        return PlainServer(_login_module(config, listener, mechanism, PLAIN_MODULE).users)
    # Imported here, because most listeners have no tokens.
    from coterie.server.security.token_settings import token_validator

    options = _login_module(config, listener, mechanism, OAUTHBEARER_MODULE).options
    return OAuthBearerServer(token_validator(config, listener, options, environment))


def _check_no_handler(config: "Config", listener: Listener, mechanism: Mechanism) -> None:
    """Check that no class of Java is to decide about passwords."""
    setting = f"{prefix_of(listener.name)}{mechanism.value.lower()}.{OAUTH_HANDLER}"
    if config.text(setting) is not None:
        raise ConfigError(
            f"{config.origin(setting)}: {setting}: no class is loaded, so {mechanism.value} has the"
            " users of its sasl.jaas.config, or those of `coterie users`. Remove the setting."
        )


def _login_module(
    config: "Config", listener: Listener, mechanism: Mechanism, name: str
) -> LoginModule:
    """Return the entry of sasl.jaas.config for a mechanism of the listener."""
    setting = f"listener.name.{listener.name}.{mechanism.value}".lower() + ".sasl.jaas.config"
    text = config.text(setting)
    if text is None:
        raise ConfigError(
            f"{setting} is not set, so nobody can log in with {mechanism.value} at listener"
            f" {listener.name}. As in Kafka the setting has the listener and the mechanism in its"
            f" name; its value is {name} required{_USERS if name == PLAIN_MODULE else ''};"
        )
    try:
        found = parse_jaas(text)
    except JaasError as error:
        raise ConfigError(f"{config.origin(setting)}: {setting}: {error}") from None
    if found.name != name:
        raise ConfigError(f"{config.origin(setting)}: {setting}: {mechanism.value} needs {name}")
    return found
