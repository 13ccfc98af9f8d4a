"""The APIs by the names people use for them, and their declared messages."""

import re

from coterie.cli.broker import CommandFailed
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import MalformedFrame


def api_name(key: int) -> str:
    """An API's name as Kafka writes it, JoinGroup; "unknown" for a number that is none here."""
    try:
        return ApiKey(key).kafka_name
    except ValueError:
        return "unknown"


def api_named(text: str) -> ApiKey:
    """The API of a name in any case, with or without Request or Response, or of a number.

    Raises:
        CommandFailed: there is none.
    """
    plain = re.sub(r"(request|response)$", "", text.lower().replace("_", ""))
    for key in ApiKey:
        if plain in (api_name(key).lower(), str(int(key))):
            return key
    known = ", ".join(sorted(api_name(key) for key in ApiKey))
    raise CommandFailed(f"There is no API '{text}' here.", f"These are: {known}.")


def known_api(number: int, version: int) -> ApiKey:
    """The API of a request header.

    Raises:
        MalformedFrame: the number or the version is not known here.
    """
    try:
        key = ApiKey(number)
    except ValueError as error:
        raise MalformedFrame(f"api key {number} is not known here") from error
    first, last = SERVED_VERSIONS[key]
    if not first <= version <= last:
        raise MalformedFrame(f"{api_name(key)} is known from {first} to {last}, not {version}")
    return key
