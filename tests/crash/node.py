"""A broker without sockets: the real coordinator over a real log and directory, on a recorded disk.

One call does what the server does in one turn of its event loop: one batch per partition, a sync if
one is promised, then the answers. Every answer is entered in the history. A failed write or sync
raises `LogFailed` after the partition was stopped as the server stops it.
"""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, NamedTuple

from coterie.coordinator.groups.config import (
    ConsumerGroupConfig,
    ConsumerSettings,
    ConsumerSettingsTable,
)
from coterie.coordinator.groups.service import GroupCoordinator
from coterie.coordinator.kernel.effects import Effects
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.log_records import OffsetCommitKey, encode_key, encode_value
from coterie.protocol.records import encode_batch
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.config.keys import CLIENT_METRICS_RESOURCE, GROUP_RESOURCE
from coterie.server.coordinators.loading import LogReplay
from coterie.server.metadata.stored_settings import StoredSettings, StoredTopic, write_settings
from coterie.storage.cleanable import CleanerConfig, cleanable
from coterie.storage.cleaner import Cleaning
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import StorageError
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.write_ahead_format import ID_BYTES
from coterie.storage.write_ahead_log import WriteAheadLimits
from tests.crash.history import History, TopicState
from tests.crash.logged_groups import Pairs, live_records
from tests.crash.producers import Sent
from tests.unit.coordinator.harness import START_MS, UnitHarness

DATA = "/data"
OFFSETS_ID = bytes(15) + b"\x01"
NODE_ID = 1
# A few commits fill a segment.
SEGMENT_BYTES = 700
_INDEX_INTERVAL_BYTES = 200
# Two or three frames of a write-ahead file.
EXTEND_BYTES = 1024

# Every batch is a step of the cleaner, and tombstones expire soon.
CLEANER = CleanerConfig(delete_retention_ms=500, segment_bytes=SEGMENT_BYTES, slice_bytes=200)

_NO_VALUES: Mapping[str, bytes] = {}


class Bounds(NamedTuple):
    """The settings that decide when files change.

    Attributes:
        min_compaction_lag_ms: how long a record is not cleaned.
        max_compaction_lag_ms: after how long it is cleaned, whatever the share of dirty bytes is.
        min_cleanable_ratio: the share of dirty bytes from which on a cleaning is due.
        segment_bytes, segment_ms: when a segment is full.
        retention_bytes: what retention leaves of a topic.
    """

    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = CLEANER.max_compaction_lag_ms
    min_cleanable_ratio: float = CLEANER.min_cleanable_ratio
    segment_bytes: int = SEGMENT_BYTES
    segment_ms: int = LogConfig().segment_ms
    retention_bytes: int = SEGMENT_BYTES

    @property
    def cleaner(self) -> CleanerConfig:
        """The settings of the cleaner."""
        return CLEANER._replace(
            min_compaction_lag_ms=self.min_compaction_lag_ms,
            max_compaction_lag_ms=self.max_compaction_lag_ms,
            min_cleanable_ratio=self.min_cleanable_ratio,
            segment_bytes=self.segment_bytes,
        )


DEFAULT_BOUNDS = Bounds()
# A target is computed with each change.
_CONSUMER_GROUPS = ConsumerGroupConfig(
    settings=ConsumerSettingsTable(ConsumerSettings(assignment_interval_ms=0))
)
# As they are read from a file without any.
NO_SETTINGS = StoredSettings(resources={GROUP_RESOURCE: {}, CLIENT_METRICS_RESOURCE: {}})


def open_directory(filesystem: Any, *, flush: bool) -> DataDirectory:
    """Open the data directory as the broker does."""
    # The write-ahead files of earlier openings are removed, so their ids can be used again.
    file_ids = count(1)
    directory = DataDirectory.open(
        filesystem,
        DATA,
        node_id=NODE_ID,
        cluster_id="cluster",
        directory_id="d",
        durable=flush,
        new_file_id=lambda: next(file_ids).to_bytes(ID_BYTES),
    )
    if directory.write_ahead is not None:
        directory.write_ahead.limits = WriteAheadLimits(extend_bytes=EXTEND_BYTES)
    return directory


def log_config(topic: str, *, flush: bool, bounds: Bounds = DEFAULT_BOUNDS) -> LogConfig:
    """The settings of a topic's log."""
    return LogConfig(
        segment_bytes=bounds.segment_bytes,
        segment_ms=bounds.segment_ms,
        index_interval_bytes=_INDEX_INTERVAL_BYTES,
        compacted=topic == OFFSETS_TOPIC,
        flush=flush,
    )


def load(coordinator: GroupCoordinator, log: Log, epoch: int, now_ms: int) -> Effects[Any]:
    """Load the coordinator's partition from the log."""
    assert coordinator.begin_load(0, epoch)
    replay = LogReplay(
        log,
        coordinator.reader(),
        lambda key, value: coordinator.replay(0, key, value),
        lambda record: coordinator.replay_open(0, record),
    )
    while replay.step():
        pass
    return coordinator.finish_load(0, now_ms)


def state_of(coordinator: GroupCoordinator) -> Pairs:
    """The durable state of a coordinator, as the records that would produce it."""
    pairs = []
    for group, topics in coordinator.shards[0].logged.offsets.items():
        for topic, partitions in topics.items():
            for partition, value in partitions.items():
                key = OffsetCommitKey(group=group, topic=topic, partition=partition)
                pairs.append((encode_key(key), encode_value(value)))
    return live_records(coordinator) | frozenset(pairs)


class Node(UnitHarness):
    """A coordinator whose appends go to a log on a recorded disk."""

    def __init__(
        self,
        filesystem: Any,
        history: History,
        *,
        flush: bool,
        delay_ms: int = 0,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        """Start on what the disk holds, `delay_ms` after the time at which all scenarios begin."""
        self.filesystem = filesystem
        self.history = history
        self.flush = flush
        self.bounds = bounds
        self.directory = open_directory(filesystem, flush=flush)
        if OFFSETS_TOPIC not in self.directory.topics:
            self.directory.create_partitions(OFFSETS_TOPIC, [0], OFFSETS_ID)
        self.log_of_groups = self.open_log(OFFSETS_TOPIC)
        # Whether syncs wait for `catch_up`, as they do with a slow disk.
        self.lags = False
        self._behind = 0
        self.recorder = filesystem
        self.start_ms = START_MS
        self.epoch = -1
        super().__init__(
            offsets_retention_ms=3_600_000,
            offsets_retention_check_interval_ms=600_000,
            consumer=_CONSUMER_GROUPS,
        )
        for name, found in self.directory.topics.items():
            self.topics.put(name, found.topic_id, len(found.partitions))
        self.load()
        self.wait(delay_ms)

    def load_all(self) -> None:
        """Load nothing here: `load` reads the log on the disk."""

    def open_log(self, topic: str) -> Log:
        """Open the log of a topic's only partition."""
        config = log_config(topic, flush=self.flush, bounds=self.bounds)
        return self.directory.open_log(topic, 0, config)

    @property
    def done(self) -> int:
        """How many operations the disk has done."""
        return len(self.recorder.operations)

    # -- groups ------------------------------------------------------------------------------------

    def turn(
        self, values: Mapping[str, bytes] = _NO_VALUES, during: Callable[[], None] = lambda: None
    ) -> None:
        """Write the coordinator's pending records as one batch and answer, until none are left.

        Args:
            values: what producers send to ordinary topics in the same turn, by topic.
            during: what the event loop does while the disk is waited for.
        """
        while (held := self.logs[0].take_pending()) or values:
            logs: list[Log] = []
            registers = [self.history.topic(name) for name in values]
            try:
                if held:
                    logs.append(self._append_groups(held))
                logs += [self.append_value(name, value) for name, value in values.items()]
                numbers = [register.newest for register in registers]
                if self.flush and not self.lags:
                    self._make_durable(logs, during)
            except StorageError:
                self.take(self.coordinator.fail(0, self.now_ms))
                self.logs[0].take_pending()
                raise
            for register, number in zip(registers, numbers, strict=True):
                register.acknowledge(self.done, number)
            values = _NO_VALUES
            self._behind += len(held)
            if held and not self.lags:
                self._acknowledge()

    def _append_groups(self, held: list[Any]) -> Log:
        pairs = [pair for batch in held for pair in batch.pairs]
        log = self.log_of_groups
        batch = encode_batch(pairs, log.log_end_offset, self.now_ms, leader_epoch=log.leader_epoch)
        state = log.log_end_offset + len(pairs), state_of(self.coordinator)
        self.history.groups.change(self.done, state)
        log.append(batch)
        return log

    def append_value(self, name: str, value: bytes) -> Log:
        """Append a value to a topic; nothing is synced or acknowledged."""
        log = self.open_log(name)
        topic_id = self.directory.topics[name].topic_id
        self.history.values[topic_id].append(value)
        end = log.log_end_offset + 1
        state = TopicState(topic_id, log.log_start_offset, end)
        self.history.topic(name).change(self.done, state)
        log.append(encode_batch([(b"k", value)], 0, self.now_ms + end))
        return log

    def _make_durable(self, logs: list[Log], during: Callable[[], None] = lambda: None) -> None:
        """Sync logs as the flusher does: many as one, or each by itself."""
        write_ahead = self.directory.write_ahead
        assert write_ahead is not None, "it is used with every sync"
        frame = write_ahead.begin(logs)
        during()
        if frame is not None:
            error = None
            try:
                frame.run()
            except OSError as failure:
                error = failure
            write_ahead.end(frame, error)
            if error is None:
                logs = [log for log in logs if log not in frame.logs]
        for log in logs:
            log.sync()

    def settle(self, *between: Callable[[], None]) -> None:
        """Settle the write-ahead file; call the next of `between` after each step."""
        write_ahead = self.directory.write_ahead
        if write_ahead is None or not write_ahead.rotate():
            return
        waiting = list(between)
        first_error: OSError | None = None
        while (step := write_ahead.next_step()) is not None:
            error = None
            try:
                step.run()
            except OSError as failure:
                error = failure
                first_error = first_error or error
            write_ahead.end_step(step, error)
            if waiting and error is None:
                waiting.pop(0)()
        if first_error is not None:
            raise first_error

    def catch_up(self) -> None:
        """Sync what was written since `lags` was set, and answer."""
        if self.flush:
            self.log_of_groups.sync()
        self.lags = False
        self._acknowledge()
        self.turn()

    def _acknowledge(self) -> None:
        self.history.groups.acknowledge(self.done)
        behind, self._behind = self._behind, 0
        effects = self.coordinator.appended([(0, behind)], self.now_ms)
        assert not effects.mistakes
        self.take(effects)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write one record in a batch of its own, without the coordinator."""
        log, register = self.log_of_groups, self.history.groups
        newest = dict(register.states[-1][1])
        newest.pop(key, None)
        if value is not None:
            newest[key] = value
        register.change(self.done, (log.log_end_offset + 1, frozenset(newest.items())))
        log.append(encode_batch([(key, value)], log.log_end_offset, self.now_ms))
        if self.flush:
            log.sync()
        register.acknowledge(self.done)

    def delete_groups(self, *group_ids: str) -> None:
        """Send a DeleteGroups request, and write its records."""
        request = DeleteGroupsRequest(groups_names=list(group_ids))
        self.send(request, 2, f"delete {group_ids} {self.done}")
        self.turn()

    def commits(self, group_id: str, *offsets: int, topic: str = "sales") -> None:
        """Commit one offset after another, each in a turn of its own."""
        for offset in offsets:
            self.commit(f"{group_id} {offset} {self.done}", offset, topic=topic, group_id=group_id)
            self.turn()

    def rebalance(self, *names: str, instances: dict[str, str] | None = None) -> int:
        """Form a stable generation of new members; return its number."""
        for name in names:
            self.join(name, instance=(instances or {}).get(name))
        self.turn()
        self.wait(0)
        answers = {name: self.responses[name] for name in names}
        leader = next(each for each in answers.values() if each.members)
        for name, answer in answers.items():
            given = {each.member_id: each.member_id.encode() for each in answer.members}
            self.sync_group(name, answer.member_id, int(leader.generation_id), given)
        self.turn()
        return int(leader.generation_id)

    def sync_group(self, name: str, member_id: str, generation: int, given: Any) -> None:
        """Send a SyncGroup request."""
        UnitHarness.sync(self, f"{name} syncs {self.done}", member_id, generation, given)

    def pass_time(self, delay_ms: int) -> None:
        """Let time pass, and write the records of every timer that fires."""
        end_ms = self.now_ms + delay_ms
        while (next_ms := self.coordinator.next_deadline_ms()) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self.take(self.coordinator.advance(self.now_ms))
            self.turn()
        self.now_ms = end_ms

    def is_cleaning_due(self, first: int) -> bool:
        """Return whether the cleaner would clean the group log now, if it is dirty from `first`."""
        return cleanable(self.log_of_groups, first, self.now_ms, self.bounds.cleaner).due

    def clean(
        self, *between: Callable[[], None], first: int | None = None, end: int | None = None
    ) -> None:
        """Compact the group log; call the next of `between` after each step.

        Args:
            between: what else the broker does during the cleaning.
            first: the first dirty offset, unless the checkpoint's.
            end: where the cleaning ends, unless at the active segment; a segment begins there.

        Raises:
            StorageError, OSError: whatever the cleaner raises.
        """
        log, directory = self.log_of_groups, self.directory
        if first is None:
            first = directory.cleaner_offset(OFFSETS_TOPIC, 0)
        found = cleanable(log, first, self.now_ms, self.bounds.cleaner)
        if end is not None:
            found = found._replace(end_offset=end)
        cleaning = Cleaning(log, found, self.now_ms, self.bounds.cleaner)
        waiting = list(between)
        try:
            for step in cleaning:
                if step.pending is not None:
                    try:
                        step.pending.run()
                    except OSError as error:
                        cleaning.fail(error)
                        raise
                if waiting:
                    waiting.pop(0)()
        finally:
            cleaning.abandon()
        if not cleaning.result.abandoned:
            done = cleaning.result.first_dirty_offset
            directory.set_cleaner_offset(OFFSETS_TOPIC, 0, done)

    def load(self) -> None:
        """Load the groups' partition under the next epoch."""
        self.epoch += 1
        self.take(load(self.coordinator, self.log_of_groups, self.epoch, self.now_ms))

    def unload(self) -> None:
        """Unload the groups' partition."""
        self.logs[0].take_pending()
        self.epoch += 1
        self.take(self.coordinator.unload(0, self.epoch, self.now_ms))

    # -- ordinary topics ---------------------------------------------------------------------------

    def create_topic(self, name: str, number: int) -> None:
        """Create a topic with one partition and an id derived from `number`."""
        register = self.history.topic(name)
        topic_id = bytes(14) + bytes([1, number])
        self.history.values[topic_id] = []
        register.change(self.done, TopicState(topic_id, 0, 0))
        self.directory.create_partitions(name, [0], topic_id)
        self.put_topic(name, topic_id, 1)
        register.acknowledge(self.done)

    def produce(self, name: str, *values: bytes) -> None:
        """Produce one batch per value."""
        for value in values:
            log = self.append_value(name, value)
            if self.flush:
                log.sync()
            self.history.topic(name).acknowledge(self.done)

    def produce_batches(self, name: str, *batches: Sent) -> None:
        """Produce batches of producers with ids, and markers."""
        topic_id = self.directory.topics[name].topic_id
        log = self.open_log(name)
        register = self.history.topic(name)
        for each in batches:
            self.history.values[topic_id].append(each.value)
            self.history.sent.setdefault(topic_id, []).append(each)
            end = log.log_end_offset + 1
            register.change(self.done, TopicState(topic_id, log.log_start_offset, end))
            log.append(each.batch(end - 1, self.now_ms), self.now_ms)
            if self.flush:
                log.sync()
            register.acknowledge(self.done)

    def delete_records(self, name: str, before_offset: int) -> None:
        """Delete a topic's records below an offset."""
        log = self.open_log(name)
        topic_id = self.directory.topics[name].topic_id
        register = self.history.topic(name)
        register.change(self.done, TopicState(topic_id, before_offset, log.log_end_offset))
        self.directory.delete_records(name, 0, before_offset)
        register.acknowledge(self.done)

    def expire_records(self, name: str, retention_bytes: int) -> None:
        """Apply retention by size, and note the new start of the log."""
        log = self.open_log(name)
        topic_id = self.directory.topics[name].topic_id
        register = self.history.topic(name)
        # No client asked for this: until it is done every start up to the end is legal.
        register.change(self.done, TopicState(topic_id, log.log_end_offset, log.log_end_offset))
        log.remove_expired(self.now_ms, -1, retention_bytes)
        self.directory.note_log_start(name, 0, log.log_start_offset)
        state = TopicState(topic_id, log.log_start_offset, log.log_end_offset)
        register.change(self.done, state)
        register.acknowledge(self.done)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and, as the broker does, the offsets every group committed for it."""
        register = self.history.topic(name)
        topic_id = self.directory.topics[name].topic_id
        register.change(self.done, None)
        self.directory.delete_topic(name)
        register.acknowledge(self.done)
        self.remove_topic(name, topic_id)
        self.turn()
        while self.directory.remove_deleted():
            pass

    def alter_topic(self, name: str, segment_bytes: int) -> None:
        """Alter the size of a topic's segments, as IncrementalAlterConfigs does."""
        topic_id = self.directory.topics[name].topic_id
        topic = StoredTopic(name, {"segment.bytes": str(segment_bytes)})
        register = self.history.settings
        before = register.states[-1] or NO_SETTINGS
        settings = before._replace(topics={**before.topics, topic_id: topic})
        register.change(self.done, settings)
        write_settings(self.filesystem, DATA, settings, durable=self.flush)
        register.acknowledge(self.done)
        log = self.open_log(name)
        log.config = log.config._replace(segment_bytes=segment_bytes)

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop cleanly."""
        self.turn()
        self.take(self.coordinator.unload(0, None, self.now_ms))
        self.directory.close()
