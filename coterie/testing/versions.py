"""What a broker for tests is given about versions: the release that it pretends to be, features."""

from collections.abc import Mapping

from coterie.server.features import Levels, parse_levels, supported_features
from coterie.server.releases import Release, UnknownRelease
from coterie.testing.errors import WrongUse


def release_of(version: str | None) -> Release | None:
    """Return the release of a version such as "2.8"; None for Coterie itself.

    Raises:
        WrongUse: there is no such release.
    """
    try:
        return None if version is None else Release.named(version)
    except UnknownRelease as error:
        raise WrongUse(f"version: {error}") from None


def initial_levels(features: Mapping[str, int] | None, release: Release | None) -> dict[str, int]:
    """Return the levels with which a broker begins, checked; none if nothing was given.

    Raises:
        WrongUse: the release has no such feature, or not this level.
    """
    return checked_levels(features, supported_features(release)) if features else {}


def checked_levels(features: Mapping[str, int], supported: Mapping[str, Levels]) -> dict[str, int]:
    """Return levels that are supported.

    Raises:
        WrongUse: there is no such feature, or not this level.
    """
    texts = [f"{name}={level}" for name, level in features.items()]
    try:
        return parse_levels(texts, supported)
    except ValueError as error:
        raise WrongUse(f"features: {error}") from None
