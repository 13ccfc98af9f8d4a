"""Where the broker listens, what address it advertises, and where it keeps its data.

The settings `listeners`, `advertised.listeners`, `log.dirs` and `log.dir` mean what they mean in
Kafka [settings/listeners] [settings/data-directory]. The options of `coterie serve` replace them,
and every replaced setting is reported [settings/options-replace].
"""

import re
from typing import NamedTuple

from coterie.address import Address
from coterie.server.config.config import Config
from coterie.server.config.sources import ConfigError, Given

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092
DEFAULT_DATA_DIR = "./coterie-data"
PLAINTEXT = "PLAINTEXT"

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_META_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on
# Kafka's own pattern, with an empty host for every address of the machine.
_LISTENER = re.compile(r"([^:/]+)://\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")


class PlaceOptions(NamedTuple):
    """The options of `coterie serve` that say where it runs; None if they were not given."""

    host: str | None = None
    port: int | None = None
    advertise: str | None = None
    data_dir: str | None = None
    allow_remote: bool = False


class Place(NamedTuple):
    """Where a broker runs.

    Attributes:
        listener_name: the name of the listener that clients use.
        host, port: the address to listen on.
        advertise: the address that clients are given, if it is another one.
        data_dir: the data directory.
        replaced: for each setting that an option replaces, one sentence about it.
    """

    listener_name: str
    host: str
    port: int
    advertise: Address | None
    data_dir: str
    replaced: tuple[str, ...]


class _Listener(NamedTuple):
    name: str
    address: Address


def decide_place(config: Config, options: PlaceOptions) -> Place:
    """Decide where a broker runs, from its settings and the options that replace them.

    Raises:
        ConfigError: they contradict each other, or name a place that is not possible.
    """
    _check_roles(config)
    replaced: list[str] = []
    listener = _client_listener(config, "listeners")
    name = listener.name if listener is not None else PLAINTEXT
    advertised = _advertised_listener(config, name)
    host: str | None = None
    port = DEFAULT_PORT
    if listener is not None:
        host, port = listener.address
    advertise = None if advertised is None or not advertised.address.host else advertised.address
    if options.host is not None:
        host = options.host
        replaced += _replace(config, "listeners", f"--host {host}")
    if options.port is not None:
        port = options.port
        # An advertised port belongs to the listener that is replaced.
        advertise = None
        for setting in ("listeners", "advertised.listeners"):
            replaced += _replace(config, setting, f"--port {port}")
    if options.advertise is not None:
        advertise = _parse_advertise(options.advertise)
        replaced += _replace(config, "advertised.listeners", f"--advertise {advertise}")
    return Place(
        name,
        _checked_host(config, host, options, is_advertised=advertise is not None),
        port,
        advertise,
        _data_dir(config, options, replaced),
        tuple(dict.fromkeys(replaced)),
    )


def _check_roles(config: Config) -> None:
    roles = config.get_list("process.roles")
    if roles and "broker" not in roles:
        raise ConfigError(
            f"{_origin(config, 'process.roles')}: process.roles={','.join(roles)} describes a node"
            " without a broker. Use the settings of a broker, or remove process.roles."
        )


def _client_listener(config: Config, setting: str) -> _Listener | None:
    """Return the one listener for clients that `setting` names; None if it names none.

    Raises:
        ConfigError: it names several, or one that needs more than PLAINTEXT.
    """
    if config.given(setting) is None:
        return None
    origin = _origin(config, setting)
    of_controller = {name.upper() for name in config.get_list("controller.listener.names")}
    listeners = []
    for text in config.get_list(setting):
        matched = _LISTENER.fullmatch(text)
        if matched is None or int(matched[3]) > 65535:
            raise ConfigError(f"{origin}: {text} is not NAME://HOST:PORT")
        name = matched[1].upper()
        if name not in of_controller:
            listeners.append(_Listener(name, Address(matched[2], int(matched[3]))))
    if not listeners:
        return None
    if len(listeners) > 1:
        names = ", ".join(each.name for each in listeners)
        raise ConfigError(
            f"{origin}: {setting} has {len(listeners)} listeners for clients ({names})."
            " This broker serves one so far; keep the one that your clients use."
        )
    _check_protocol(config, listeners[0].name, origin)
    return listeners[0]


def _check_protocol(config: Config, name: str, origin: str) -> None:
    protocols = {}
    for entry in (config.text("listener.security.protocol.map") or "").split(","):
        listener, _, protocol_name = entry.strip().rpartition(":")
        protocols[listener.upper()] = protocol_name.upper()
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(
            f"{origin}: listener {name} has no security protocol. Add {name}:PLAINTEXT to"
            " listener.security.protocol.map."
        )
    if protocol != PLAINTEXT:
        raise ConfigError(
            f"{origin}: listener {name} uses {protocol}. This broker has no TLS and no SASL yet;"
            " only PLAINTEXT listeners are served."
        )


def _advertised_listener(config: Config, name: str) -> _Listener | None:
    """Return the advertised form of the listener `name`; None if it is not advertised."""
    advertised = _client_listener(config, "advertised.listeners")
    if advertised is None:
        return None
    origin = _origin(config, "advertised.listeners")
    if advertised.name != name:
        raise ConfigError(
            f"{origin}: advertised.listeners names {advertised.name}, but the listener for clients"
            f" is {name}"
        )
    if advertised.address.host in _META_ADDRESSES:
        raise ConfigError(
            f"{origin}: clients cannot connect to {advertised.address.host}. Advertise an address"
            " by which they reach this machine."
        )
    return advertised


def _checked_host(
    config: Config, host: str | None, options: PlaceOptions, *, is_advertised: bool
) -> str:
    """Return the host to listen on [settings/loopback-by-default]."""
    if host is None:
        return DEFAULT_HOST
    if not host and options.host is None and not options.allow_remote:
        return DEFAULT_HOST
    named = f"--host {host}" if options.host is not None else _origin(config, "listeners")
    if host not in _LOOPBACK and not options.allow_remote:
        raise ConfigError(
            f"{named} lets other machines connect, and this broker has no authentication."
            " Add --allow-remote if that is intended."
        )
    if host in ("", *_META_ADDRESSES) and not is_advertised:
        raise ConfigError(
            f"{named} does not say what address clients are to connect to. Add"
            " --advertise HOST:PORT with the one by which they reach this machine."
        )
    return host


def _parse_advertise(text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError as error:
        raise ConfigError(f"--advertise: {error}") from None


def _data_dir(config: Config, options: PlaceOptions, replaced: list[str]) -> str:
    if options.data_dir is not None:
        for setting in ("log.dirs", "log.dir"):
            replaced += _replace(config, setting, f"--data-dir {options.data_dir}")
        return options.data_dir
    for setting in ("log.dirs", "log.dir"):
        directories = config.get_list(setting)
        if len(directories) > 1:
            raise ConfigError(
                f"{_origin(config, setting)}: {setting} names {len(directories)} directories. This"
                " broker keeps its data in one; name that one."
            )
        if directories:
            return directories[0]
    return DEFAULT_DATA_DIR


def _replace(config: Config, setting: str, option: str) -> list[str]:
    """Report that an option replaces a setting, if the setting was given.

    Raises:
        ConfigError: the command line gives both.
    """
    given = config.given(setting)
    if given is None:
        return []
    if given.is_option:
        raise ConfigError(f"{given.origin} and {option} contradict each other; give one of them")
    return [f"{option} replaces {setting} ({given.origin})"]


def _origin(config: Config, setting: str) -> str:
    given: Given | None = config.given(setting)
    return given.origin if given is not None else setting
