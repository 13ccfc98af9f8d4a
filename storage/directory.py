"""A data directory as Kafka 4 lays it out: its owner, its partitions, where their logs begin.

    .lock                           held while a process uses the directory
    meta.properties                 cluster, node and directory id
    *-offset-checkpoint             see `offset_checkpoints.py`
    .kafka_cleanshutdown            the last stop was in order; coterie-boot-id: see `last_stop.py`
    <topic>-<n>/                    segments, partition.metadata, leader-epoch-checkpoint
    <topic>-<n>.<id>-delete/        a deleted partition, until its files are gone

One holder at a time. Ids are given by the caller, who has the randomness. Logs are opened when they
are asked for, and share one bounded set of open files.
"""

import base64
import binascii
import errno
import re
from collections.abc import Iterable
from typing import NamedTuple

from coterie.protocol.fields import uuid_text
from coterie.protocol.topic_names import METADATA_TOPIC
from coterie.storage.checkpoints import read_file, replace_file
from coterie.storage.errors import CorruptLog, DirectoryLocked, DirectoryMismatch
from coterie.storage.filesystem import FileSystem, Lock
from coterie.storage.last_stop import LastStop
from coterie.storage.log import Log, LogConfig
from coterie.storage.offset_checkpoints import (
    CLEANER_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    OffsetCheckpoints,
)
from coterie.storage.open_files import MAX_OPEN_FILES, OpenFiles
from coterie.storage.properties import PropertiesError, properties_text, read_properties

LOCK_FILE = ".lock"
META_FILE = "meta.properties"
PARTITION_FILE = "partition.metadata"

_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PARTITION_NAME = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9]\d{0,9})")
_DELETED_NAME = re.compile(r".*\.[0-9a-f]{32}-delete")
_MAX_NAME_BYTES = 255
_ZERO_ID = bytes(16)


class TopicOnDisk(NamedTuple):
    """A topic found in the directory. The id is 16 zero bytes where Kafka before 2.8 wrote it."""

    topic_id: bytes
    partitions: frozenset[int]


class DataDirectory:
    """A data directory that this process holds. `close` it to let others have it."""

    def __init__(self, files: OpenFiles, path: str, lock: Lock, *, durable: bool) -> None:
        """Use `DataDirectory.open`."""
        self.path = path
        self.files = files
        self.cluster_id = ""
        self.node_id = 0
        self.directory_id = ""
        # Every topic that the directory holds, by name.
        self.topics: dict[str, TopicOnDisk] = {}
        self._filesystem = files.filesystem
        self._lock = lock
        self._durable = durable
        self._logs: dict[tuple[str, int], Log] = {}
        self.last_stop = LastStop(files.filesystem, path, durable=durable)
        self._recovery_points, self._log_starts, self._cleaner_offsets = (
            OffsetCheckpoints(files.filesystem, f"{path}/{name}", durable=durable)
            for name in (RECOVERY_POINT_FILE, LOG_START_FILE, CLEANER_FILE)
        )

    @classmethod
    def open(
        cls,
        filesystem: FileSystem,
        path: str,
        *,
        node_id: int,
        cluster_id: str,
        directory_id: str,
        durable: bool = False,
        max_open_files: int = MAX_OPEN_FILES,
    ) -> "DataDirectory":
        """Take a directory, made if it is missing, and look at what it holds.

        Args:
            filesystem: where the directory is.
            path: the directory.
            node_id: the broker's id; a directory of another broker is refused.
            cluster_id: for a new directory; one that has a cluster id keeps it.
            directory_id: likewise.
            durable: whether what is made and deleted here is to survive a loss of power.
            max_open_files: how many segments and indexes to hold open.

        Raises:
            DirectoryLocked: somebody else holds it.
            DirectoryMismatch: it belongs to another broker.
            CorruptLog: one of its small files can't be read.
        """
        _make(filesystem, path, durable=durable)
        lock = filesystem.lock(f"{path}/{LOCK_FILE}")
        if lock is None:
            raise DirectoryLocked(
                f"the data directory {path} is in use: another process, or another broker of this"
                f" one, holds {path}/{LOCK_FILE}"
            )
        directory = cls(OpenFiles(filesystem, max_open_files), path, lock, durable=durable)
        try:
            directory._load_meta(node_id, cluster_id, directory_id)
            directory._load_partitions()
        except BaseException:
            lock.release()
            raise
        return directory

    def create_partition(self, topic: str, partition: int, topic_id: bytes) -> None:
        """Make one partition's directory. See `create_partitions`."""
        self.create_partitions(topic, [partition], topic_id)

    def create_partitions(self, topic: str, partitions: Iterable[int], topic_id: bytes) -> None:
        """Make the directories of partitions that do not exist, and write down the topic's id.

        Raises:
            ValueError: the topic's name could lead out of the directory; callers refuse it earlier.
        """
        assert len(topic_id) == 16, "a topic id has 16 bytes"
        known = self.topics.get(topic, TopicOnDisk(topic_id, frozenset()))
        made = []
        for partition in partitions:
            assert partition not in known.partitions, f"{topic}-{partition} exists"
            place = self._partition_path(topic, partition)
            self._filesystem.make_directory(place)
            text = f"version: 0\ntopic_id: {uuid_text(topic_id)}"
            replace_file(self._filesystem, f"{place}/{PARTITION_FILE}", text, durable=self._durable)
            made.append(partition)
        if self._durable:
            self._filesystem.sync_directory(self.path)
        self.topics[topic] = TopicOnDisk(topic_id, known.partitions.union(made))

    def open_log(self, topic: str, partition: int, config: LogConfig | None = None) -> Log:
        """The log of an existing partition, opened and recovered at the first call.

        Raises:
            CorruptLog: as `Log.open`.
        """
        key = topic, partition
        log = self._logs.get(key)
        if log is None:
            assert self._holds(key), f"{topic}-{partition} was not created"
            log = self._logs[key] = Log.open(
                self._filesystem,
                self._partition_path(topic, partition),
                config,
                files=self.files,
                log_start_offset=self._log_starts.get(key),
                recovery_point=self._recovery_points.get(key),
                trust=self.last_stop.trust(key),
            )
            self.last_stop.settled(key)
        return log

    def recovery_point(self, topic: str, partition: int) -> int:
        """The offset below which a partition is known to have been synced."""
        return self._recovery_points.get((topic, partition))

    def write_recovery_points(self) -> None:
        """Write down how far the open logs were synced, if that has changed. Syncs none of them.

        The less lies above these offsets, the less can be torn and the less a start has to scan.

        Raises:
            OSError: the file could not be written.
        """
        self._recovery_points.update(
            {key: min(log.synced_offset, log.log_end_offset) for key, log in self._logs.items()}
        )
        self.last_stop.write()

    def note_log_start(self, topic: str, partition: int, offset: int) -> None:
        """Write down where a log begins now. Raises OSError."""
        self._log_starts.update({(topic, partition): offset})

    def cleaner_offset(self, topic: str, partition: int) -> int:
        """The offset up to which a partition was compacted, 0 if it never was."""
        return self._cleaner_offsets.get((topic, partition))

    def set_cleaner_offset(self, topic: str, partition: int, offset: int) -> None:
        """Write down up to which offset a partition was compacted. Raises OSError."""
        self._cleaner_offsets.update({(topic, partition): offset})

    def check(self) -> None:
        """Make sure that the directory is still there, and still ours.

        Raises:
            FileNotFoundError: it was removed, or another one has been put in its place. What is
                written goes nowhere.
        """
        if not self._lock.held():
            text = f"{LOCK_FILE} is gone: the data directory was removed or replaced while in use"
            raise FileNotFoundError(errno.ENOENT, text, self.path)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic's partitions: renamed at once, as Kafka does, and then removed.

        What a crash leaves of them is removed at the next start.
        """
        topic_id, partitions = self.topics.pop(topic)
        deleted = []
        for partition in sorted(partitions):
            log = self._logs.pop((topic, partition), None)
            if log is not None:
                log.abandon()
            self.last_stop.settled((topic, partition))
            name = _deleted_name(topic, partition, topic_id)
            self._filesystem.rename(self._partition_path(topic, partition), f"{self.path}/{name}")
            deleted.append(name)
        if self._durable:
            self._filesystem.sync_directory(self.path)
        # Before the name can be used again, for the next topic of that name begins at 0.
        self._forget_gone()
        for name in deleted:
            self._remove_tree(name)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        """Let a log begin at `before_offset` and write that down; the log's start (KIP-107).

        Raises:
            OffsetOutOfRange: the log ends before.
            LogFailed: as `Log.delete_records`.
        """
        log = self.open_log(topic, partition)
        if self._durable:
            # A log that ends before its start would be damage at the next start.
            log.sync()
        start = log.delete_records(before_offset)
        self.note_log_start(topic, partition, start)
        return start

    def close(self) -> None:
        """Sync and close every log, write down that all is in order, and let the directory go.

        After a failure there is no such mark, and the next start looks at what may be torn.

        Raises:
            LogFailed: a log's last sync failed. The rest is closed all the same.
            OSError: the checkpoints could not be written, or the directory is gone.
        """
        failure: Exception | None = None
        for log in self._logs.values():
            try:
                log.close()
            except Exception as error:  # noqa: BLE001 - told below; the others must still be closed
                failure = failure or error
        try:
            if failure is None and not any(log.failed for log in self._logs.values()):
                self._leave_clean()
        except OSError as error:
            failure = error
        self._logs.clear()
        self._lock.release()
        if failure is not None:
            raise failure

    def _leave_clean(self) -> None:
        self.check()
        self.write_recovery_points()
        if not self._durable:
            # What the checkpoints say belongs to a stop in order too.
            self._recovery_points.sync()
            self._log_starts.sync()
        self.last_stop.mark_clean()

    def _partition_path(self, topic: str, partition: int) -> str:
        if not _LEGAL_TOPIC.fullmatch(topic) or topic in (".", "..") or partition < 0:
            raise ValueError(f"{topic!r}-{partition} is no name for a partition's directory")
        return f"{self.path}/{topic}-{partition}"

    def _load_meta(self, node_id: int, cluster_id: str, directory_id: str) -> None:
        path = f"{self.path}/{META_FILE}"
        text = read_file(self._filesystem, path)
        if text is None:
            meta = {
                "version": "1",
                "cluster.id": cluster_id,
                "node.id": str(node_id),
                "directory.id": directory_id,
            }
            replace_file(self._filesystem, path, properties_text(meta), durable=self._durable)
        else:
            try:
                meta = read_properties(text)
            except PropertiesError as error:
                raise CorruptLog(path, 0, str(error)) from None
        if meta.get("version") not in ("0", "1"):
            raise DirectoryMismatch(f"{path}: version {meta.get('version')} is not 0 or 1")
        # Kafka before KRaft called it broker.id, and had no directory ids.
        found = meta.get("node.id", meta.get("broker.id"))
        if found != str(node_id):
            raise DirectoryMismatch(
                f"{path}: the directory is of node {found}, this is node {node_id}"
            )
        self.node_id = node_id
        self.cluster_id = meta.get("cluster.id", cluster_id)
        self.directory_id = meta.get("directory.id", directory_id)

    def _load_partitions(self) -> None:
        # What was never synced may be lost with the power.
        # The next start knows of no such loss, and must find the file whole.
        self._log_starts.load(needed=self.last_stop.synced, mended=True)
        self._recovery_points.load(needed=self.last_stop.synced and not self.last_stop.same_boot)
        self._cleaner_offsets.load(needed=False)
        for name in self._filesystem.list(self.path):
            if _DELETED_NAME.fullmatch(name):
                self._remove_tree(name)
            elif (match := _PARTITION_NAME.fullmatch(name)) and match[1] != METADATA_TOPIC:
                self._load_partition(name, match[1], int(match[2]))
        # If a deletion stopped before it came to this.
        self._forget_gone()
        self.last_stop.begin(
            {
                (topic, number)
                for topic, on_disk in self.topics.items()
                for number in on_disk.partitions
            }
        )

    def _forget_gone(self) -> None:
        """Let a new topic of a deleted one's name begin at 0."""
        for checkpoints in (self._log_starts, self._recovery_points, self._cleaner_offsets):
            checkpoints.forget(lambda key: not self._holds(key))

    def _holds(self, key: tuple[str, int]) -> bool:
        topic, partition = key
        return topic in self.topics and partition in self.topics[topic].partitions

    def _load_partition(self, name: str, topic: str, partition: int) -> None:
        path = f"{self.path}/{name}/{PARTITION_FILE}"
        text = read_file(self._filesystem, path)
        if text is not None and not text.strip("\0") and not self.last_stop.synced:
            # Its name outlived a loss of power, its bytes did not. The next start, which knows of
            # no loss of power, must not find it so.
            text = None
            self._filesystem.remove(path)
            if self._durable:
                self._filesystem.sync_directory(f"{self.path}/{name}")
        if text is None and not any(
            entry.endswith(".log") for entry in self._filesystem.list(f"{self.path}/{name}")
        ):
            # Creation stopped half-way, before anybody was told of the partition.
            self._remove_tree(name)
            return
        topic_id = _ZERO_ID if text is None else _parse_id(path, text)
        known = self.topics.get(topic, TopicOnDisk(topic_id, frozenset()))
        if known.topic_id != topic_id and _ZERO_ID not in (known.topic_id, topic_id):
            raise DirectoryMismatch(f"{path}: another partition of {topic} has another topic id")
        topic_id = max(known.topic_id, topic_id)
        self.topics[topic] = TopicOnDisk(topic_id, known.partitions | {partition})

    def _remove_tree(self, name: str) -> None:
        path = f"{self.path}/{name}"
        for entry in self._filesystem.list(path):
            self._filesystem.remove(f"{path}/{entry}")
        self._filesystem.remove_directory(path)


def _make(filesystem: FileSystem, path: str, *, durable: bool) -> None:
    """Make a directory; with `durable` its name, and new ones above it, survive a loss of power."""
    parents = []
    missing = path
    while missing and not filesystem.exists(missing):
        above = missing.rpartition("/")[0]
        parents.append(above or ("/" if missing.startswith("/") else "."))
        missing = above
    filesystem.make_directory(path)
    if durable:
        for parent in parents:
            filesystem.sync_directory(parent)


def _deleted_name(topic: str, partition: int, topic_id: bytes) -> str:
    """Kafka's name for a deleted partition's directory, the topic cut where it would be too long.

    Kafka makes it unique with a random id; a topic's own id is as unique as the topic.
    """
    suffix = f"-{partition}.{topic_id.hex()}-delete"
    return topic[: _MAX_NAME_BYTES - len(suffix)] + suffix


def _parse_id(path: str, text: str) -> bytes:
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        topic_id = base64.urlsafe_b64decode(fields["topic_id"] + "==")
    except (KeyError, binascii.Error):
        topic_id = b""
    if fields.get("version") != "0" or len(topic_id) != 16:
        raise CorruptLog(path, 0, "version 0 and a topic id are expected")
    return topic_id
