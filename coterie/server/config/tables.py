"""Reads tables of settings: files of lines with columns that tabs separate.

The first lines of each file, which begin with #, say what its columns are.
"""

import os
from collections.abc import Sequence

from coterie.server.config.keys import ConfigKey, ConfigType, UpdateMode

_NONE = "-"
_UNLISTED = "unlisted"
_READ_ONLY = UpdateMode.READ_ONLY.value


def rows(file_name: str) -> list[list[str]]:
    """Return the columns of each line of a table in this directory."""
    path = os.path.join(os.path.dirname(__file__), file_name)
    with open(path, encoding="ascii") as file:
        return [line.split("\t") for line in file.read().splitlines() if line[0] != "#"]


def key_of(columns: Sequence[str], documentation: str) -> ConfigKey:
    """Return the setting of the first five columns of a row of `broker_settings.tsv`."""
    name, kind, default, valid, update = columns
    minimum = maximum = None
    choices: tuple[str, ...] = ()
    valid, or_minus_one, _ = valid.partition("|-1")
    if ".." in valid:
        low, _, high = valid.partition("..")
        minimum, maximum = float(low), float(high) if high else None
    elif valid != _NONE:
        choices = tuple(valid.split("|"))
    mode, _, unlisted = update.partition(" ")
    return ConfigKey(
        name,
        ConfigType[kind.upper()],
        {_NONE: None, '""': ""}.get(default, default),
        documentation,
        minimum,
        maximum,
        choices,
        or_minus_one=bool(or_minus_one),
        update=UpdateMode(mode),
        is_listed=unlisted != _UNLISTED,
    )


def derived_keys(file_name: str) -> dict[str, ConfigKey]:
    """Return the settings of a table whose defaults come from settings of the broker, by name."""
    found = {}
    for name, kind, default, valid, sources, documentation in rows(file_name):
        key = key_of((name, kind, default, valid, _READ_ONLY), documentation)
        synonyms = () if sources == _NONE else tuple(map(_synonym, sources.split(",")))
        found[name] = key._replace(synonyms=synonyms)
    return found


def _synonym(text: str) -> tuple[str, int]:
    name, _, factor = text.partition("*")
    return name, int(factor or 1)
