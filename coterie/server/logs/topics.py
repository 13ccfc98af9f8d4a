"""The topics of the broker: creation, growth, deletion, and their settings.

Partitions are stored in Kafka's directory layout; what Kafka keeps in its metadata log is in a
small file beside them (stored_settings.py).

Invariants: `by_name` and `by_id` contain the same topics. The partitions of a topic are numbered
without gaps. A log is opened when it is first used.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain

from coterie.protocol.errors import ErrorCode
from coterie.protocol.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from coterie.server.config.config import Config
from coterie.server.config.topic_config import TopicConfig
from coterie.server.environment import Environment
from coterie.server.loggers import CONTROLLER
from coterie.server.logs.log_configs import log_config
from coterie.server.logs.log_opener import LogOpener
from coterie.server.logs.partition import Partition, Topic
from coterie.server.logs.prepared_topics import PreparedTopics
from coterie.server.logs.settings_file import Alterations, SettingsFile
from coterie.server.logs.stored_settings import StoredTopic
from coterie.server.logs.topic_changes import Change, OnDisk, make_now, run_here
from coterie.server.logs.topic_rules import (
    TopicRefused,
    check_not_prohibited,
    collision_key,
    invalid_name,
)
from coterie.server.logs.topics_image import PublishedTopics
from coterie.server.workers import Workers, once
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import StorageError, remedy_for
from coterie.storage.log_config import LogConfig

# The most partitions of a broker [topics/partition-limits]. Each is a directory and about 1 KiB of
# memory, and any client may create them.
MAX_PARTITIONS = 20_000


class Topics:
    """All topics of the broker.

    Attributes:
        by_name, by_id: the topics.
        published: the image of these topics for coordinators and handlers.
        hidden: topics that exist, and that clients do not see before they are used, by name.
        deleting: the ids of topics whose deletion is not complete, by name. The names cannot be
            used yet.
        being_created: the names of topics that Metadata requests create.
        settings: the stored settings of the data directory.
        prepared: the topics whose settings are stored and that are created next.
        opener: opens the logs of the partitions.
    """

    def __init__(
        self,
        data: DataDirectory,
        config: Config,
        environment: Environment,
        disk: Workers,
        *,
        durable: bool,
    ) -> None:
        """Take the topics of a data directory.

        Args:
            data: the locked directory.
            config: the broker's settings; those that clients altered are applied to it.
            environment: its clock, ids and log are used.
            disk: does the work that waits for the disk.
            durable: whether creations and changes must survive a loss of power.

        Raises:
            CorruptLog: the file of settings is damaged.
        """
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.published = PublishedTopics()
        self.hidden: dict[str, Topic] = {}
        self.being_created: set[str] = set()
        self._data = data
        self._config = config
        self._environment = environment
        self._log = environment.loggers.named(CONTROLLER)
        self._durable = durable
        self.opener = LogOpener(data, environment, disk, self._log_config)
        self._by_collision: dict[str, str] = {}
        self.settings = SettingsFile(
            data.files.filesystem, data.path, environment.new_lock(), durable=durable
        )
        self.prepared = PreparedTopics(self.settings, self._new_topic)
        stored = self.settings.stored
        config.alter(stored.broker, stored.cluster)
        for kind, settings in stored.resources.items():
            config.set_resources(kind, settings)
        is_foreign = data.used_by_others or (self.settings.is_missing and bool(data.topics))
        overrides = self._foreign_overrides() if self.settings.is_missing else {}
        to_store: dict[bytes, StoredTopic] = {}
        for name, found in sorted(data.topics.items()):
            topic_id = found.topic_id
            has_own_id = not any(topic_id)
            if has_own_id:
                topic_id = stored.own_id(name) or environment.new_topic_id()
                data.take_id(name, topic_id)
            own = overrides.get(name) or stored.overrides(name, topic_id)
            if own or has_own_id:
                to_store[topic_id] = StoredTopic(name, own, has_own_id)
            own = {**self._internal_overrides(name), **own}
            topic = Topic(name, topic_id, TopicConfig(config, own))
            count = max(found.partitions) + 1
            # A crash during the creation may have left gaps [topics/interrupted-creation].
            missing = sorted(set(range(count)) - found.partitions)
            data.create_partitions(name, missing, topic_id)
            self._add(topic, count)
            for partition in topic.partitions:
                partition.closed_epoch = data.leader_epoch(name, partition.index)
                partition.may_have_records = True
        self.settings.begin(to_store, is_foreign=is_foreign)
        # Only their files are left of deleted topics whose name is used again.
        self.deleting = {
            name: topic_id
            for topic_id, name in data.deleted_topics.items()
            if name not in self.by_name
        }

    def find(self, name: str) -> Topic | None:
        """Return a topic, hidden or not; None if it does not exist."""
        return self.by_name.get(name) or self.hidden.get(name)

    def led(self, topic: str | bytes, index: int) -> Partition | ErrorCode:
        """Return a partition that this broker leads, or the error for one that it does not lead.

        Args:
            topic: the name of the topic, or its id.
            index: the number of the partition.
        """
        found = self.by_name.get(topic) if isinstance(topic, str) else self.by_id.get(topic)
        if found is not None:
            # Without another call, because every Produce passes here.
            partitions = found.partitions
            if 0 <= index < len(partitions):
                return partitions[index]
        elif not isinstance(topic, str):
            return ErrorCode.UNKNOWN_TOPIC_ID
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def readable(
        self, topic: str | bytes, index: int, leader_epoch: int = -1
    ) -> Partition | ErrorCode:
        """Return a partition as `led` does, or the error for one that cannot be read now.

        The client expects a leader epoch, or any if it is -1.
        """
        found = self.led(topic, index)
        return (found.epoch_error(leader_epoch) or found) if isinstance(found, Partition) else found

    def all(self) -> Iterator[Topic]:
        """Return all topics, hidden or not."""
        return chain(self.by_name.values(), self.hidden.values())

    def hide(self, topic: Topic) -> None:
        """Let clients not see a topic before it is used [topics/offsets-topic]."""
        assert topic.show is None, "a topic is hidden once"
        self._take_away(topic)
        self.hidden[topic.name] = topic
        topic.show = partial(self.show, topic.name)

    def show(self, name: str) -> None:
        """Let clients see a topic, if it is hidden."""
        topic = self.hidden.pop(name, None)
        if topic is not None:
            assert topic.show is not None, "a hidden topic has a function that shows it"
            topic.show = None
            self._put(topic)

    def unopened(self, named: Iterable[tuple[str, Iterable[int]]]) -> list[Partition]:
        """Return those of some partitions that exist and may have to be opened.

        They are named by topic and numbers.
        """
        found = []
        for name, indexes in named:
            topic = self.by_name.get(name)
            if topic is not None and topic.unopened:
                partitions = (topic.partition(index) for index in indexes)
                found += [partition for partition in partitions if partition is not None]
        return found

    def check_name(self, name: str) -> None:
        """Check whether a topic of this name can be created.

        Raises:
            TopicRefused: the name is prohibited or not legal, exists, or collides with an existing
                one.
        """
        check_not_prohibited(name)
        invalid = invalid_name(name)
        if invalid is not None:
            raise TopicRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, invalid)
        if name in self.by_name:
            raise TopicRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if name in self.deleting:
            text = f"Topic '{name}' is marked for deletion."
            raise TopicRefused(ErrorCode.TOPIC_ALREADY_EXISTS, text)
        other = self._by_collision.get(collision_key(name), name)
        if other != name:
            text = f"Topic '{name}' collides with existing topic: {other}"
            raise TopicRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, text)

    def check_hidden(self, name: str, partitions: int) -> None:
        """Check whether a topic that may be hidden can be created with a number of partitions.

        Raises:
            TopicRefused: it is hidden and has another number [topics/offsets-topic].
        """
        topic = self.hidden.get(name)
        if topic is not None and partitions != len(topic.partitions):
            text = f"The number of partitions of {name} is fixed at {len(topic.partitions)}."
            raise TopicRefused(ErrorCode.INVALID_PARTITIONS, text)

    def create(self, name: str, partitions: int, overrides: Mapping[str, str]) -> Topic:
        """Create a topic here and now, as `creation` does it in steps."""
        return make_now(self.creation(name, partitions, overrides, run_here))

    def creation(
        self, name: str, partitions: int, overrides: Mapping[str, str], on_disk: OnDisk
    ) -> Change[Topic]:
        """Create a topic, or let clients see a hidden one with these settings.

        Args:
            name: its name, which is checked here.
            partitions: their number, or -1 for the broker's default.
            overrides: settings of its own, which the caller has checked.
            on_disk: returns work that the change waits for.

        Raises:
            TopicRefused: the name is not possible, there are too many partitions, or the disk
                fails.
        """
        self.check_name(name)
        overrides = {**self._internal_overrides(name), **overrides}
        count = self._config.get_int("num.partitions") if partitions == -1 else partitions
        hidden = self.hidden.get(name)
        if hidden is not None:
            self.check_hidden(name, count)
            yield from self.new_overrides(hidden, overrides, on_disk)
            self.show(name)
            return hidden
        # First the settings: the topic exists with them or not at all. They belong to its new id,
        # so they have no effect if it is not created.
        prepared = self.prepared.take(name, overrides)
        topic = prepared or self._new_topic(name, overrides)
        yield from self._create_partitions(topic, range(count), on_disk, stores=prepared is None)
        self._add(topic, count)
        self._log.info("topic created", topic=name, partitions=count)
        return topic

    def _new_topic(self, name: str, overrides: Mapping[str, str]) -> Topic:
        values = {**self._internal_overrides(name), **overrides}
        return Topic(name, self._environment.new_topic_id(), TopicConfig(self._config, values))

    def add_partitions(self, topic: Topic, count: int) -> None:
        """Raise the number of partitions here and now, as `extension` does it in steps."""
        make_now(self.extension(topic, count, run_here))

    def extension(self, topic: Topic, count: int, on_disk: OnDisk) -> Change[None]:
        """Raise the number of partitions of a topic to `count`.

        Raises:
            TopicRefused: there are too many partitions, or the disk fails.
        """
        first = len(topic.partitions)
        assert count > first, "a topic never loses partitions"
        yield from self._create_partitions(topic, range(first, count), on_disk)
        assert len(topic.partitions) == first, "one change of a topic ends before the next begins"
        topic.partitions += [self._partition(topic, index) for index in range(first, count)]
        assert topic.unopened <= count, "each closed partition is counted once"
        topic.changed()
        if self.by_name.get(topic.name) is topic:
            self._put(topic)
        self._log.info("partitions created", topic=topic.name, partitions=count)

    def delete(self, topic: Topic) -> None:
        """Delete a topic here and now, as `deletion` does it in steps; no log is being opened."""
        make_now(self.deletion(topic, run_here))

    def deletion(self, topic: Topic, on_disk: OnDisk) -> Change[None]:
        """Delete a topic and its records, and answer the fetches that wait for it.

        The deletion is complete after `deleted`; its files are removed then.

        Raises:
            TopicRefused: the disk fails. The topic still exists if it is in `by_name`.
        """
        name = topic.name
        assert self.by_name.get(name) is topic, "a topic is deleted once"
        assert name not in self.deleting, "a name is used again after the deletion is complete"
        on_disk_count = len(self._data.topics[name].partitions)
        assert on_disk_count == len(topic.partitions), "each partition has a directory"
        self._take_away(topic)
        self.deleting[name] = topic.topic_id
        self.opener.hold(topic.partitions)
        yield lambda done: self.opener.when_unused(topic.partitions, lambda: done(None))
        logs = self._data.detach(name)
        failure: OSError | None = None
        try:
            yield on_disk(self._data.deletion(name))
        except OSError as error:
            failure = error
            self._log.error(
                "topic not deleted", topic=name, error=str(error), remedy=remedy_for(error)
            )
            if name in self._data.topics:
                self._data.attach(logs)
                self.opener.resume(topic.partitions)
                del self.deleting[name]
                self._put(topic)
                raise TopicRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._data.deleted(logs)
        del self._by_collision[collision_key(name)]
        self.settings.forget_topic(topic.topic_id)
        for partition in topic.partitions:
            self.opener.release(partition)
            partition.close()
        if failure is not None:
            # A crash could bring the topic back, so its deletion is not acknowledged.
            raise TopicRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        self._log.info("topic deleted", topic=name)

    def deleted(self, names: Iterable[str]) -> None:
        """Note that the deletion of topics is complete, so their names may be used again."""
        for name in names:
            assert name in self.deleting, "a deletion is completed once"
            assert name not in self.by_name, "a topic that is being deleted does not exist"
            del self.deleting[name]

    def set_overrides(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        """Replace a topic's own settings here and now, as `new_overrides` does it in steps."""
        make_now(self.new_overrides(topic, overrides, run_here))

    def new_overrides(
        self, topic: Topic, overrides: Mapping[str, str], on_disk: OnDisk
    ) -> Change[None]:
        """Replace a topic's own settings; for the rest see `alter`."""
        alterations = Alterations()
        alterations.topics[topic] = overrides
        return self.alter(alterations, on_disk)

    def set_broker_settings(self, broker: Mapping[str, str], cluster: Mapping[str, str]) -> None:
        """Replace altered settings here and now, as `alter` does it in steps."""
        alterations = Alterations()
        alterations.broker, alterations.cluster = broker, cluster
        make_now(self.alter(alterations, run_here))

    def alter(self, alterations: Alterations, on_disk: OnDisk) -> Change[None]:
        """Store altered settings with one write, and apply them; the caller has checked them.

        Raises:
            OSError: they could not be stored, and none is changed.
        """
        yield on_disk(once(partial(self.settings.alter, alterations)))
        config = self._config
        for kind, settings in alterations.resources.items():
            config.set_resources(kind, settings)
        broker, cluster = alterations.broker, alterations.cluster
        if broker is not None or cluster is not None:
            config.alter(
                config.altered if broker is None else broker,
                config.cluster_defaults if cluster is None else cluster,
            )
            for topic in list(self.all()):
                yield None
                self._configure(topic, topic.config.overrides)
        for topic, overrides in alterations.topics.items():
            yield None
            self._configure(topic, overrides)

    def delete_records(self, partition: Partition, before_offset: int) -> int:
        """Delete the records before an offset; return the new log start offset.

        Raises:
            StorageError, OSError: the log cannot be changed.
        """
        assert partition.opened_log is not None, "records are deleted from an open log"
        try:
            return self._data.delete_records(partition.topic.name, partition.index, before_offset)
        finally:
            partition.changed()

    # --- settings ---------------------------------------------------------------------------------

    def _foreign_overrides(self) -> dict[str, dict[str, str]]:
        """Return settings for the topics of a directory that another broker has written.

        Their own settings are in Kafka's metadata log and unknown here. Without limits nothing is
        deleted before a retention is set [topics/foreign-directories].
        """
        own = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
        names = [name for name in self._data.topics if name not in own]
        if names:
            self._log.info(
                "topics of another broker found, kept without a retention limit", topics=len(names)
            )
        return {name: {"retention.ms": "-1"} for name in names}

    def _internal_overrides(self, name: str) -> dict[str, str]:
        """Return the settings of its own that an internal topic begins with.

        [topics/offsets-topic] [transactions/topic]
        """
        if name == OFFSETS_TOPIC:
            return {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(self._config.text("offsets.topic.segment.bytes")),
            }
        if name == TRANSACTIONS_TOPIC:
            return {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(self._config.text("transaction.state.log.min.isr")),
                "segment.bytes": str(self._config.text("transaction.state.log.segment.bytes")),
                "unclean.leader.election.enable": "false",
            }
        return {}

    def _log_config(self, partition: Partition) -> LogConfig:
        topic = partition.topic
        was_compacted = self._data.cleaner_offset(topic.name, partition.index) > 0
        name = f"{topic.name}-{partition.index}"
        return log_config(topic.config, name, was_compacted=was_compacted, durable=self._durable)

    def _configure(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        """Apply a topic's settings to its open logs; closed ones get them when they are opened."""
        topic.config = TopicConfig(self._config, overrides)
        for partition in topic.partitions:
            log = partition.opened_log
            if log is not None:
                log.config = self._log_config(partition)

    # --- partitions -------------------------------------------------------------------------------

    def _create_partitions(
        self,
        topic: Topic,
        indexes: range,
        on_disk: OnDisk,
        *,
        stores: bool = False,
    ) -> Change[None]:
        assert indexes.start == len(topic.partitions), "partitions are numbered without gaps"
        existing = sum(len(each.partitions) for each in self.all())
        if existing + len(indexes) > MAX_PARTITIONS:
            text = f"{existing} partitions exist; this broker holds at most {MAX_PARTITIONS}."
            raise TopicRefused(ErrorCode.POLICY_VIOLATION, text)
        try:
            yield on_disk(self._creation_steps(topic, indexes, stores=stores))
        except (StorageError, OSError) as error:
            self._log.error(
                "partitions not created",
                topic=topic.name,
                error=str(error),
                remedy=remedy_for(error),
            )
            raise TopicRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _creation_steps(self, topic: Topic, indexes: range, *, stores: bool) -> Iterator[None]:
        if stores and topic.config.overrides:
            self.prepared.store([topic])
            yield
        yield from self._data.creation(topic.name, indexes, topic.topic_id)

    def _add(self, topic: Topic, partitions: int) -> None:
        assert topic.name not in self.by_name, "names are unique"
        assert not topic.partitions, "a topic is created once"
        topic.partitions = [self._partition(topic, index) for index in range(partitions)]
        assert topic.unopened == partitions, "all partitions of a new topic are closed"
        self._put(topic)
        self._by_collision[collision_key(topic.name)] = topic.name

    def _put(self, topic: Topic) -> None:
        assert topic.name not in self.hidden, "a topic is hidden or seen, not both"
        self.by_name[topic.name] = self.by_id[topic.topic_id] = topic
        self.published.put(topic.name, topic.topic_id, len(topic.partitions))

    def _take_away(self, topic: Topic) -> None:
        assert self.by_name.get(topic.name) is topic, "a topic is taken away once"
        del self.by_name[topic.name]
        del self.by_id[topic.topic_id]
        self.published.remove(topic.name)

    def _partition(self, topic: Topic, index: int) -> Partition:
        topic.unopened += 1
        return Partition(topic, index)
