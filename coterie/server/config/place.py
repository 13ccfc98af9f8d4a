"""Where the broker listens, what address it advertises, and where it keeps its data.

The settings `listeners`, `advertised.listeners`, `log.dirs` and `log.dir` mean what they mean in
Kafka [settings/listeners]. The options of `coterie serve` replace them, and every replaced setting
is reported [settings/options-replace].
"""

from typing import NamedTuple

from coterie.address import LOOPBACK, Address
from coterie.server.config.broker_keys import KEYS_URL, OAUTH_HANDLER, SIGNED_TOKENS
from coterie.server.config.config import Config
from coterie.server.config.listeners import (
    DEFAULT_ADDRESS,
    Listener,
    ListenerSettings,
    SecurityProtocol,
    client_listeners,
)
from coterie.server.config.sources import ConfigError
from coterie.server.config.weaknesses import has_unsigned_tokens

DEFAULT_DATA_DIR = "./coterie-data"

_EVERY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not listened on


class PlaceOptions(NamedTuple):
    """The options of `coterie serve` that say where it runs; None if they were not given."""

    host: str | None = None
    port: int | None = None
    advertise: str | None = None
    data_dir: str | None = None
    allow_remote: bool = False
    insecure_oauth: bool = False


class Place(NamedTuple):
    """Where a broker runs.

    Attributes:
        listeners: where clients connect; at least one.
        data_dir: the data directory.
        replaced: for each setting that an option replaces, one sentence about it.
    """

    listeners: tuple[Listener, ...]
    data_dir: str
    replaced: tuple[str, ...]

    @property
    def host(self) -> str:
        """The host of the first listener, where metrics are served, too."""
        return self.listeners[0].address.host

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self.listeners[0].address.port


def decide_place(config: Config, options: PlaceOptions) -> Place:
    """Decide where a broker runs, from its settings and the options that replace them.

    Raises:
        ConfigError: they contradict each other, or name a place that is not possible.
    """
    _check_roles(config)
    replaced: list[str] = []
    listeners = _replaced(config, client_listeners(config), options, replaced)
    return Place(
        tuple(_checked(config, each, options) for each in listeners),
        _data_dir(config, options, replaced),
        tuple(dict.fromkeys(replaced)),
    )


def _check_roles(config: Config) -> None:
    roles = config.get_list("process.roles")
    if roles and "broker" not in roles:
        raise ConfigError(
            f"{config.origin('process.roles')}: process.roles={','.join(roles)} describes a node"
            " without a broker. Use the settings of a broker, or remove process.roles."
        )


def _replaced(
    config: Config, listeners: list[Listener], options: PlaceOptions, replaced: list[str]
) -> list[Listener]:
    """Return the listeners after --host, --port and --advertise, which are for one listener."""
    given = {"--host": options.host, "--port": options.port, "--advertise": options.advertise}
    if len(listeners) > 1:
        for option, value in given.items():
            if value is not None:
                names = ", ".join(each.name for each in listeners)
                raise ConfigError(
                    f"{option} {value} is for one listener, and {config.origin('listeners')} has"
                    f" {len(listeners)} ({names}). Change the setting, or leave {option} out."
                )
        return listeners
    listener = listeners[0]
    if options.host is not None:
        listener = listener._replace(address=listener.address._replace(host=options.host))
        replaced += _replace(config, "listeners", f"--host {options.host}")
    if options.port is not None:
        # An advertised port belongs to the listener that is replaced.
        address = listener.address._replace(port=options.port)
        listener = listener._replace(address=address, advertised=None)
        for setting in ("listeners", "advertised.listeners"):
            replaced += _replace(config, setting, f"--port {options.port}")
    if options.advertise is not None:
        listener = listener._replace(advertised=_parse_advertise(options.advertise))
        replaced += _replace(config, "advertised.listeners", f"--advertise {listener.advertised}")
    return [listener]


def _checked(config: Config, listener: Listener, options: PlaceOptions) -> Listener:
    """Return a listener with the host that it listens on [settings/loopback-by-default]."""
    host, is_option = listener.address.host, options.host is not None
    is_open = options.allow_remote or _asks_for_credentials(config, listener)
    has_advertised = listener.advertised is not None or not listener.is_advertised
    if not host and not is_option and not options.allow_remote and not (is_open and has_advertised):
        host = DEFAULT_ADDRESS.host
    named = f"--host {host}" if is_option else config.origin("listeners")
    is_remote = host not in LOOPBACK
    if is_remote and not is_open:
        raise ConfigError(
            f"{named} lets other machines connect, and listener {listener.name} has no"
            f" authentication.{_remedy(listener.protocol)} Add --allow-remote if that is intended."
        )
    if (
        host not in LOOPBACK
        and not options.insecure_oauth
        and has_unsigned_tokens(config, listener)
    ):
        raise ConfigError(
            f"{named} lets other machines connect, and listener {listener.name} takes tokens that"
            f" nobody has signed: everybody can be every user. Set {OAUTH_HANDLER}={SIGNED_TOKENS}"
            f" and {KEYS_URL}, or add --insecure-oauth if that is intended."
        )
    if host in _EVERY_ADDRESS and not has_advertised:
        raise ConfigError(
            f"{named} does not say what address clients are to connect to. Add"
            " --advertise HOST:PORT with the one by which they reach this machine."
        )
    return listener._replace(address=Address(host, listener.address.port))


def _asks_for_credentials(config: Config, listener: Listener) -> bool:
    """Return whether clients of a listener log in, or need a certificate."""
    if listener.protocol is SecurityProtocol.SSL:
        settings = ListenerSettings(config, listener.name)
        return settings.text("ssl.client.auth") == "required"
    return listener.protocol.has_sasl


def _remedy(protocol: SecurityProtocol) -> str:
    return " Set ssl.client.auth=required." if protocol is SecurityProtocol.SSL else ""


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
                f"{config.origin(setting)}: {setting} names {len(directories)} directories. This"
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
