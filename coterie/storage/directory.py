"""A data directory in Kafka's layout: its lock, its partitions, its checkpoints.

    .lock                           held while a process uses the directory
    meta.properties                 cluster, node and directory id
    *-offset-checkpoint             see `offset_checkpoints.py`
    .kafka_cleanshutdown            the last stop was clean; see `last_stop.py`
    coterie-boot-id                 how the directory was last used; see `last_stop.py`
    coterie-wal.<id>                what was appended to several logs; see `write_ahead_log.py`
    coterie.security-0              credentials, rules and tokens; see `record_file.py`
    <topic>-<n>/                    segments, partition.metadata, leader-epoch-checkpoint
    <topic>-<n>.<id>-delete/        a deleted partition whose files are not all removed yet

One process holds the directory at a time [log/directory-lock]. The caller gives ids, since it has
the randomness. Logs are opened when they are first used, and share one bounded set of open files.
"""

import errno
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext

from coterie.storage.closing import RunAll, close_logs
from coterie.storage.errors import DirectoryLocked
from coterie.storage.filesystem import FileSystem, Lock, make_directories
from coterie.storage.last_stop import LastStop
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.meta_properties import read_meta, write_meta
from coterie.storage.offset_checkpoints import (
    CLEANER_FILE,
    LOG_START_FILE,
    OFFSETS_A_STEP,
    RECOVERY_POINT_FILE,
    OffsetCheckpoints,
)
from coterie.storage.open_files import MAX_OPEN_FILES, OpenFiles
from coterie.storage.opening import LogOpening
from coterie.storage.record_file import SECURITY_LOG, security_log
from coterie.storage.recovery import Recovery
from coterie.storage.segment_digests import remove_digests
from coterie.storage.topic_directories import TopicDirectories, TopicOnDisk
from coterie.storage.write_ahead_log import WriteAheadLog
from coterie.storage.write_ahead_recovery import Replayed, replay

LOCK_FILE = ".lock"

# The partitions of a topic, and their logs as far as they are open.
DetachedLogs = dict[tuple[str, int], Log | None]


class DataDirectory:
    """A data directory that this process holds. `close` releases it.

    Attributes:
        path: the directory.
        files: the open files of all logs.
        cluster_id, node_id, directory_id: from `meta.properties`.
        last_stop: how the directory was left the last time.
        write_ahead: syncs many logs as one; None if that was not asked for.
        security_log: the log of credentials, rules and tokens.
        replayed: what the write-ahead log of the last stop held.
        used_by_others: whether another program has used the directory since we did, as far as
            checkpoints show it.
    """

    def __init__(
        self,
        files: OpenFiles,
        path: str,
        lock: Lock,
        checkpoint_lock: AbstractContextManager[object],
        *,
        durable: bool,
    ) -> None:
        """Use `DataDirectory.open`."""
        self.path = path
        self.files = files
        self.cluster_id = ""
        self.node_id = 0
        self.directory_id = ""
        self.last_stop = LastStop(files.filesystem, path, durable=durable)
        self.write_ahead: WriteAheadLog | None = None
        self.replayed = Replayed()
        self.used_by_others = False
        self._filesystem = files.filesystem
        self.security_log = security_log(files.filesystem, path, durable=durable)
        self._lock = lock
        self._durable = durable
        self._directories = TopicDirectories(files.filesystem, path, durable=durable)
        self._logs: dict[tuple[str, int], Log] = {}
        self._recovery_points, self._log_starts, self._cleaner_offsets = (
            OffsetCheckpoints(
                files.filesystem, f"{path}/{name}", durable=durable, lock=checkpoint_lock
            )
            for name in (RECOVERY_POINT_FILE, LOG_START_FILE, CLEANER_FILE)
        )
        # Whether the checkpoints may have entries of deleted partitions.
        self._must_forget = False
        self._checkpoints = self._recovery_points, self._log_starts, self._cleaner_offsets

    # --- opening and closing ----------------------------------------------------------------------

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
        checkpoint_lock: AbstractContextManager[object] | None = None,
        new_file_id: Callable[[], bytes] | None = None,
    ) -> "DataDirectory":
        """Lock a directory, which is made if it is missing, and find its partitions.

        Args:
            filesystem: where the directory is.
            path: the directory.
            node_id: the broker's id; the directory of another broker is refused.
            cluster_id: for a new directory; an old one keeps its own.
            directory_id: for a new directory; an old one keeps its own.
            durable: whether what is made and deleted here must survive a loss of power.
            max_open_files: how many segments and indexes may be open.
            checkpoint_lock: a lock, if several threads use the directory as described below.
            new_file_id: returns 8 random bytes at each call, for the names of write-ahead files;
                None if logs are synced one by one.

        Raises:
            DirectoryLocked: another process or broker holds the directory.
            DirectoryMismatch: the directory belongs to another broker.
            CorruptLog: one of its small files cannot be read.
        """
        make_directories(filesystem, path, durable=durable)
        lock = filesystem.lock(f"{path}/{LOCK_FILE}")
        if lock is None:
            raise DirectoryLocked(
                f"the data directory {path} is in use: another process, or another broker in this"
                f" process, holds {path}/{LOCK_FILE}"
            )
        try:
            directory = cls(
                OpenFiles(filesystem, max_open_files),
                path,
                lock,
                nullcontext() if checkpoint_lock is None else checkpoint_lock,
                durable=durable,
            )
            directory._load_meta(node_id, cluster_id, directory_id)
            directory._load_partitions()
            if durable and new_file_id is not None:
                directory.write_ahead = WriteAheadLog(directory.files, path, new_file_id)
        except BaseException:
            lock.release()
            raise
        return directory

    def check(self) -> None:
        """Check that the directory still exists and is still the one that was locked.

        Raises:
            FileNotFoundError: it was removed or replaced, so writes no longer reach it.
        """
        if not self._lock.held():
            text = f"{LOCK_FILE} is missing: the directory was removed or replaced while in use"
            raise FileNotFoundError(errno.ENOENT, text, self.path)

    def close(self, run_all: RunAll | None = None) -> None:
        """Sync and close every log, leave the mark of a clean stop, and release the directory.

        After a failure the mark is not left, so the next start recovers [recovery/clean-stop].

        Args:
            run_all: calls functions in several threads and returns when all have returned. By
                default the logs are closed one after the other.

        Raises:
            LogFailed: the last sync of a log failed. The other logs are closed all the same.
            OSError: a checkpoint could not be written, or the directory was removed.
        """
        failure = close_logs([*self._logs.values()], self.security_log, self._filesystem, run_all)
        try:
            is_synced = failure is None and not any(log.failed for log in self._logs.values())
            if self.write_ahead is not None:
                # Before the mark: a start that finds the mark does not replay.
                self.write_ahead.close(synced=is_synced)
            if is_synced:
                self._leave_clean()
        except OSError as error:
            failure = error
        self._logs.clear()
        self._lock.release()
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Release the directory as it is, as the end of a killed process does."""
        for log in self._logs.values():
            log.abandon()
        self._logs.clear()
        self.security_log.abandon()
        if self.write_ahead is not None:
            self.write_ahead.close(synced=False)
        self._lock.release()

    # --- partitions -------------------------------------------------------------------------------

    @property
    def topics(self) -> dict[str, TopicOnDisk]:
        """The topics in the directory, by name."""
        return self._directories.topics

    @property
    def deleted_topics(self) -> dict[bytes, str]:
        """Deleted topics whose files still exist, by id; of this run and of an interrupted one."""
        return self._directories.deleted

    def take_id(self, topic: str, topic_id: bytes) -> None:
        """Give an id to a topic that has none, because Kafka before 2.8 has written it."""
        self._directories.take_id(topic, topic_id)

    def create_partitions(self, topic: str, partitions: Iterable[int], topic_id: bytes) -> None:
        """Make the directories of partitions that do not exist yet [log/partition-creation].

        Raises:
            ValueError: the topic's name is illegal. Callers check names before.
            OSError: a directory or file could not be made; nothing has been created then.
        """
        for _ in self.creation(topic, partitions, topic_id):
            pass

    def creation(self, topic: str, partitions: Iterable[int], topic_id: bytes) -> Iterator[None]:
        """Do the work of `create_partitions` in steps, in any thread.

        The steps of creations and deletions must not run at the same time.
        """
        if self._must_forget:
            # A deletion failed before it had removed an earlier topic of this name from them.
            self._forget_deleted()
        yield from self._directories.create(topic, partitions, topic_id)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic [log/topic-deletion]; `remove_deleted` then removes its files.

        Raises:
            OSError: nothing was deleted if the topic is still in `topics`. Otherwise the deletion
                may not survive a crash.
        """
        logs = self.detach(topic)
        try:
            for _ in self.deletion(topic):
                pass
        finally:
            if topic in self.topics:
                self.attach(logs)
            else:
                self.deleted(logs)

    def detach(self, topic: str) -> DetachedLogs:
        """Take the open logs of a topic that is to be deleted; `attach` or `deleted` follows.

        Until then nothing is written into the directories of the topic.
        """
        _, partitions = self.topics[topic]
        keys = [(topic, partition) for partition in partitions]
        return {key: self._logs.pop(key, None) for key in keys}

    def attach(self, logs: DetachedLogs) -> None:
        """Go on using the logs of a topic that could not be deleted."""
        self._logs.update({key: log for key, log in logs.items() if log is not None})

    def deletion(self, topic: str) -> Iterator[None]:
        """Delete a detached topic in steps, in any thread; see `delete_topic` and `creation`."""
        try:
            self._directories.delete(topic)
        finally:
            if topic not in self.topics:
                self._must_forget = True
        yield
        # The name may be used again from now on, and the new topic begins at offset 0.
        self._forget_deleted()

    def deleted(self, logs: DetachedLogs) -> None:
        """Close the logs of a deleted topic."""
        for key, log in logs.items():
            if log is not None:
                if self.write_ahead is not None:
                    self.write_ahead.forget(log)
                log.abandon()
            self.last_stop.settled(key)

    def remove_deleted(self, kept: Collection[bytes] = ()) -> bool:
        """Remove the files of one deleted partition; return whether there was one.

        Args:
            kept: ids of topics whose files must stay.

        Raises:
            OSError: a file could not be removed.
        """
        return self._directories.remove_deleted(kept)

    def open_log(
        self, topic: str, partition: int, config: LogConfig | None = None, now_ms: int = 0
    ) -> Log:
        """Return the log of an existing partition, opened and recovered by the first call.

        Args:
            topic: the topic's name.
            partition: the partition's number.
            config: the log's settings, for the first call.
            now_ms: epoch milliseconds, for the first call.

        Raises:
            CorruptLog: as `Log.open`.
        """
        log = self._logs.get((topic, partition))
        if log is None:
            opening = self.opening(topic, partition, config, now_ms)
            opening.run()
            log = self.opened(opening)
        return log

    def opening(
        self, topic: str, partition: int, config: LogConfig | None = None, now_ms: int = 0
    ) -> LogOpening:
        """Return the work of opening the log of an existing partition.

        Its `run` may be called in any thread; `opened` takes the log afterwards. Until then the
        partition must not be deleted.
        """
        key = topic, partition
        assert self._directories.holds(key), f"{topic}-{partition} was not created"
        assert key not in self._logs, f"{topic}-{partition} is open"
        known = Recovery(
            self._log_starts.get(key),
            self._recovery_points.get(key),
            self.last_stop.trust(key),
            now_ms,
            is_ours=True,
        )
        path = self._directories.path(topic, partition)
        return LogOpening(self._filesystem, path, key, config, known)

    def opened(self, opening: LogOpening) -> Log:
        """Take a log that was opened, and return it."""
        log = opening.log
        assert log is not None, "the log was opened before"
        assert opening.key not in self._logs, "a log is opened once"
        log.use(self.files)
        log.write_ahead.partition_id = self._directories.partition_id(*opening.key)
        self._logs[opening.key] = log
        self.last_stop.settled(opening.key)
        return log

    def has_records(self, topic: str, partition: int) -> bool:
        """Return whether the log of a partition has records, without opening it, in any thread."""
        return self._directories.has_records(topic, partition)

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Return the leader epoch that a partition had when the directory was taken.

        The epoch of an open log may be greater.
        """
        return self._directories.leader_epochs.get((topic, partition), 0)

    def read_security_log(self) -> list[bytes]:
        """Return the values of the records in the security log, and recover its end.

        Raises:
            CorruptLog, OSError: as `RecordFile.read`.
        """
        values = self.security_log.read(self.last_stop.trust(SECURITY_LOG))
        self.last_stop.settled(SECURITY_LOG)
        return values

    # --- offsets that outlive the process ---------------------------------------------------------

    def recovery_point(self, topic: str, partition: int) -> int:
        """Return the offset below which a partition was synced."""
        return self._recovery_points.get((topic, partition))

    def write_recovery_points(self) -> None:
        """Write down how far the open logs are synced, if that has changed. Nothing is synced here.

        The higher these offsets are, the less can be incomplete and the less a start has to scan.

        Raises:
            OSError: the file could not be written.
        """
        for _ in self.recovery_points_in_steps():
            pass

    def recovery_points_in_steps(self) -> Iterator[None]:
        """Write the recovery points in short steps; between them logs may be opened and deleted."""
        logs = list(self._logs.items())
        for first in range(0, len(logs), OFFSETS_A_STEP):
            # A log that is not open any more may have been deleted, and another one has its name.
            self._recovery_points.set(
                {
                    key: log.synced_offset
                    for key, log in logs[first : first + OFFSETS_A_STEP]
                    if self._logs.get(key) is log
                }
            )
            yield
        yield from self._recovery_points.write_in_steps()
        self.last_stop.write()

    def note_log_start(self, topic: str, partition: int, offset: int) -> None:
        """Write down where a log begins now. Raises OSError."""
        assert offset >= self._log_starts.get((topic, partition)), "a log's start never moves back"
        self._log_starts.update({(topic, partition): offset})

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        """Let a log begin at `before_offset` and write that down; return the log's start.

        Raises:
            OffsetOutOfRange: the log ends before.
            LogFailed: as `Log.delete_records`.
        """
        log = self.open_log(topic, partition)
        if self._durable:
            # Otherwise the log could end before its start after a loss of power.
            log.sync()
        start = log.delete_records(before_offset)
        assert start <= log.log_end_offset, "a log does not begin behind its end"
        self.note_log_start(topic, partition, start)
        return start

    def cleaner_offset(self, topic: str, partition: int) -> int:
        """Return the offset up to which a partition was compacted, 0 if it never was."""
        return self._cleaner_offsets.get((topic, partition))

    def set_cleaner_offset(self, topic: str, partition: int, offset: int) -> None:
        """Write down the end of a finished cleaning [compaction/cleanable-part]. Raises OSError."""
        self._cleaner_offsets.update({(topic, partition): offset})

    # --- parts of the methods above ---------------------------------------------------------------

    def _leave_clean(self) -> None:
        assert self.write_ahead is None or self.write_ahead.is_empty, "nothing is to be replayed"
        self.check()
        self.write_recovery_points()
        if not self._durable:
            # After a clean stop the checkpoints are believed, so they must be on the disk.
            self._recovery_points.sync()
            self._log_starts.sync()
        self.last_stop.mark_clean()

    def _load_meta(self, node_id: int, cluster_id: str, directory_id: str) -> None:
        meta = read_meta(self._filesystem, self.path) or write_meta(
            self._filesystem,
            self.path,
            node_id=node_id,
            cluster_id=cluster_id,
            directory_id=directory_id,
            durable=self._durable,
        )
        meta.check(self.path, node_id)
        self.node_id = node_id
        self.cluster_id = cluster_id if meta.cluster_id is None else meta.cluster_id
        self.directory_id = directory_id if meta.directory_id is None else meta.directory_id

    def _load_partitions(self) -> None:
        # Checkpoints that were never synced may be damaged by a loss of power. The log starts are
        # then written anew, because the next start does not know of that loss
        # [recovery/sealed-files].
        was_synced = self.last_stop.synced
        self._log_starts.load(needed=was_synced, mended=True)
        self._recovery_points.load(needed=was_synced and not self.last_stop.same_boot)
        self._cleaner_offsets.load(needed=False)
        self._directories.load(was_synced=was_synced)
        self.used_by_others = not all(checkpoints.is_ours for checkpoints in self._checkpoints)
        if self.used_by_others:
            self._distrust_digests()
        # Before any log is opened.
        self.replayed = replay(
            self._filesystem, self.path, self._directories.by_id, discard=self.last_stop.clean
        )
        self._forget_deleted()  # in case that a deletion was interrupted
        logs = self._directories.keys()
        if self._filesystem.exists(self.security_log.path):
            logs.add(SECURITY_LOG)
        self.last_stop.begin(logs)

    def _distrust_digests(self) -> None:
        """Remove what we know of segments that another program may have replaced since."""
        paths = [self._directories.path(*key) for key in sorted(self._directories.keys())]
        if remove_digests(self._filesystem, paths):
            # So that the digests of this run are believed by the next one.
            for checkpoints in self._checkpoints:
                checkpoints.seal()

    def _forget_deleted(self) -> None:
        """Remove deleted partitions from the checkpoints."""
        for checkpoints in self._checkpoints:
            checkpoints.forget(lambda key: not self._directories.holds(key))
        self._must_forget = False
