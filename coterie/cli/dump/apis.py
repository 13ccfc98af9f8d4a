"""The APIs of the protocol by the names that people use."""

import re

import click
from click.shell_completion import CompletionItem

from coterie.cli.errors import CommandFailed
from coterie.protocol.api_keys import ApiKey, declared_versions
from coterie.protocol.errors import MalformedFrame


def api_name(key: int) -> str:
    """Return an API's name as Kafka writes it (JoinGroup), or "unknown"."""
    try:
        return ApiKey(key).kafka_name
    except ValueError:
        return "unknown"


def api_named(text: str) -> ApiKey:
    """Return the API of a name or a number.

    Args:
        text: the name in any case, with or without Request or Response, or the number.

    Raises:
        CommandFailed: there is no such API.
    """
    plain = re.sub(r"(request|response)$", "", text.lower().replace("_", ""))
    for key in ApiKey:
        if plain in (api_name(key).lower(), str(int(key))):
            return key
    known = ", ".join(sorted(api_name(key) for key in ApiKey))
    raise CommandFailed(f"There is no API '{text}'.", f"The known APIs are: {known}.")


def complete_api(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of the APIs that begin with the typed text."""
    names = [api_name(key) for key in ApiKey]
    return [CompletionItem(name) for name in names if name.lower().startswith(incomplete.lower())]


def known_api(number: int, version: int) -> ApiKey:
    """Return the API of an api key, if this version of it is known.

    Raises:
        MalformedFrame: the api key or the version is unknown.
    """
    try:
        key = ApiKey(number)
    except ValueError as error:
        raise MalformedFrame(f"the api key {number} is unknown") from error
    first, last = declared_versions(key)
    if not first <= version <= last:
        raise MalformedFrame(
            f"{api_name(key)} is known in versions {first} to {last}, not {version}"
        )
    return key
