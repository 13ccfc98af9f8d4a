"""The listeners of a broker: where each listens, by which security protocol, and its own settings.

`listeners`, `listener.security.protocol.map` and `advertised.listeners` mean what they mean in
Kafka [settings/listeners]. A setting with the prefix `listener.name.NAME.` is that of one listener
and beats the one of the broker [security/prefixed-settings].
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from coterie.address import Address
from coterie.server.config.config import Config
from coterie.server.config.kafka_keys import find_key
from coterie.server.config.keys import Value
from coterie.server.config.sources import ConfigError

# Kafka's own pattern, with an empty host for every address of the machine.
_LISTENER = r"([^:/]+)://\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)"
_NAME = r"[A-Z0-9\-_.]+"
DEFAULT_ADDRESS = Address("127.0.0.1", 9092)
_META_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on


class SecurityProtocol(Enum):
    """How clients of a listener are encrypted, and whether they log in."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether the bytes are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether clients log in."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


_DEFAULT_NAME = SecurityProtocol.PLAINTEXT.value


class Listener(NamedTuple):
    """One listener for clients.

    Attributes:
        address: where it listens; port 0 is any free one, an empty host every address.
        name: its name, in capitals.
        protocol: its security protocol.
        advertised: the address that its clients are given; None for the one it listens on.
        is_advertised: whether clients are given an address of it at all.
    """

    address: Address
    name: str = _DEFAULT_NAME
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    advertised: Address | None = None
    is_advertised: bool = True

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


class CannotListen(OSError):  # noqa: N818 - the address cannot be used; it is no failure of ours
    """An address cannot be listened on.

    Attributes:
        address: the address.
    """

    def __init__(self, address: Address, error: OSError) -> None:
        super().__init__(error.errno, error.strerror)
        self.address = address


def client_listeners(config: Config) -> list[Listener]:
    """Return the listeners for clients that the settings name, or the one by default.

    Raises:
        ConfigError: they contradict each other or cannot be opened.
    """
    named = _named(config, "listeners") or [(_DEFAULT_NAME, DEFAULT_ADDRESS)]
    origin = config.origin("listeners")
    protocols = _protocols(config)
    _check_distinct(origin, named)
    advertised = _advertised(config, [name for name, _ in named])
    listeners = []
    for name, address in named:
        protocol = protocols.get(name)
        if protocol is None:
            raise ConfigError(
                f"{origin}: listener {name} has no security protocol. Add {name}:PLAINTEXT to"
                " listener.security.protocol.map."
            )
        given = None if advertised is None else advertised.get(name)
        is_advertised = advertised is None or given is not None
        shown = given if given is not None and given.host else None
        listeners.append(Listener(address, name, protocol, shown, is_advertised))
    return listeners


def _named(config: Config, setting: str) -> list[tuple[str, Address]]:
    """Return the names and addresses of a setting, without those of the controller."""
    if config.given(setting) is None:
        return []
    origin = config.origin(setting)
    of_controller = {name.upper() for name in config.get_list("controller.listener.names")}
    found = []
    for text in config.get_list(setting):
        matched = re.fullmatch(_LISTENER, text)
        if (
            matched is None
            or int(matched[3]) > 65535
            or not re.fullmatch(_NAME, matched[1].upper())
        ):
            raise ConfigError(f"{origin}: {text} is not NAME://HOST:PORT")
        name = matched[1].upper()
        if name not in of_controller:
            found.append((name, Address(matched[2], int(matched[3]))))
    return found


def _check_distinct(origin: str, named: list[tuple[str, Address]]) -> None:
    """Check that no two listeners have one name, or one port."""
    names, ports = set[str](), dict[int, list[Address]]()
    for name, address in named:
        if name in names:
            raise ConfigError(
                f"{origin}: listener {name} is named twice. Give each listener a name of its own,"
                " and its protocol in listener.security.protocol.map."
            )
        names.add(name)
        if address.port:
            ports.setdefault(address.port, []).append(address)
    for port, same in ports.items():
        # One port is enough for an address of IPv4 and one of IPv6, as in Kafka.
        kinds = sorted(":" in each.host for each in same if each.host)
        if len(same) > 1 and (len(same) > 2 or kinds != [False, True]):
            raise ConfigError(
                f"{origin}: {len(same)} listeners have port {port}. Give each a port of its own."
            )


def _protocols(config: Config) -> dict[str, SecurityProtocol]:
    """Return the security protocol of each name in listener.security.protocol.map."""
    setting = "listener.security.protocol.map"
    found = {}
    for entry in (config.text(setting) or "").split(","):
        name, _, protocol = entry.strip().rpartition(":")
        try:
            found[name.upper()] = SecurityProtocol(protocol.upper())
        except ValueError:
            known = ", ".join(each.value for each in SecurityProtocol)
            text = f"{entry.strip()} is not NAME:PROTOCOL with one of {known}"
            raise ConfigError(f"{config.origin(setting)}: {text}") from None
    return found


def _advertised(config: Config, names: list[str]) -> dict[str, Address] | None:
    """Return the advertised address of each listener; None if all advertise their own."""
    named = _named(config, "advertised.listeners")
    if not named:
        return None
    origin = config.origin("advertised.listeners")
    for name, address in named:
        if name not in names:
            raise ConfigError(
                f"{origin}: advertised.listeners names {name}, but the listeners for clients are"
                f" {', '.join(names)}. Advertise one of these, or add {name} to listeners."
            )
        if address.host in _META_ADDRESSES:
            raise ConfigError(
                f"{origin}: clients cannot connect to {address.host}. Advertise an address"
                " by which they reach this machine."
            )
    return dict(named)


def prefix_of(listener_name: str) -> str:
    """Return how the names of the settings of a listener begin."""
    return f"listener.name.{listener_name.lower()}."


class ListenerSettings:
    """The settings of one listener, and of a mechanism there [security/prefixed-settings]."""

    def __init__(
        self, config: Config, listener_name: str, altered: Mapping[str, str] | None = None
    ) -> None:
        """Read the settings of a listener.

        Args:
            config: all settings.
            listener_name: its name, in capitals.
            altered: what clients would have altered of this broker, instead of what they have.
        """
        self._config = config
        self._altered = altered
        self._prefix = prefix_of(listener_name)

    def name_of(self, setting: str, mechanism: str | None = None) -> str:
        """Return the name under which a setting is given here: with a prefix, or without one."""
        prefixed = [] if mechanism is None else [f"{self._prefix}{mechanism.lower()}.{setting}"]
        prefixed.append(f"{self._prefix}{setting}")
        return next((each for each in prefixed if self._text(each) is not None), setting)

    def _text(self, name: str) -> str | None:
        return self._config.text(name, self._altered)

    def own_text(self, setting: str) -> str | None:
        """Return the value with the listener's prefix; None if there is none."""
        return self._text(self._prefix + setting)

    def text(self, setting: str, mechanism: str | None = None) -> str | None:
        """Return the value of a setting as text; None if it has none.

        Args:
            setting: its name without a prefix.
            mechanism: of SASL, whose own value beats that of the listener.
        """
        return self._text(self.name_of(setting, mechanism))

    def value(self, setting: str, mechanism: str | None = None) -> Value | None:
        """Return the value of a setting by its type; None if it has none."""
        text, key = self.text(setting, mechanism), find_key(setting)
        assert key is not None, setting
        return None if text is None else key.parse(text)

    def origin(self, setting: str, mechanism: str | None = None) -> str:
        """Return where a setting was given, for errors."""
        name = self.name_of(setting, mechanism)
        return name if name in (self._altered or ()) else self._config.origin(name)
