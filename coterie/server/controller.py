"""The controller: it creates, extends and deletes topics, and changes stored settings.

Each change is made in the metadata and in the logs. Partitions are stored in Kafka's directory
layout; what Kafka keeps in its metadata log is in a small file beside them (settings_file.py).

Invariant: a change is on the disk before clients see it.
"""

from collections.abc import Iterator, Mapping
from functools import partial

from coterie.protocol.errors import ErrorCode
from coterie.protocol.topic_names import OFFSETS_TOPIC, SHARE_GROUPS_TOPIC, TRANSACTIONS_TOPIC
from coterie.server.config.config import Config
from coterie.server.config.topic_config import TopicConfig
from coterie.server.environment import Environment
from coterie.server.loggers import CONTROLLER
from coterie.server.logs.logs import Logs
from coterie.server.logs.partition import Topic
from coterie.server.metadata.placing import DEFAULT_FACTOR, Placing, Replicas
from coterie.server.metadata.prepared_topics import PreparedTopics
from coterie.server.metadata.settings_file import Alterations, SettingsFile
from coterie.server.metadata.stored_settings import StoredTopic
from coterie.server.metadata.topic_changes import Change, TopicChanges, make_now
from coterie.server.metadata.topic_rules import TopicRefused, internal_overrides
from coterie.server.workers import once
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import StorageError, remedy_for


class Controller:
    """Makes changes of the topics and settings, each in steps, one after the other.

    Attributes:
        config: the settings of the broker, or those that several brokers share.
        topics, logs: the metadata of the topics, and their logs.
        changes: the changes that wait, and the one in progress.
        placing: places the partitions of topics.
        prepared: the topics whose settings are stored and that are created next.
    """

    def __init__(
        self,
        config: Config,
        environment: Environment,
        settings: SettingsFile,
        logs: Logs,
        changes: TopicChanges,
        placing: Placing,
    ) -> None:
        """Change nothing yet.

        Args:
            config: the broker's settings; what clients alter is applied to it.
            environment: its ids and log are used.
            settings: the stored settings.
            logs: the logs, which know the metadata of the topics.
            changes: where others submit the changes that are made here.
            placing: places the partitions of topics.
        """
        self.prepared = PreparedTopics(settings, self._new_topic)
        self.config = config
        self._environment = environment
        self._log = environment.loggers.named(CONTROLLER)
        self._settings = settings
        self.topics = logs.topics
        self.logs = logs
        self.changes = changes
        self.placing = placing

    # --- the start --------------------------------------------------------------------------------

    def take(self, data: DataDirectory) -> None:
        """Take the topics and settings that a data directory has at the start. Raises OSError."""
        config, settings = self.config, self._settings
        stored = settings.stored
        config.alter(stored.broker, stored.cluster, stored.brokers)
        for kind, values in stored.resources.items():
            config.set_resources(kind, values)
        is_foreign = data.used_by_others or (settings.is_missing and bool(data.topics))
        overrides = self._foreign_overrides(data) if settings.is_missing else {}
        to_store: dict[bytes, StoredTopic] = {}
        for name, found in sorted(data.topics.items()):
            topic_id = found.topic_id
            has_own_id = not any(topic_id)
            if has_own_id:
                topic_id = stored.own_id(name) or self._environment.new_topic_id()
                data.take_id(name, topic_id)
            own = overrides.get(name) or stored.overrides(name, topic_id)
            known = stored.topics.get(topic_id, StoredTopic(name, {}))
            known = known._replace(name=name, settings=own, has_own_id=has_own_id)
            if not known.is_empty:
                to_store[topic_id] = known
            topic = self._new_topic(name, own, topic_id)
            count = max(found.partitions) + 1
            # A crash during the creation may have left gaps [topics/one-change-at-a-time].
            missing = sorted(set(range(count)) - found.partitions)
            data.create_partitions(name, missing, topic_id)
            self._add(topic, count)
            for partition in topic.partitions:
                partition.closed_epoch = data.leader_epoch(name, partition.index)
                if partition.index < len(known.epochs):
                    # An epoch without records is stored only there.
                    epoch = known.epochs[partition.index]
                    partition.closed_epoch = max(partition.closed_epoch, epoch)
                partition.may_have_records = True
        settings.begin(to_store, is_foreign=is_foreign)
        # Only their files are left of deleted topics whose name is used again.
        self.topics.deleting = {
            name: topic_id
            for topic_id, name in data.deleted_topics.items()
            if name not in self.topics.by_name
        }

    def _foreign_overrides(self, data: DataDirectory) -> dict[str, dict[str, str]]:
        """Return settings for the topics of a directory that another broker has written.

        Their own settings are in Kafka's metadata log and unknown here. Without limits nothing is
        deleted before a retention is set [topics/foreign-directories].
        """
        own = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_GROUPS_TOPIC)
        names = [name for name in data.topics if name not in own]
        if names:
            self._log.info(
                "topics of another broker found, kept without a retention limit", topics=len(names)
            )
        return {name: {"retention.ms": "-1"} for name in names}

    # --- topics -----------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        partitions: int,
        overrides: Mapping[str, str],
        replicas: Replicas = DEFAULT_FACTOR,
    ) -> Topic:
        """Create a topic here and now, as `creation` does it in steps."""
        return make_now(self.creation(name, partitions, overrides, replicas))

    def creation(
        self,
        name: str,
        partitions: int,
        overrides: Mapping[str, str],
        replicas: Replicas = DEFAULT_FACTOR,
    ) -> Change[Topic]:
        """Create a topic, or let clients see a hidden one with these settings.

        Args:
            name: its name, which is checked here.
            partitions: their number, or -1 for the broker's default.
            overrides: settings of its own, which the caller has checked.
            replicas: where they are placed.

        Raises:
            TopicRefused: the name or the placement is not possible, there are too many partitions,
                or the disk fails.
        """
        self.topics.check_name(name)
        own = internal_overrides(name, self.config) | self.placing.overrides(name)
        overrides = {**own, **overrides}
        count = self.config.get_int("num.partitions") if partitions == -1 else partitions
        hidden = self.topics.hidden.get(name)
        if hidden is not None:
            self.topics.check_hidden(name, count)
            yield from self.new_overrides(hidden, overrides)
            self.topics.show(name)
            return hidden
        # First the settings: the topic exists with them or not at all. They belong to its new id,
        # so they have no effect if it is not created.
        prepared = self.prepared.take(name, overrides)
        topic = prepared or self._new_topic(name, overrides)
        topic.replicas = self.placing.new_replicas(name, count, replicas)
        yield from self._create_partitions(
            topic, range(count), topic.replicas, stores=prepared is None
        )
        self._add(topic, count)
        self._log.info("topic created", topic=name, partitions=count)
        return topic

    def extension(
        self, topic: Topic, count: int, replicas: Replicas = DEFAULT_FACTOR
    ) -> Change[None]:
        """Raise the number of partitions of a topic to `count`; `replicas` places the new ones.

        Raises:
            TopicRefused: there are too many partitions, or the disk fails.
        """
        first = topic.partition_count
        assert count > first, "a topic never loses partitions"
        added = self.placing.new_replicas(topic.name, count - first, replicas)
        yield from self._create_partitions(topic, range(first, count), added)
        assert topic.partition_count == first, "one change of a topic ends before the next begins"
        topic.replicas = topic.replicas + added
        topic.grow(count)
        self.topics.grown(topic)
        self.placing.added(topic)
        self._log.info("partitions created", topic=topic.name, partitions=count)

    def deletion(self, topic: Topic) -> Change[None]:
        """Delete a topic and its records, and answer the fetches that wait for it.

        The deletion is complete after `Topics.deleted`; its files are removed then.

        Raises:
            TopicRefused: the disk fails. The topic still exists if clients see it.
        """
        assert self.topics.by_name.get(topic.name) is topic, "a topic is deleted once"
        self.logs.hold(topic)
        self.topics.begin_deletion(topic)
        try:
            failure = yield from self.logs.deletion(topic)
        except OSError as error:
            self.topics.keep(topic)
            raise self._refused("topic not deleted", topic, error) from error
        self.topics.removed(topic)
        self.placing.removed(topic)
        self._settings.forget_topic(topic.topic_id)
        if failure is not None:
            # A crash could bring the topic back, so its deletion is not acknowledged.
            raise self._refused("topic not deleted", topic, failure) from failure
        self._log.info("topic deleted", topic=topic.name)

    def _refused(self, what: str, topic: Topic, error: Exception) -> TopicRefused:
        self._log.error(what, topic=topic.name, error=str(error), remedy=remedy_for(error))
        return TopicRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def _new_topic(
        self, name: str, overrides: Mapping[str, str], topic_id: bytes | None = None
    ) -> Topic:
        values = {**internal_overrides(name, self.config), **overrides}
        topic_id = topic_id or self._environment.new_topic_id()
        return Topic(name, topic_id, TopicConfig(self.config, values))

    def _create_partitions(
        self, topic: Topic, indexes: range, added: list[list[int]], *, stores: bool = False
    ) -> Change[None]:
        self.topics.check_room(len(indexes))
        try:
            yield self._creation_steps(topic, indexes, added, stores=stores)
        except (StorageError, OSError) as error:
            raise self._refused("partitions not created", topic, error) from error

    def _creation_steps(
        self, topic: Topic, indexes: range, added: list[list[int]], *, stores: bool
    ) -> Iterator[None]:
        if stores and topic.config.overrides:
            self.prepared.store([topic])
            yield
        if added:
            self._settings.add_replicas(topic, added)
            yield
        yield from self.logs.creation(topic, indexes)

    def _add(self, topic: Topic, count: int) -> None:
        assert not topic.partitions, "a topic is created once"
        topic.grow(count)
        self.topics.add(topic)
        self.placing.added(topic)

    # --- settings ---------------------------------------------------------------------------------

    def new_overrides(self, topic: Topic, overrides: Mapping[str, str]) -> Change[None]:
        """Replace a topic's own settings; for the rest see `alter`."""
        alterations = Alterations()
        alterations.topics[topic] = overrides
        return self.alter(alterations)

    def alter(self, alterations: Alterations) -> Change[None]:
        """Store altered settings with one write, and apply them; the caller has checked them.

        Raises:
            OSError: they could not be stored, and none is changed.
        """
        yield once(partial(self._settings.alter, alterations))
        config = self.config
        for kind, settings in alterations.resources.items():
            config.set_resources(kind, settings)
        broker, cluster = alterations.broker, alterations.cluster
        if broker is not None or cluster is not None or alterations.brokers:
            config.alter(
                config.altered if broker is None else broker,
                config.cluster_defaults if cluster is None else cluster,
                alterations.brokers,
            )
            for topic in list(self.topics.all()):
                yield None
                self._configure(topic, topic.config.overrides)
        for each, overrides in alterations.topics.items():
            yield None
            altered = self.topics.find(each.name)
            assert altered is each, "a topic is not deleted while its settings are altered"
            self._configure(altered, overrides)

    def _configure(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        topic.config = TopicConfig(self.config, overrides)
        self.logs.configure(topic)
        self.placing.configured(topic)
