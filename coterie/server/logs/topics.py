"""Topics: their ids, partitions and settings; creation, growth and deletion.

Partitions stand in the data directory in Kafka's layout. What Kafka keeps in its metadata log (the
settings of topics, what clients altered of the broker, the next producer id) is one small file of
our own beside them, replaced as a whole.

Invariants: `by_name` and `by_id` hold the same topics; a topic's partitions are numbered without
gaps; a log is opened when it is first used.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.config.config import Config, TopicConfig
from coterie.server.environment import new_topic_id
from coterie.server.logs.partition import Partition
from coterie.server.logs.topic_rules import (
    INTERNAL_TOPICS,
    OWN_TOPICS,
    TopicRefused,
    collision_key,
    invalid_name,
)
from coterie.storage.checkpoints import read_file, replace_file
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import CorruptLog, StorageError, remedy_for
from coterie.storage.log import Log, LogConfig

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# Partitions altogether: each is a directory and about 1 KiB of memory, whoever asked for it.
MAX_PARTITIONS = 20_000

SETTINGS_FILE = "coterie-settings.json"
_SETTINGS_VERSION = 1
# Producer ids are reserved in blocks, so that giving one out does not write a file; Kafka's size.
_PRODUCER_ID_BLOCK = 1_000


class Topic:
    """A topic.

    Attributes:
        name, topic_id: who it is; the id is 16 bytes.
        partitions: by number.
        config: its settings.
        is_internal: whether it is Kafka's own.
        is_own: whether the broker alone writes it, and its number of partitions is fixed.
    """

    __slots__ = ("config", "is_internal", "is_own", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes, config: TopicConfig) -> None:
        """Without partitions yet."""
        self.name = name
        self.topic_id = topic_id
        self.config = config
        self.is_internal = name in INTERNAL_TOPICS
        self.is_own = name in OWN_TOPICS
        self.partitions: list[Partition] = []

    def __repr__(self) -> str:
        return f"Topic({self.name!r}, {len(self.partitions)} partitions)"

    def partition(self, index: int) -> Partition | None:
        """The partition of a number, if there is one."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


class Topics:
    """All topics of the broker."""

    def __init__(
        self,
        data: DataDirectory,
        config: Config,
        log: "FilteringBoundLogger",
        *,
        durable: bool,
    ) -> None:
        """The topics a data directory holds.

        Args:
            data: the directory, held by us.
            config: the broker's settings; altered ones are applied to it.
            log: told of what recovery found.
            durable: whether what is created and changed shall survive a loss of power.

        Raises:
            CorruptLog: our own file of settings can't be read.
        """
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self._data = data
        self._config = config
        self._log = log
        self._durable = durable
        self._by_collision: dict[str, str] = {}
        self._settings_path = f"{data.path}/{SETTINGS_FILE}"
        stored = self._read_settings()
        self._next_producer_id = self._reserved_producer_id = int(stored.get("next_producer_id", 0))
        config.alter(stored.get("broker", {}))
        overrides = stored.get("topics", {}) if stored else self._of_foreign_topics()
        for name, found in sorted(data.topics.items()):
            topic_id = found.topic_id if any(found.topic_id) else new_topic_id()
            own = overrides.get(name, {})
            if name == OFFSETS_TOPIC:
                own = {**self._offsets_overrides(), **own}
            topic = Topic(name, topic_id, TopicConfig(config, own))
            count = max(found.partitions) + 1
            # A crash may have interrupted the creation between two partitions.
            missing = sorted(set(range(count)) - found.partitions)
            data.create_partitions(name, missing, found.topic_id)
            self._add(topic, count)
        if overrides and not stored:
            self._write_settings()

    def new_producer_id(self) -> int:
        """A producer id that was never given out, also not before a restart."""
        if self._next_producer_id == self._reserved_producer_id:
            self._reserved_producer_id += _PRODUCER_ID_BLOCK
            self._write_settings()
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def check_name(self, name: str) -> None:
        """Refuse a name that no new topic can have.

        Raises:
            TopicRefused: it is not legal, exists, or collides with one that exists.
        """
        invalid = invalid_name(name)
        if invalid is not None:
            raise TopicRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, invalid)
        if name in self.by_name:
            raise TopicRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = self._by_collision.get(collision_key(name))
        if other is not None:
            text = f"Topic '{name}' collides with existing topic: {other}"
            raise TopicRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, text)

    def create(self, name: str, partitions: int, overrides: Mapping[str, str]) -> Topic:
        """Create a topic.

        Args:
            name: checked here.
            partitions: how many; -1 for the broker's default.
            overrides: settings of its own, already checked.

        Raises:
            TopicRefused: the name is not possible, or the disk fails.
        """
        self.check_name(name)
        if name == OFFSETS_TOPIC:
            overrides = {**self._offsets_overrides(), **overrides}
        count = self._config.get_int("num.partitions") if partitions == -1 else partitions
        topic = Topic(name, new_topic_id(), TopicConfig(self._config, overrides))
        self._make_partitions(topic, range(count))
        self._add(topic, count)
        if overrides:
            self._write_settings()
        self._log.info("topic created", topic=name, partitions=count)
        return topic

    def add_partitions(self, topic: Topic, count: int) -> None:
        """Let a topic have `count` partitions, more than it has. Raises TopicRefused."""
        first = len(topic.partitions)
        self._make_partitions(topic, range(first, count))
        topic.partitions += [self._partition(topic, index) for index in range(first, count)]
        self._log.info("partitions created", topic=topic.name, partitions=count)

    def delete(self, topic: Topic) -> None:
        """Delete a topic and its records; fetches that wait for it are answered."""
        del self.by_name[topic.name]
        del self.by_id[topic.topic_id]
        del self._by_collision[collision_key(topic.name)]
        try:
            self._data.delete_topic(topic.name)
        except OSError as error:
            # It is gone for clients; what is left of the files goes at the next start.
            self._log.warning("topic files left", topic=topic.name, error=str(error))
        if topic.config.overrides:
            self._write_settings()
        for partition in topic.partitions:
            partition.close()
        self._log.info("topic deleted", topic=topic.name)

    def set_overrides(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        """Replace a topic's own settings, already checked."""
        topic.config = TopicConfig(self._config, overrides)
        self._write_settings()
        self._apply(topic)

    def set_broker_settings(self, values: Mapping[str, str]) -> None:
        """Replace what clients altered of the broker; topics without own settings follow."""
        self._config.alter(values)
        self._write_settings()
        for topic in self.by_name.values():
            topic.config = TopicConfig(self._config, topic.config.overrides)
            self._apply(topic)

    def open_log(self, topic: Topic, index: int) -> Log:
        """Open the log of a partition; called by the partition at its first use.

        Raises:
            StorageError, OSError: it is damaged or can't be read.
        """
        try:
            log = self._data.open_log(topic.name, index, self._log_config(topic, index))
        except (StorageError, OSError) as error:
            self._log.error(
                "partition failed",
                topic=topic.name,
                partition=index,
                error=str(error),
                remedy=remedy_for(error),
            )
            raise
        if log.tail_cut is not None:
            # Readers may have seen what is gone; a new epoch lets them find out (KIP-320).
            log.leader_epoch += 1
            self._log.warning(
                "log tail cut", topic=topic.name, partition=index, reason=str(log.tail_cut)
            )
        return log

    def log_for_upkeep(self, partition: Partition) -> Log | None:
        """The log of a partition, for compaction and retention.

        None where it can't be read; and where nobody has opened it and it has no records: there may
        be thousands of such, and they stay closed.
        """
        if partition.opened_log is None and not self._holds_records(partition):
            return None
        return partition.log if partition.online else None

    def _holds_records(self, partition: Partition) -> bool:
        filesystem = self._data.files.filesystem
        path = f"{self._data.path}/{partition.topic.name}-{partition.index}"
        try:
            names = [name for name in filesystem.list(path) if name.endswith(".log")]
            return len(names) > 1 or any(filesystem.size(f"{path}/{name}") for name in names)
        except OSError:
            return False

    def delete_records(self, partition: Partition, before_offset: int) -> int:
        """Let a log begin at an offset; returns where it begins. Raises StorageError."""
        return self._data.delete_records(partition.topic.name, partition.index, before_offset)

    # --- inside -----------------------------------------------------------------------------------

    def _of_foreign_topics(self) -> dict[str, dict[str, str]]:
        """Settings of topics that a Kafka made, whose own stand in its metadata log.

        They are not known here, so nothing of such a topic is deleted by its age until somebody
        says what its retention is to be.
        """
        names = [name for name in self._data.topics if name not in INTERNAL_TOPICS]
        if names:
            self._log.info("topics of another broker found, kept without limit", topics=len(names))
        return {name: {"retention.ms": "-1"} for name in names}

    def _offsets_overrides(self) -> dict[str, str]:
        """The settings of `__consumer_offsets` (spec section 2)."""
        segment_bytes = self._config.text("offsets.topic.segment.bytes")
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(segment_bytes),
        }

    def _make_partitions(self, topic: Topic, indexes: range) -> None:
        there = sum(len(each.partitions) for each in self.by_name.values())
        if there + len(indexes) > MAX_PARTITIONS:
            text = f"{there} partitions exist; this broker holds at most {MAX_PARTITIONS}."
            raise TopicRefused(ErrorCode.POLICY_VIOLATION, text)
        try:
            self._data.create_partitions(topic.name, indexes, topic.topic_id)
        except (StorageError, OSError) as error:
            self._log.error(
                "partitions not created",
                topic=topic.name,
                error=str(error),
                remedy=remedy_for(error),
            )
            raise TopicRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _add(self, topic: Topic, partitions: int) -> None:
        topic.partitions = [self._partition(topic, index) for index in range(partitions)]
        self.by_name[topic.name] = topic
        self.by_id[topic.topic_id] = topic
        self._by_collision[collision_key(topic.name)] = topic.name

    def _partition(self, topic: Topic, index: int) -> Partition:
        expiration_ms = self._config.get_int("producer.id.expiration.ms")
        return Partition(topic, index, self.open_log, expiration_ms)

    def _log_config(self, topic: Topic, index: int) -> LogConfig:
        config = topic.config
        segment_ms = config.segment_ms
        if config.compact:
            # As Kafka's LogConfig.maxSegmentMs: what is in the active segment is not compacted.
            segment_ms = min(segment_ms, config.max_compaction_lag_ms)
        return LogConfig(
            segment_bytes=config.segment_bytes,
            segment_ms=segment_ms,
            index_interval_bytes=config.index_interval_bytes,
            # What was compacted once has gaps, whatever the policy is now.
            compacted=config.compact or self._data.cleaner_offset(topic.name, index) > 0,
            flush=self._durable,
        )

    def _apply(self, topic: Topic) -> None:
        """Let open logs follow the topic's settings; the others do when they are opened."""
        for partition in topic.partitions:
            log = partition.opened_log
            if log is not None:
                log.config = self._log_config(topic, partition.index)

    def _read_settings(self) -> dict[str, Any]:
        text = read_file(self._data.files.filesystem, self._settings_path)
        if text is None:
            return {}
        try:
            stored: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise CorruptLog(self._settings_path, 0, f"this is not JSON: {error}") from None
        if stored.get("version") != _SETTINGS_VERSION:
            raise CorruptLog(self._settings_path, 0, f"its version is not {_SETTINGS_VERSION}")
        return stored

    def _write_settings(self) -> None:
        topics = {
            name: topic.config.overrides
            for name, topic in sorted(self.by_name.items())
            if topic.config.overrides
        }
        stored = {
            "version": _SETTINGS_VERSION,
            "next_producer_id": self._reserved_producer_id,
            "broker": self._config.altered,
            "topics": topics,
        }
        replace_file(
            self._data.files.filesystem,
            self._settings_path,
            json.dumps(stored, indent=1) + "\n",
            durable=self._durable,
        )
