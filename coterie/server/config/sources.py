"""The places that settings are given in: options, environment, a properties file.

[settings/sources] gives their order, [settings/known-names] the names that are accepted. Whatever
is wrong ends the start with an error that says where the setting was given, what may have been
meant and what is allowed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from coterie.server.config.broker_keys import BROKER
from coterie.server.config.kafka_keys import (
    find_key,
    is_name_of_plugin,
    kafka_keys,
    near_names,
    removed_keys,
)
from coterie.server.config.keys import InvalidValue
from coterie.storage.properties import PropertiesError, parse_properties

ENVIRONMENT_PREFIX = "COTERIE_"
# Variables with this prefix that are not settings: options of commands, and what the tests need.
_OTHER_VARIABLES = (
    "COTERIE_ADVERTISE",
    "COTERIE_BOOTSTRAP",
    "COTERIE_COMMAND_CONFIG",
    "COTERIE_CONTROL_TOKEN",
    "COTERIE_KAFKA_VERSION",
    "COTERIE_METRICS_TOKEN",
    "COTERIE_SCHEMA_REGISTRY",
)
_TEST_VARIABLES = "COTERIE_TEST_"

# What names of secrets have, also if they are misspelt: their values are in no message.
_HIDDEN = r"pas|pwd|secret|jaas|cred|token|key$|\.key\."

# How the places are called in messages.
_OPTION = "--config"
_VARIABLE = "environment variable"


class ConfigError(Exception):
    """The configuration cannot be used; the text says why and what to do about it."""


class Given(NamedTuple):
    """The value of a setting, and where it was given."""

    value: str
    origin: str

    @property
    def is_option(self) -> bool:
        """Whether the command line gave it."""
        return self.origin.startswith(_OPTION)

    @property
    def is_of_file(self) -> bool:
        """Whether a properties file gave it."""
        return not self.origin.startswith((_OPTION, _VARIABLE))


def read_settings(
    options: Iterable[str],
    environment: Mapping[str, str],
    properties: str | None,
    properties_name: str,
) -> dict[str, Given]:
    """Return the settings of all places; a stronger place replaces a weaker one.

    Args:
        options: `NAME=VALUE` each, as given to --config.
        environment: the process environment.
        properties: text of a properties file.
        properties_name: how error messages call that file.

    Raises:
        ConfigError: a name is unknown or a value invalid.
    """
    settings: dict[str, Given] = {}
    for name, given in (
        *_from_properties(properties, properties_name),
        *_from_environment(environment),
        *_from_options(options),
    ):
        check(name, given)
        settings[name] = given
    _unite_ids(settings)
    return settings


def _from_properties(text: str | None, file_name: str) -> Iterator[tuple[str, Given]]:
    if text is None:
        return
    try:
        entries = parse_properties(text)
    except PropertiesError as error:
        raise ConfigError(f"{file_name}: {error}") from None
    for line, name, value in entries:
        yield name, Given(value, f"{file_name}, line {line}")


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, Given]]:
    found = [
        variable
        for variable in sorted(environment)
        if variable.startswith(ENVIRONMENT_PREFIX)
        and variable not in _OTHER_VARIABLES
        and not variable.startswith(_TEST_VARIABLES)
    ]
    if not found:
        return
    by_variable = {_variable(name): name for name in (*kafka_keys(), *BROKER)}
    for variable in found:
        # A name that is unknown becomes lower case, so that the error can suggest similar names.
        name = by_variable.get(variable) or _name(variable)
        yield name, Given(environment[variable], f"{_VARIABLE} {variable}")


def _variable(name: str) -> str:
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "_")


def _name(variable: str) -> str:
    return variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")


def _from_options(options: Iterable[str]) -> Iterator[tuple[str, Given]]:
    for option in options:
        name, equals, value = option.partition("=")
        shown = f"{name}=[hidden]" if equals and re.search(_HIDDEN, name.lower()) else option
        origin = f"{_OPTION} {shown}"
        if not equals:
            raise ConfigError(f"{origin}: expected NAME=VALUE")
        yield name.strip(), Given(value, origin)


def check(name: str, given: Given) -> None:
    """Check a setting's name and value.

    Raises:
        ConfigError: the name is unknown or the value invalid.
    """
    key = find_key(name)
    if key is None:
        # A file may be meant for other programs, too; options and variables are meant for this one.
        if not given.is_of_file and name not in removed_keys() and not is_name_of_plugin(name):
            raise ConfigError(f"{given.origin}: {_unknown(name)}")
        return
    try:
        key.parse(given.value)
    except InvalidValue as error:
        raise ConfigError(f"{given.origin}: {error}. {name} is {key.allowed}.") from None


def _unknown(name: str) -> str:
    near = near_names(name)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{name} is not a setting of this broker or of any Kafka up to 4.3.{hint}"


def _unite_ids(settings: dict[str, Given]) -> None:
    """Treat broker.id as the older name of node.id [settings/sources]."""
    older, node = settings.get("broker.id"), settings.get("node.id")
    if older is None or int(older.value) == -1:
        return
    if int(older.value) < 0:
        raise ConfigError(f"{older.origin}: broker.id must be -1 or a whole number from 0")
    if node is None:
        settings["node.id"] = older
    elif int(node.value) != int(older.value):
        raise ConfigError(
            f"{older.origin}: broker.id={older.value} differs from node.id={node.value}"
            f" ({node.origin}); both are the id of this broker, so give one of them"
        )
