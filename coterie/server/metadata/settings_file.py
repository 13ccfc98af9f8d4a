"""The settings of one data directory while a broker uses it, and its block of producer ids.

Invariant: a change is in the file before it is in memory. After a failed write the old value holds,
and the next write may bring either to the disk [topics/settings-file]. Changes hold a lock, because
some are made by threads.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from coterie.server.metadata.stored_settings import (
    QuotaEntity,
    StoredSettings,
    StoredTopic,
    read_settings,
    write_settings,
)
from coterie.server.metadata.topic import TopicMetadata
from coterie.storage.filesystem import FileSystem

# Producer ids are reserved in blocks of Kafka's size, so that not every new id writes a file.
_PRODUCER_ID_BLOCK = 1_000
# The first id in a directory of another broker, whose ids are in its metadata log or in ZooKeeper:
# above all that it has given and, if the directory returns to it, above those that it will give
# [topics/foreign-directories].
FOREIGN_PRODUCER_IDS = 1 << 40


class StoredPlacement(NamedTuple):
    """Where the partitions of a topic are: the brokers and the leader epoch of each."""

    replicas: Sequence[Sequence[int]]
    epochs: Sequence[int]


class Alterations:
    """Settings that one request alters; they are stored together, or none of them.

    Attributes:
        topics: the new settings of topics.
        placements: the new replicas and leader epochs of the partitions of topics.
        resources: all settings of groups or of subscriptions of client metrics, by the type of the
            resource and its name.
        broker, cluster: all altered settings of the broker, the first one of several, and of the
            cluster; None for no change.
        brokers: those of further brokers, by node id.
    """

    __slots__ = ("broker", "brokers", "cluster", "placements", "resources", "topics")

    def __init__(self) -> None:
        """Alter nothing."""
        self.topics: dict[TopicMetadata, Mapping[str, str]] = {}
        self.placements: dict[TopicMetadata, StoredPlacement] = {}
        self.resources: dict[int, Mapping[str, Mapping[str, str]]] = {}
        self.broker: Mapping[str, str] | None = None
        self.brokers: dict[int, Mapping[str, str]] = {}
        self.cluster: Mapping[str, str] | None = None

    def __bool__(self) -> bool:
        """Whether anything is altered."""
        return bool(
            self.topics
            or self.placements
            or self.resources
            or self.broker is not None
            or self.brokers
            or self.cluster is not None
        )


class SettingsFile:
    """The file of settings, and its contents in memory.

    Attributes:
        stored: the contents.
        is_missing: whether there was no file at the start: another broker wrote the directory.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        path: str,
        lock: AbstractContextManager[object],
        *,
        durable: bool,
    ) -> None:
        """Read the file.

        Args:
            filesystem: where the data directory is.
            path: the data directory.
            lock: held during a change.
            durable: whether changes must survive a loss of power.

        Raises:
            CorruptLog: it is damaged.
            OSError: it cannot be read.
        """
        self._lock = lock
        self._filesystem = filesystem
        self._path = path
        self._durable = durable
        found = read_settings(filesystem, path)
        self.is_missing = found is None
        self.stored = StoredSettings() if found is None else found
        # Ids that an earlier start reserved are not used again, whether it gave them out or not.
        self._next_producer_id = self.stored.next_producer_id

    def begin(self, existing: Mapping[bytes, StoredTopic], *, is_foreign: bool) -> None:
        """Forget topics that do not exist, and write the file if the others are not in it.

        Args:
            existing: the existing topics that have something to store.
            is_foreign: whether another broker may have given producer ids in this directory.

        Raises:
            OSError: the file could not be written.
        """
        next_id = self.stored.next_producer_id
        assert self._next_producer_id == next_id, "no producer id is given before the start ends"
        first_id = max(next_id, FOREIGN_PRODUCER_IDS) if is_foreign else next_id
        stored = self.stored._replace(topics=existing, by_name={}, next_producer_id=first_id)
        if (
            first_id > next_id
            or self.stored.by_name
            or any(self.stored.topics.get(each) != topic for each, topic in existing.items())
        ):
            self._save(stored)
        else:
            # What is stored of other topics has no effect, and the next write drops it.
            self.stored = stored
        self._next_producer_id = first_id

    def alter(self, alterations: Alterations) -> None:
        """Store what a request alters, with one write. Raises OSError."""
        with self._lock:
            stored = self.stored
            topics = dict(stored.topics)
            for topic, overrides in alterations.topics.items():
                before = topics.pop(topic.topic_id, StoredTopic(topic.name, {}))
                after = before._replace(settings=overrides)
                if not after.is_empty:
                    topics[topic.topic_id] = after
            for topic, placement in alterations.placements.items():
                before = topics.get(topic.topic_id, StoredTopic(topic.name, {}))
                topics[topic.topic_id] = before._replace(**placement._asdict())
            broker, cluster = alterations.broker, alterations.cluster
            altered = stored._replace(
                topics=topics,
                resources={**stored.resources, **alterations.resources},
                broker=stored.broker if broker is None else dict(broker),
                brokers={**stored.brokers, **alterations.brokers},
                cluster=stored.cluster if cluster is None else dict(cluster),
            )
            assert self.stored is stored, "a change holds the lock until it is stored"
            if altered != stored:
                self._save(altered)

    def add_replicas(self, topic: TopicMetadata, added: Sequence[Sequence[int]]) -> None:
        """Store where new partitions of a topic are; their first epoch is 0. Raises OSError."""
        with self._lock:
            topics = dict(self.stored.topics)
            before = topics.get(topic.topic_id, StoredTopic(topic.name, {}))
            topics[topic.topic_id] = before._replace(
                # What is stored beyond that is left of an extension that has failed.
                replicas=[*before.replicas[: topic.partition_count], *added],
                epochs=[*before.epochs[: topic.partition_count], *[0] * len(added)],
            )
            self._save(self.stored._replace(topics=topics))

    def forget_topic(self, topic_id: bytes) -> None:
        """Forget a deleted topic; the next write drops it from the file, too."""
        with self._lock:
            topics = dict(self.stored.topics)
            if topics.pop(topic_id, None) is not None:
                self.stored = self.stored._replace(topics=topics)

    def set_features(self, levels: Mapping[str, int]) -> None:
        """Store the levels of features, with the next epoch. Raises OSError."""
        with self._lock:
            epoch = self.stored.features_epoch + 1
            self._save(self.stored._replace(features=dict(levels), features_epoch=epoch))

    def set_quotas(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Store the quotas of all entities. Raises OSError."""
        with self._lock:
            self._save(self.stored._replace(quotas=quotas))

    @property
    def has_producer_id(self) -> bool:
        """Whether a reserved producer id is left."""
        return self._next_producer_id < self.stored.next_producer_id

    def reserve_producer_ids(self) -> None:
        """Reserve the next block of producer ids. Raises OSError."""
        # Before the first id of the block is used: a crash skips ids, and repeats none.
        with self._lock:
            reserved = self.stored.next_producer_id + _PRODUCER_ID_BLOCK
            assert self._next_producer_id < reserved, "a new block holds ids that were not given"
            self._save(self.stored._replace(next_producer_id=reserved))

    def new_producer_id(self) -> int:
        """Return a producer id that was never returned before, in this start or an earlier one.

        Raises:
            OSError: no block of ids could be reserved.
        """
        if not self.has_producer_id:
            self.reserve_producer_ids()
        assert self._next_producer_id < self.stored.next_producer_id, "only reserved ids are used"
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def _save(self, settings: StoredSettings) -> None:
        assert settings.next_producer_id >= self.stored.next_producer_id, "no id is given twice"
        assert settings.next_producer_id >= self._next_producer_id, "given ids stay reserved"
        assert settings.features_epoch >= self.stored.features_epoch, "epochs only grow"
        write_settings(self._filesystem, self._path, settings, durable=self._durable)
        self.stored = settings
