"""The releases of Kafka that a broker can pretend to be: which API versions each of them served.

The table is releases.tsv, made from Kafka's own libraries by tests/releases/made.py. A broker that
pretends serves what the release served, as far as it has the API [framing/older-releases].
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey, declared_versions

_TABLE = os.path.join(os.path.dirname(__file__), "releases.tsv")


class UnknownRelease(ValueError):  # noqa: N818 - a wrong value, and no failure of the program
    """No release has this name; the text lists those that there are."""


class Release(NamedTuple):
    """A release, such as 2.8.

    Attributes:
        name: its name, without the number of a patch.
        number: the parts of its name, which can be compared.
        versions: the first and the last version of each API that a broker serves when it pretends
            to be of this release.
    """

    name: str
    number: tuple[int, ...]
    versions: Mapping[ApiKey, tuple[int, int]]

    @classmethod
    def named(cls, name: str) -> "Release":
        """Return a release by its name, or by that of one of its patches, such as 2.8.2.

        Raises:
            UnknownRelease: there is none.
        """
        header, *rows = _rows()
        releases = header[2:]
        wanted = name.strip()
        found = [each for each in releases if wanted == each or _is_patch(wanted, each)]
        if not found:
            known = ", ".join(releases)
            raise UnknownRelease(f"'{wanted}' is no release of Kafka; choose one of {known}")
        column = header.index(found[0])
        own = {api.value: api for api in SERVED_VERSIONS}
        versions = {}
        for row in rows:
            api = own.get(int(row[0]))
            if api is None or not row[column]:
                continue
            first, last = (int(each) for each in row[column].split("-"))
            oldest, newest = declared_versions(api)
            versions[api] = max(first, oldest), min(last, newest)
        return cls(found[0], _number(found[0]), versions)


def _rows() -> list[list[str]]:
    with open(_TABLE, encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def _is_patch(name: str, release: str) -> bool:
    patch = name.removeprefix(f"{release}.")
    return patch != name and all(part.isdecimal() for part in patch.split("."))


def _number(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("."))
