"""A restart on a disk: what it finds, and whether that is right.

Everything is read through the storage package, as the broker reads it: the directory, the group log
from start to end, the coordinator's load, every topic. The coordinator's load depends on the log's
bytes alone, so it is done once for each distinct log.
"""

from typing import Any, NamedTuple

from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.service import GroupCoordinator
from coterie.protocol.messages.log_records import OffsetCommitKey, decode_key
from coterie.protocol.records import decode_records, encode_batch, iterate_batches
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.metadata.stored_settings import StoredSettings, read_settings
from coterie.storage.errors import StorageError
from coterie.storage.log import Log
from tests.crash.disk import FIRST_BOOT, Disk, RecordingFileSystem
from tests.crash.history import NO_GROUPS, GroupState, History, TopicState
from tests.crash.logged_groups import Pairs, logged_groups
from tests.crash.node import DATA, load, log_config, open_directory, state_of
from tests.crash.producers import (
    FoundProducers,
    Sent,
    difference,
    expected_producers,
    find_producers,
)
from tests.record_batches import pairs_in
from tests.unit.coordinator.harness import START_MS


class Wrong(AssertionError):  # noqa: N818 - reads better where raised
    """A restart lost what was acknowledged, or found what was never written."""


class Found(NamedTuple):
    """What a restart found.

    Attributes:
        detected: the error that reports damage, or empty.
        groups: the state of the group log.
        topics: the state of each topic and its values, by name.
        producers: the producers of each topic, by name.
        cut: whether a log's tail was cut off.
        operations: how many operations recovery did.
        settings: what the settings file holds.
    """

    detected: str
    groups: GroupState
    topics: dict[str, tuple[TopicState, tuple[bytes | None, ...]]]
    producers: dict[str, FoundProducers]
    cut: bool
    operations: int
    settings: StoredSettings | None = None


class Restarts:
    """Starts on disks, and remembers the coordinator's state for each log it has loaded."""

    def __init__(self, *, flush: bool) -> None:
        self.flush = flush
        self._replayed: dict[tuple[bytes, ...], Pairs] = {}

    def start(self, disk: Disk, boot: str = FIRST_BOOT, *, probe: bool = False) -> Found:
        """Start on a copy of a disk; with `probe` also read at every offset and time.

        Raises:
            Wrong: the coordinator and the log disagree.
        """
        return self.start_on(RecordingFileSystem(disk.copy(), boot), probe=probe)

    def start_on(self, filesystem: Any, *, probe: bool = False) -> Found:
        """Start on a given file system, as `start` does."""
        topics: dict[str, tuple[TopicState, tuple[bytes | None, ...]]] = {}
        producers: dict[str, FoundProducers] = {}
        groups, cut = NO_GROUPS, False
        try:
            directory = open_directory(filesystem, flush=self.flush)
            for name, on_disk in directory.topics.items():
                log = directory.open_log(name, 0, log_config(name, flush=self.flush))
                cut = cut or log.tail_cut is not None
                if name == OFFSETS_TOPIC:
                    groups = self._groups(log)
                else:
                    state = TopicState(on_disk.topic_id, log.log_start_offset, log.log_end_offset)
                    topics[name] = state, tuple(_values(log))
                    producers[name] = find_producers(log)
                if probe:
                    _probe(log)
        except StorageError as error:
            count = len(filesystem.operations)
            return Found(str(error), groups, topics, producers, cut, count)
        settings = read_settings(filesystem, DATA)
        return Found("", groups, topics, producers, cut, len(filesystem.operations), settings)

    def _groups(self, log: Log) -> GroupState:
        chunks = tuple(log.chunks())
        newest: dict[bytes, bytes] = {}
        for data in chunks:
            for key, value in pairs_in(data):
                assert key is not None
                if value is None:
                    newest.pop(key, None)
                else:
                    newest[key] = value
        found = frozenset(newest.items())
        replayed = self._replayed.get(chunks)
        if replayed is None:
            _check_parts(newest)
            config = GroupConfig(offsets_topic_num_partitions=1)
            coordinator = GroupCoordinator(config, lambda: "id", START_MS)
            load(coordinator, log, 0, START_MS)
            replayed = self._replayed[chunks] = state_of(coordinator)
        if replayed != found:
            raise Wrong("the coordinator's state differs from the records of the log")
        return log.log_end_offset, found


def _check_parts(newest: dict[bytes, bytes]) -> None:
    """Check that the records of each group fit together."""
    about_groups = {
        key: value
        for key, value in newest.items()
        if not isinstance(decode_key(key), OffsetCommitKey)
    }
    errors = [error for group in logged_groups(about_groups).values() for error in group.errors()]
    if errors:
        raise Wrong("; ".join(errors))


def _values(log: Log) -> list[bytes | None]:
    found = []
    for data in log.chunks():
        for position, header in iterate_batches(data):
            found += [
                record.value
                for record in decode_records(data, header, position)
                if record.offset >= log.log_start_offset
            ]
    return found


def _probe(log: Log) -> None:
    """Read at every offset and search for every timestamp: no index may mislead."""
    times: list[tuple[int, int]] = []
    whole = b"".join(log.chunks())
    firsts: list[tuple[int, int]] = []
    for position, header in iterate_batches(whole):
        firsts.append((header.last_offset, position))
        times += [
            (record.timestamp_ms, record.offset)
            for record in decode_records(whole, header, position)
            if record.offset >= log.log_start_offset
        ]
    for last_offset, position in firsts:
        if last_offset >= log.log_start_offset:
            data = log.read(max(last_offset, log.log_start_offset), 1)
            if data != whole[position : position + len(data)]:
                raise Wrong(f"reading at offset {last_offset} gives other bytes than the log has")
    for timestamp_ms, _ in times:
        expected = next(each for each in times if each[0] >= timestamp_ms)
        found = log.offset_for_timestamp(timestamp_ms)
        if found != expected:
            raise Wrong(f"time {timestamp_ms} is found at {found} and not {expected}")


def check(
    found: Found,
    history: History,
    operations: int,
    *,
    promised: bool = True,
    has_snapshots: bool = True,
) -> None:
    """Compare what a restart found with what was acknowledged.

    Args:
        found: what the restart found.
        history: what clients asked for, and which of it was acknowledged.
        operations: how many operations the disk had done at the crash.
        promised: whether everything acknowledged must be there. Otherwise anything may be missing
            and damage may be reported; only what was never written is wrong.
        has_snapshots: whether producers must be known whose records are all deleted.

    Raises:
        Wrong: the restart found neither what was acknowledged nor a later request's result.
    """
    if found.detected:
        if promised:
            raise Wrong(f"nothing is damaged, but: {found.detected}")
        return
    if not promised:
        _check_nothing_new(found, history)
        return
    low, high = history.groups.bounds(operations)
    states = history.groups.states
    if found.groups not in states[low : high + 1]:
        raise Wrong(_difference("groups", found.groups, states, low, high))
    for name, register in history.topics.items():
        low, high = register.bounds(operations)
        _check_topic(name, found, register.states[low : high + 1], history)
        if name in found.topics:
            _check_producers(name, found, history, promised=has_snapshots)
    low, high = history.settings.bounds(operations)
    if found.settings not in history.settings.states[low : high + 1]:
        raise Wrong(f"settings: {found.settings} of {history.settings.states[low : high + 1]}")
    unknown = found.topics.keys() - history.topics.keys()
    if unknown:
        raise Wrong(f"topics that were never created: {unknown}")


def _check_nothing_new(found: Found, history: History) -> None:
    """Even after a loss nothing may be found that was never written."""
    ever = frozenset[tuple[bytes, bytes]]().union(*(each for _, each in history.groups.states))
    if not found.groups[1] <= ever:
        raise Wrong(f"never committed: {found.groups[1] - ever}")
    for name, (state, values) in found.topics.items():
        written = {value for each in history.values.values() for value in each}
        if name not in history.topics or not written.issuperset(values):
            raise Wrong(f"never produced: {name} {state} {values}")
        _check_producers(name, found, history, promised=False)


def _check_topic(name: str, found: Found, allowed: list[Any], history: History) -> None:
    if name not in found.topics:
        if None not in allowed:
            raise Wrong(f"topic {name} is missing, of {allowed}")
        return
    state, values = found.topics[name]
    same = [each for each in allowed if each is not None and each.topic_id == state.topic_id]
    ends = {each.end for each in same}
    if not same or state.end not in ends:
        raise Wrong(f"topic {name} is {state}, of {allowed}")
    # A deletion of records may have removed whole segments but not reached its own offset.
    if not min(each.start for each in same) <= state.start <= max(each.start for each in same):
        raise Wrong(f"topic {name} begins at {state.start}, of {allowed}")
    expected = history.values[state.topic_id][state.start : state.end]
    if list(values) != expected:
        raise Wrong(f"topic {name} has {values} and not {expected}")


def _check_producers(name: str, found: Found, history: History, *, promised: bool) -> None:
    state, _ = found.topics[name]
    sent = history.sent.get(state.topic_id)
    if sent is not None:
        differs = difference(found.producers[name], sent, state.start, state.end, promised=promised)
        if differs:
            raise Wrong(f"topic {name}: {differs}")


def _difference(what: str, found: GroupState, states: list[Any], low: int, high: int) -> str:
    for number, state in enumerate(states):
        if state == found:
            return f"{what}: found state {number}; {low} was acknowledged, {high} requested"
    end_offset, pairs = found
    nearest = states[high][1]
    lost, extra = nearest - pairs, pairs - nearest
    return (
        f"{what}: a state that never existed, end offset {end_offset}, acknowledged"
        f" {[each[0] for each in states[low : high + 1]]}; missing {sorted(lost)[:3]},"
        f" not expected {sorted(extra)[:3]}"
    )


def live_on(found: Found, filesystem: Any, *, flush: bool) -> None:
    """Append one more batch after a restart, and check that the next restart finds it.

    Raises:
        Wrong: what was found before, or the new batch, is missing.
    """
    if found.detected or not filesystem.exists(f"/data/{OFFSETS_TOPIC}-0"):
        return
    restarts = Restarts(flush=flush)
    filesystem._locked.clear()
    try:
        directory = open_directory(filesystem, flush=flush)
    except StorageError as error:
        raise Wrong(f"the second start fails, though the first did not: {error}") from error
    if OFFSETS_TOPIC not in directory.topics:
        return
    log = directory.open_log(OFFSETS_TOPIC, 0, log_config(OFFSETS_TOPIC, flush=flush))
    key, value = next(iter(found.groups[1]), (NEW_KEY, NEW_VALUE))
    batch = encode_batch([(key, value)], log.log_end_offset, START_MS)
    log.append(batch)
    if flush:
        log.sync()
    filesystem._locked.clear()
    again = restarts.start_on(filesystem)
    expected = found.groups[0] + 1, found.groups[1] | {(key, value)}
    if again.detected or again.groups != expected:
        raise Wrong(f"after one more batch: {again.detected or again.groups[0]}")


def produce_on(found: Found, filesystem: Any, history: History, *, flush: bool) -> None:
    """Produce to topics after a restart, until segments are full, and check the next restart.

    A file of producers that was left over must not be taken for one of the new batches.

    Raises:
        Wrong: the next restart has other producers.
    """
    names = [name for name, (state, _) in found.topics.items() if state.topic_id in history.sent]
    if found.detected or not names:
        return
    filesystem._locked.clear()
    directory = open_directory(filesystem, flush=flush)
    sent: dict[str, list[Sent]] = {}
    for name in names:
        log = directory.open_log(name, 0, log_config(name, flush=flush))
        topic_id = directory.topics[name].topic_id
        batches = sent[name] = history.sent[topic_id][: log.log_end_offset]
        for sequence in range(_BATCHES_AFTERWARDS):
            each = Sent(_ANOTHER_PRODUCER, 0, sequence, value=b"w" * 90)
            log.append(each.batch(log.log_end_offset, START_MS))
            batches.append(each)
    filesystem._locked.clear()
    again = Restarts(flush=flush).start_on(filesystem)
    for name in names:
        state, _ = again.topics[name]
        expected = expected_producers(sent[name], state.start, state.end)
        producers = again.producers[name]._replace(committed=expected.committed)
        differs = difference(producers, sent[name], state.start, state.end, promised=False)
        if differs or again.detected:
            raise Wrong(f"after more batches: {differs} {again.detected}")


# More than a segment holds.
_BATCHES_AFTERWARDS = 6
_ANOTHER_PRODUCER = 9
# A committed offset, for a log without any: group "g", topic "t", partition 0.
NEW_KEY = bytes.fromhex("000100016700017400000000")
NEW_VALUE = bytes.fromhex("00040000000000000064ffffffff010000018bcfe5680000")
