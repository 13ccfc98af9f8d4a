"""Features of the cluster: their supported levels, and the finalized one of each [features/levels].

Clients take the finalized levels from ApiVersions and choose their protocol by them. So a feature
is supported only while the API is served that clients use because of it [features/served-only].

Invariant: a change is in the file of settings before it is in memory, and has a higher epoch.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.server.config.config import Config
from coterie.server.metadata.settings_file import SettingsFile
from coterie.server.metadata.topic_changes import Change
from coterie.server.releases import Release
from coterie.server.workers import once

GROUP_VERSION = "group.version"
# The names of protocols in the setting that lists those that are served.
_CONSUMER = "consumer"
_STREAMS = "streams"
TRANSACTION_VERSION = "transaction.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"
METADATA_VERSION = "metadata.version"
ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"

# The first release with features that are shown here, and the newest metadata.version of each
# since then (org.apache.kafka.server.common.MetadataVersion).
_SHOWN_SINCE = (4, 0)
# The first release whose new clusters have the level 1 of this feature.
_ELIGIBLE_SINCE = (4, 1)
_METADATA_OF_RELEASE = {(4, 0): 25, (4, 1): 27, (4, 2): 29}


class Levels(NamedTuple):
    """The lowest and the highest level of a feature."""

    first: int
    last: int


class Feature(NamedTuple):
    """A feature of Kafka 4.3.1.

    Attributes:
        name: Kafka's name.
        levels: those of Kafka 4.3.1.
        api: the name of the API that clients use because of the feature; "" for none.
    """

    name: str
    levels: Levels
    api: str


# Not kraft.version: the one voter cannot be changed.
FEATURES = (
    Feature(GROUP_VERSION, Levels(0, 1), "CONSUMER_GROUP_HEARTBEAT"),
    Feature(METADATA_VERSION, Levels(7, 30), ""),
    Feature(SHARE_VERSION, Levels(0, 1), "SHARE_GROUP_HEARTBEAT"),
    Feature(STREAMS_VERSION, Levels(0, 1), "STREAMS_GROUP_HEARTBEAT"),
    Feature(TRANSACTION_VERSION, Levels(0, 2), "END_TXN"),
    Feature(ELIGIBLE_LEADER_REPLICAS, Levels(0, 1), ""),
)


def supported_features(release: Release | None = None) -> dict[str, Levels]:
    """Return the features that a broker supports, and their levels.

    Args:
        release: the release of Kafka that the broker pretends to be; None to be itself.
    """
    if release is not None and release.number < _SHOWN_SINCE:
        return {}
    served = SERVED_VERSIONS if release is None else release.versions
    found = {
        name: levels
        for name, levels, api in FEATURES
        if not api or (api in ApiKey.__members__ and ApiKey[api] in served)
    }
    if release is not None:
        first, last = found[METADATA_VERSION]
        newest = _METADATA_OF_RELEASE.get((release.number[0], release.number[1]), last)
        found[METADATA_VERSION] = Levels(first, newest)
    return found


def parse_levels(texts: Iterable[str], supported: Mapping[str, Levels]) -> dict[str, int]:
    """Return the levels of options such as `transaction.version=1`.

    Args:
        texts: the options.
        supported: the levels of each feature.

    Raises:
        ValueError: an option is invalid; the text says what is allowed.
    """
    levels = {}
    for text in texts:
        name, _, level = text.partition("=")
        if name not in supported:
            names = ", ".join(sorted(supported)) or "none"
            raise ValueError(f"'{name}' is not a feature of this broker; it has {names}")
        first, last = supported[name]
        if not level.isdecimal() or not first <= int(level) <= last:
            raise ValueError(f"{text}: the level must be a whole number from {first} to {last}")
        levels[name] = int(level)
    return levels


class Features:
    """The features of a broker.

    Attributes:
        supported: the levels of each supported feature.
        finalized: the level of each finalized feature, at least 1.
        epoch: a number that is higher after each change.
        serves_consumer_groups: whether the consumer protocol is on
            [consumer-groups/switched-off]. Read for each of its heartbeats.
        serves_share_groups: whether share groups are on [share-groups/switched-off].
        serves_streams_groups: whether streams groups are on [streams-groups/switched-off].
        when_changed: called after each change of levels.
    """

    def __init__(self, settings: SettingsFile, config: Config) -> None:
        """Take the stored levels; a feature without one has its highest.

        Args:
            settings: where levels are stored.
            config: the settings of the broker, one of which depends on a feature.
        """
        self._settings = settings
        self._config = config
        self._release: Release | None = None
        self.when_changed: list[Callable[[], None]] = []
        self.supported = supported_features()
        self._finalize()
        self.epoch = settings.stored.features_epoch

    def level(self, name: str) -> int:
        """Return the finalized level of a feature; 0 if it is not finalized or not supported."""
        return self.finalized.get(name, 0)

    def pretend(self, release: Release) -> None:
        """Support what a release of Kafka supported, and no more [framing/older-releases]."""
        self._release = release
        self.supported = supported_features(release)
        self._finalize()

    def start_with(self, levels: Mapping[str, int]) -> None:
        """Finalize levels that the start was given, and store them.

        Raises:
            OSError: they could not be stored.
        """
        if any(self.level(name) != level for name, level in levels.items()):
            self._settings.set_features({**self._settings.stored.features, **levels})
            self._take()

    def change(self, levels: Mapping[str, int]) -> Change[None]:
        """Finalize levels that the caller has checked.

        Raises:
            OSError: they could not be stored, and are not changed.
        """
        stored = {**self._settings.stored.features, **levels}
        yield once(partial(self._settings.set_features, stored))
        self._take()

    def _take(self) -> None:
        assert self.epoch < self._settings.stored.features_epoch, "clients take the newest levels"
        self.epoch = self._settings.stored.features_epoch
        self._finalize()
        for call in self.when_changed:
            call()

    def _finalize(self) -> None:
        stored = dict(self._settings.stored.features)
        if self._release is not None and self._release.number < _ELIGIBLE_SINCE:
            stored.setdefault(ELIGIBLE_LEADER_REPLICAS, 0)
        levels = {
            name: max(min(stored.get(name, last), last), first)
            for name, (first, last) in self.supported.items()
        }
        self.finalized = {name: level for name, level in levels.items() if level}
        protocols = self._config.get_list("group.coordinator.rebalance.protocols")
        self.serves_consumer_groups = self.level(GROUP_VERSION) > 0 and _CONSUMER in protocols
        self.serves_share_groups = self.level(SHARE_VERSION) > 0
        self.serves_streams_groups = self.level(STREAMS_VERSION) > 0 and _STREAMS in protocols
        self._config.keep_min_insync_replicas(kept=self.level(ELIGIBLE_LEADER_REPLICAS) > 0)
