"""The logs of this broker: those that it leads, opened at their first use."""

from collections.abc import Iterable, Iterator
from functools import partial

from coterie.protocol.errors import ErrorCode
from coterie.server.environment import Environment
from coterie.server.logs.log_configs import log_config
from coterie.server.logs.log_opener import LogOpener
from coterie.server.logs.partition import Partition, PartitionState, Topic
from coterie.server.metadata.topic_changes import Change
from coterie.server.metadata.topics import Topics
from coterie.server.workers import Workers
from coterie.storage.directory import DataDirectory
from coterie.storage.log_config import LogConfig


class Logs:
    """The logs of one data directory.

    Attributes:
        opener: opens the logs of the partitions.
        data: the locked directory.
        topics: the metadata of the topics.
        durable: whether logs are synced while they are open.
    """

    def __init__(
        self,
        opener: LogOpener,
        data: DataDirectory,
        topics: Topics[Topic],
        *,
        durable: bool,
    ) -> None:
        """Take the parts; nothing is open yet."""
        self.opener = opener
        self.data = data
        self.topics = topics
        self.durable = durable

    # --- looking up -------------------------------------------------------------------------------

    def led(self, topic: str | bytes, index: int) -> Partition | ErrorCode:
        """Return a partition that this broker leads, or the error for one that it does not lead.

        Args:
            topic: the name of the topic, or its id.
            index: the number of the partition.
        """
        topics = self.topics
        found = topics.by_name.get(topic) if isinstance(topic, str) else topics.by_id.get(topic)
        if found is not None:
            # Without another call, because every Produce passes here.
            partitions = found.partitions
            if 0 <= index < len(partitions):
                return partitions[index]
        elif not isinstance(topic, str):
            return ErrorCode.UNKNOWN_TOPIC_ID
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def readable(
        self,
        topic: str | bytes,
        index: int,
        leader_epoch: int = -1,
        *,
        may_follow: bool = False,  # noqa: ARG002 - for brokers of a cluster
    ) -> Partition | ErrorCode:
        """Return a partition as `led` does, or the error for one that cannot be read now.

        Args:
            topic: the name of the topic, or its id.
            index: the number of the partition.
            leader_epoch: the one that the client expects; -1 for any.
            may_follow: whether a broker suffices that has a replica.
        """
        found = self.led(topic, index)
        return (found.epoch_error(leader_epoch) or found) if isinstance(found, Partition) else found

    def unopened(self, named: Iterable[tuple[str, Iterable[int]]]) -> list[Partition]:
        """Return those of some partitions that exist and may have to be opened.

        They are named by topic and numbers.
        """
        found = []
        for name, indexes in named:
            topic = self.topics.by_name.get(name)
            if topic is not None and topic.unopened:
                partitions = (topic.partition(index) for index in indexes)
                found += [partition for partition in partitions if partition is not None]
        return found

    # --- changes ----------------------------------------------------------------------------------

    def configure(self, topic: Topic) -> None:
        """Apply a topic's settings to its open logs; closed ones get them when they are opened."""
        for partition in topic.partitions:
            log = partition.opened_log
            if log is not None:
                log.config = log_config_of(self.data, partition, durable=self.durable)

    def delete_records(self, partition: Partition, before_offset: int) -> int:
        """Delete the records before an offset; return the new log start offset.

        Raises:
            StorageError, OSError: the log cannot be changed.
        """
        assert partition.opened_log is not None, "records are deleted from an open log"
        try:
            return self.data.delete_records(partition.topic.name, partition.index, before_offset)
        finally:
            partition.changed()

    def creation(self, topic: Topic, indexes: range) -> Iterator[None]:
        """Make the directories of new partitions of a topic in steps, in any thread."""
        assert indexes.start == topic.partition_count, "partitions are numbered without gaps"
        return self.data.creation(topic.name, indexes, topic.topic_id)

    def hold(self, topic: Topic) -> None:
        """Open no log of a topic that is to be deleted."""
        on_disk_count = len(self.data.topics[topic.name].partitions)
        assert on_disk_count == len(topic.partitions), "each partition has a directory"
        self.opener.hold(topic.partitions)

    def deletion(self, topic: Topic) -> Change[OSError | None]:
        """Delete the logs of a topic on hold, and answer the fetches that wait for them.

        Returns:
            The error of a disk that has not confirmed the deletion, which a crash may undo.

        Raises:
            OSError: the logs still exist, and are used again.
        """
        unused, partitions = self.opener.when_unused, topic.partitions
        yield lambda done: unused(partitions, lambda: done(None))
        states = [partition.state for partition in partitions]
        assert PartitionState.OPENING not in states, "no thread uses the files of a topic on hold"
        detached, failure = self.data.detach(topic.name), None
        try:
            yield self.data.deletion(topic.name)
        except OSError as error:
            failure = error
            if topic.name in self.data.topics:
                self.data.attach(detached)
                self.opener.resume(partitions)
                raise
        self.data.deleted(detached)
        for partition in partitions:
            self.opener.release(partition)
            partition.close()
        return failure


def open_logs(
    data: DataDirectory,
    topics: Topics[Topic],
    environment: Environment,
    disk: Workers,
    *,
    durable: bool,
) -> Logs:
    """Return the logs of a data directory, none of which is open yet.

    Args:
        data: the locked directory.
        topics: the metadata of the topics.
        environment: its clock and log are used.
        disk: does the work that waits for the disk.
        durable: whether logs are synced while they are open.
    """
    config_of = partial(log_config_of, data, durable=durable)
    return Logs(LogOpener(data, environment, disk, config_of), data, topics, durable=durable)


def log_config_of(data: DataDirectory, partition: Partition, *, durable: bool) -> LogConfig:
    """Return the settings of the log of a partition."""
    topic = partition.topic
    was_compacted = data.cleaner_offset(topic.name, partition.index) > 0
    name = f"{topic.name}-{partition.index}"
    return log_config(topic.config, name, was_compacted=was_compacted, durable=durable)
