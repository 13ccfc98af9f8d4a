"""Releases of Kafka: which one a broker resembles, and which expectations hold for it."""

import re
from collections.abc import Mapping

from coterie.protocol.api_keys import ApiKey

Release = tuple[int, int]
"""Major and minor number."""

# The newest release that the expectations were compared with.
NEWEST: Release = (4, 3)
# What is served by brokers that have none of the markers.
_OLDEST: Release = (2, 5)

# The release that first announced a version of an API, from the comments in Kafka's definitions of
# messages; oldest first.
_MARKERS: tuple[tuple[Release, ApiKey, int], ...] = (
    ((2, 6), ApiKey.LIST_GROUPS, 4),
    ((2, 7), ApiKey.FETCH, 12),
    ((2, 8), ApiKey.DESCRIBE_CLUSTER, 0),
    ((3, 0), ApiKey.LIST_OFFSETS, 7),
    ((3, 1), ApiKey.FETCH, 13),
    ((3, 2), ApiKey.JOIN_GROUP, 9),
    ((3, 5), ApiKey.FETCH, 15),
    ((3, 7), ApiKey.OFFSET_COMMIT, 9),
    ((3, 8), ApiKey.LIST_GROUPS, 5),
    ((4, 0), ApiKey.PRODUCE, 12),
    (NEWEST, ApiKey.PRODUCE, 13),
)


def parse_release(text: str) -> Release:
    """Return the release of `2.8` or `2.8.2`.

    Raises:
        ValueError: the text is not a release.
    """
    match = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)*", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a release of Kafka such as 2.8")
    return int(match[1]), int(match[2])


def release_text(release: Release) -> str:
    """Return a release as people write it."""
    return f"{release[0]}.{release[1]}"


def resembled_release(versions: Mapping[int, tuple[int, int]]) -> Release:
    """Return the newest release whose APIs a broker announces."""
    found = _OLDEST
    for release, api, version in _MARKERS:
        if versions.get(api, (0, -1))[1] >= version:
            found = release
    return found
