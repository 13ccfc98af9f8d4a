"""The topics of a data directory: found at the start, created, extended and deleted as a whole.

Each partition is a directory, so creating or deleting a topic takes many calls, and a crash may
come after any of them. One call decides: before it nothing has happened, after it the next start
does the rest.

 * A creation makes the partition with the greatest number first. A start makes those that are
   missing below the greatest one [log/partition-creation].
 * A deletion renames the directories, and the new names contain the topic's id. A start renames the
   remaining directories of such a topic [log/topic-deletion].
"""

import errno
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from coterie.protocol.fields import ZERO_UUID
from coterie.protocol.topic_names import METADATA_TOPIC
from coterie.storage.checkpoints import read_file, replace_file
from coterie.storage.errors import CorruptLog, DirectoryMismatch
from coterie.storage.filesystem import FileSystem
from coterie.storage.leader_epochs import LeaderEpochs
from coterie.storage.partition_directories import (
    METADATA_FILE,
    NAME_FILE,
    deleted_name,
    deleted_partition,
    directory_name,
    metadata_text,
    parse_metadata,
    partition_of,
)
from coterie.storage.seals import open_lines, seal_lines
from coterie.storage.write_ahead_format import PartitionId

# A partition: topic and number.
Key = tuple[str, int]


class TopicOnDisk(NamedTuple):
    """A topic in the directory.

    Attributes:
        topic_id: 16 zero bytes if Kafka before 2.8 wrote it.
        partitions: their numbers.
    """

    topic_id: bytes
    partitions: frozenset[int]


class TopicDirectories:
    """The directories of all topics.

    Attributes:
        topics: the topics, by name.
        leader_epochs: the leader epochs of partitions that were found, where they are not 0.
        deleted: the names of deleted topics whose files are not all removed yet, by topic id.
    """

    def __init__(self, filesystem: FileSystem, path: str, *, durable: bool) -> None:
        """Start without topics; `load` finds them.

        Args:
            filesystem: where the data directory is.
            path: the data directory.
            durable: whether what is made and deleted must survive a loss of power.
        """
        self.topics: dict[str, TopicOnDisk] = {}
        self.leader_epochs: dict[Key, int] = {}
        self.deleted: dict[bytes, str] = {}
        self._filesystem = filesystem
        self._path = path
        self._durable = durable
        # Partitions whose directory does not say which topic it belongs to.
        self._without_id: set[Key] = set()
        # Directories of deleted partitions, by their new names.
        self._removable: dict[str, bytes] = {}
        # Partitions that are deleted but not renamed, because of an error.
        self._unrenamed: dict[str, list[tuple[int, bytes]]] = {}
        # Partitions of a failed creation that could not be removed.
        self._unmade: dict[str, list[int]] = {}

    def holds(self, key: Key) -> bool:
        """Return whether a partition exists."""
        topic, partition = key
        return topic in self.topics and partition in self.topics[topic].partitions

    def has_records(self, topic: str, partition: int) -> bool:
        """Return whether the files of a partition hold records, in any thread."""
        path = self.path(topic, partition)
        try:
            names = [name for name in self._filesystem.list(path) if name.endswith(".log")]
            return len(names) > 1 or any(self._filesystem.size(f"{path}/{name}") for name in names)
        except OSError:
            return False

    def keys(self) -> set[Key]:
        """Return all partitions."""
        return {(topic, each) for topic, found in self.topics.items() for each in found.partitions}

    def path(self, topic: str, partition: int) -> str:
        """Return the directory of a partition.

        Raises:
            ValueError: the topic's name is illegal.
        """
        return f"{self._path}/{directory_name(topic, partition)}"

    def partition_id(self, topic: str, partition: int) -> PartitionId | None:
        """Return what the write-ahead log calls a partition.

        Returns:
            None if its directory does not say which topic it belongs to.
        """
        assert self.holds((topic, partition)), "only a partition that exists has an id"
        if (topic, partition) in self._without_id:
            return None
        return PartitionId(self.topics[topic].topic_id, partition)

    def by_id(self) -> dict[PartitionId, str]:
        """Return the directories of the partitions that the write-ahead log may hold."""
        paths = {}
        for topic, partition in self.keys():
            partition_id = self.partition_id(topic, partition)
            if partition_id is not None:
                paths[partition_id] = self.path(topic, partition)
        return paths

    # --- the start --------------------------------------------------------------------------------

    def load(self, *, was_synced: bool) -> None:
        """Find the topics, and finish what a crash has interrupted.

        Args:
            was_synced: whether files are as they were written [recovery/trust].

        Raises:
            CorruptLog, DirectoryMismatch: the metadata of a partition is damaged.
            OSError: a directory could not be read or changed.
        """
        assert not self.topics, "the topics of a directory are found once"
        names = self._filesystem.list(self._path)
        for name in names:
            self._load_deleted(name)
        is_changed = False
        for name in names:
            key = partition_of(name)
            if key is not None and key[0] != METADATA_TOPIC:
                is_changed |= self._load_partition(name, key, was_synced=was_synced)
        if is_changed and self._durable:
            self._filesystem.sync_directory(self._path)

    def _load_deleted(self, name: str) -> None:
        """Take a directory that has the name of a deleted partition, ours or Kafka's."""
        found = deleted_partition(name)
        if found is None:
            return
        topic, topic_id = found
        path = f"{self._path}/{name}"
        self._removable[name] = topic_id
        try:
            text = read_file(self._filesystem, f"{path}/{METADATA_FILE}")
            # Kafka's name contains a random id, ours the topic's.
            metadata = f"{path}/{METADATA_FILE}"
            is_ours = text is not None and parse_metadata(metadata, text) == topic_id
            if is_ours and topic_id != ZERO_UUID:
                long_name = read_file(self._filesystem, f"{path}/{NAME_FILE}")
                self.deleted[topic_id] = (
                    topic if not long_name else open_lines(f"{path}/{NAME_FILE}", long_name)
                )
        except CorruptLog:
            # It is removed all the same.
            return

    def _load_partition(self, name: str, key: Key, *, was_synced: bool) -> bool:
        """Take the directory of a partition; return whether it was renamed or removed."""
        topic, partition = key
        path = f"{self._path}/{name}/{METADATA_FILE}"
        try:
            text = read_file(self._filesystem, path)
        except NotADirectoryError:
            # A file of this name is no partition.
            return False
        if text is not None and not text.strip("\0") and not was_synced:
            # The file's name survived a loss of power, its contents did not. The next start does
            # not know of that loss and would take the empty file for damage.
            text = None
            self._filesystem.remove(path)
            if self._durable:
                self._filesystem.sync_directory(f"{self._path}/{name}")
        if text is None and not self._has_log(name):
            # The creation was interrupted, so the partition was never used.
            self._remove_tree(name)
            return True
        topic_id = ZERO_UUID if text is None else parse_metadata(path, text)
        if topic_id in self.deleted:
            # The deletion of its topic was interrupted.
            self._rename(topic, partition, topic_id)
            return True
        known = self.topics.get(topic, TopicOnDisk(topic_id, frozenset()))
        if known.topic_id != topic_id and ZERO_UUID not in (known.topic_id, topic_id):
            raise DirectoryMismatch(f"{path}: another partition of {topic} has another topic id")
        if topic_id == ZERO_UUID:
            self._without_id.add(key)
        epochs = LeaderEpochs(self._filesystem, f"{self._path}/{name}", durable=False)
        if epochs.read() and epochs.latest > 0:
            self.leader_epochs[key] = epochs.latest
        topic_id = max(known.topic_id, topic_id)
        self.topics[topic] = TopicOnDisk(topic_id, known.partitions | {partition})
        return False

    def _has_log(self, name: str) -> bool:
        names = self._filesystem.list(f"{self._path}/{name}")
        return any(each.endswith(".log") for each in names)

    def take_id(self, topic: str, topic_id: bytes) -> None:
        """Give an id to a topic that Kafka before 2.8 has written.

        Its files are left as they are, because a later Kafka gives it an id of its own.
        """
        found = self.topics[topic]
        assert found.topic_id == ZERO_UUID, "a topic keeps its id"
        assert topic_id != ZERO_UUID, "a topic gets an id of its own"
        self.topics[topic] = TopicOnDisk(topic_id, found.partitions)

    # --- creation ---------------------------------------------------------------------------------

    def create(self, topic: str, partitions: Iterable[int], topic_id: bytes) -> Iterator[None]:
        """Make the directories of partitions that do not exist yet, one at each step.

        [log/partition-creation]

        Raises:
            ValueError: the topic's name is illegal. Callers check names before.
            OSError: a directory or file could not be made; nothing has been created then.
        """
        known = self.topics.get(topic, TopicOnDisk(topic_id, frozenset()))
        assert known.topic_id == topic_id, "a topic keeps its id"
        descending = sorted(partitions, reverse=True)
        assert known.partitions.isdisjoint(descending), "a partition is created once"
        paths = [self.path(topic, partition) for partition in descending]
        self._finish_failed(topic)
        for path in paths:
            if self._filesystem.exists(path):
                # Its files would become those of the new partition.
                raise FileExistsError(errno.EEXIST, "something else has this name", path)
        assert topic not in self._unmade, "what an earlier creation has left was removed"
        assert topic not in self._unrenamed, "the deletion of an earlier topic has ended"
        made = 0
        try:
            for path in paths:
                made += 1
                self._make_partition(path, topic_id)
                if self._durable and made in (1, len(paths)):
                    # The greatest one decides, so the others must not survive without it.
                    self._filesystem.sync_directory(self._path)
                yield
        except BaseException:
            self._unmade[topic] = descending[:made]
            self._try_to_unmake(topic)
            raise
        self.topics[topic] = found = TopicOnDisk(topic_id, known.partitions.union(descending))
        count = len(known.partitions) + len(descending)
        assert len(found.partitions) == count, "a creation names each partition once"

    def _make_partition(self, path: str, topic_id: bytes) -> None:
        self._filesystem.make_directory(path)
        text = metadata_text(topic_id)
        replace_file(self._filesystem, f"{path}/{METADATA_FILE}", text, durable=self._durable)

    def _try_to_unmake(self, topic: str) -> None:
        """Remove the partitions of a failed creation; the next creation tries again."""
        try:
            self._unmake(topic)
        except OSError:
            return

    def _unmake(self, topic: str) -> None:
        """Remove the partitions of a failed creation, the greatest one last.

        As long as that exists, a start would complete the creation.
        """
        left = self._unmade[topic]
        known = self.topics.get(topic)
        is_unused = known is None or known.partitions.isdisjoint(left)
        assert is_unused, "a partition that exists is not removed"
        while left:
            if self._durable and len(left) == 1:
                self._filesystem.sync_directory(self._path)
            name = directory_name(topic, left[-1])
            if self._filesystem.exists(f"{self._path}/{name}"):
                self._remove_tree(name)
            left.pop()
        if self._durable:
            self._filesystem.sync_directory(self._path)
        del self._unmade[topic]

    # --- deletion ---------------------------------------------------------------------------------

    def delete(self, topic: str) -> None:
        """Rename the directories of a topic, so that it no longer exists [log/topic-deletion].

        `remove_deleted` removes them.

        Raises:
            OSError: a directory could not be renamed. The topic still exists if it is in `topics`.
                If not, it is deleted, but the deletion may not survive a crash, and its name cannot
                be used until the rest has been renamed.
        """
        topic_id, partitions = self.topics[topic]
        assert partitions, "a topic has a partition"
        assert topic not in self._unrenamed, "a deletion ends before its name is used again"
        self._write_metadata(topic, topic_id, partitions)
        first, *others = sorted(partitions)
        self._rename(topic, first, topic_id)
        del self.topics[topic]
        self.deleted[topic_id] = topic
        self._unrenamed[topic] = [(partition, topic_id) for partition in reversed(others)]
        self._finish_renaming(topic)

    def _write_metadata(self, topic: str, topic_id: bytes, partitions: Iterable[int]) -> None:
        """Write down what a start has to know to finish a deletion."""
        longest = deleted_name(topic, max(partitions), topic_id)
        needs_name = deleted_partition(longest) != (topic, topic_id)
        for partition in sorted(partitions):
            path = self.path(topic, partition)
            if (topic, partition) in self._without_id:
                replace_file(
                    self._filesystem,
                    f"{path}/{METADATA_FILE}",
                    metadata_text(topic_id),
                    durable=self._durable,
                )
                self._without_id.discard((topic, partition))
            if needs_name:
                name = seal_lines(NAME_FILE, topic)
                replace_file(self._filesystem, f"{path}/{NAME_FILE}", name, durable=self._durable)

    def _rename(self, topic: str, partition: int, topic_id: bytes) -> None:
        name = deleted_name(topic, partition, topic_id)
        self._filesystem.rename(self.path(topic, partition), f"{self._path}/{name}")
        self._removable[name] = topic_id
        self.leader_epochs.pop((topic, partition), None)

    def _finish_renaming(self, topic: str) -> None:
        assert topic not in self.topics, "a topic that exists is not renamed"
        left = self._unrenamed[topic]
        while left:
            partition, topic_id = left[-1]
            self._rename(topic, partition, topic_id)
            left.pop()
        if self._durable:
            self._filesystem.sync_directory(self._path)
        del self._unrenamed[topic]

    def _finish_failed(self, topic: str) -> None:
        """Remove what a failed deletion or creation has left under a name.

        Raises:
            OSError: that failed again, so the name cannot be used.
        """
        if topic in self._unrenamed:
            self._finish_renaming(topic)
        if topic in self._unmade:
            self._unmake(topic)

    def remove_deleted(self, kept: Collection[bytes]) -> bool:
        """Remove the directory of one deleted partition; return whether there was one.

        The files of a topic whose directories could not all be renamed are left to the next start.

        Args:
            kept: ids of topics whose files must stay.

        Raises:
            OSError: a file could not be removed.
        """
        unrenamed = {topic_id for left in self._unrenamed.values() for _, topic_id in left}
        for name, topic_id in self._removable.items():
            if topic_id not in unrenamed and topic_id not in kept:
                assert partition_of(name) is None, "a partition that exists is not removed"
                self._remove_tree(name)
                del self._removable[name]
                if topic_id not in self._removable.values():
                    self.deleted.pop(topic_id, None)
                return True
        return False

    def _remove_tree(self, name: str) -> None:
        path = f"{self._path}/{name}"
        for entry in self._filesystem.list(path):
            self._filesystem.remove(f"{path}/{entry}")
        self._filesystem.remove_directory(path)
