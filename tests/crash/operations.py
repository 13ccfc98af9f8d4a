"""Every operation that changes files, as data, to be done one after another or within another.

An operation first makes what it needs (a retention needs an old segment), and checks afterwards
that it has done what its name says. So a pair that runs was reached.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple

from coterie.protocol.records import decode_records, encode_batch, iterate_batches
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.storage.checkpoints import replace_file
from coterie.storage.cleaner import clean
from coterie.storage.log import Log
from coterie.storage.offset_checkpoints import CLEANER_FILE, LOG_START_FILE, RECOVERY_POINT_FILE
from coterie.storage.seals import open_entries
from coterie.storage.segment_digests import SegmentDigest, SegmentDigests
from coterie.storage.torn_tail import TailTrust
from tests.crash.disk import FIRST_BOOT
from tests.crash.history import TopicState
from tests.crash.losses import Medium
from tests.crash.node import CLEANER, DATA, Node, log_config
from tests.crash.node_members import (
    beat,
    commit,
    consumer_group,
    join_classic,
    leave,
    reconcile,
)
from tests.crash.producers import Sent
from tests.crash.scenario_run import ScenarioRun

# Topics with ordinary records, and one whose producers have ids.
PLAIN, DELETED, PRODUCED = "sales", "stock", "ledger"
# A consumer group, one whose type changes, and one that is deleted.
GROUP, MIXED, UNUSED = "group", "mixed", "unused"
# The time between two appends. Segments are a few of these long.
STEP_MS = 100
_RESTART_MS = 1000
# max.compaction.lag.ms without a limit.
_NEVER_MS = CLEANER.max_compaction_lag_ms
_VALUE = b"v" * 90

Between = Sequence[Callable[[], None]]


class Story:
    """A broker on which operations are done."""

    def __init__(self, run: ScenarioRun) -> None:
        self.run = run
        self.number = count(1)

    @property
    def node(self) -> Node:
        """The broker as it is now: after a restart it is another one."""
        return self.run.node

    def turn(self, during: Callable[[], None] = lambda: None) -> None:
        """A turn that appends to several logs."""
        number = next(self.number)
        node = self.node
        node.commit(f"turn {number} {node.done}", number, group_id="g" * (number % 3 + 1))
        # Lengths differ, so that a place in one segment is rarely one in another.
        values = {
            name: b"%d" % number * (number % 5 + 1)
            for name in (PLAIN, DELETED)
            if name in node.directory.topics
        }
        node.turn(values, during)
        node.pass_time(STEP_MS)

    def create(self, name: str) -> None:
        """Create a topic with an id that none had before."""
        self.node.create_topic(name, next(self.number))


def prepare(story: Story) -> None:
    """Write a log of groups: a write-ahead file names some of its closed segments, not all."""
    run = story.run
    run.start()
    for name in (PLAIN, DELETED, PRODUCED):
        story.create(name)
    for number in range(1, 4):
        for group in ("g", "gg", "ggg", "alone"):
            story.node.commits(group, number)
        story.node.pass_time(STEP_MS)
    story.node.produce_batches(PRODUCED, Sent(1, 0, 0, value=_VALUE))
    run.begin_recording()
    story.node.commits("alone", 10)
    for _ in range(3):
        story.turn()
        story.node.commits("alone", next(story.number))
    story.node.log_of_groups.roll()
    story.turn()
    story.node.delete_records(DELETED, 1)


# --- the operations ---------------------------------------------------------------------------


def append(story: Story, _: Between) -> None:
    """Append to one log, which is synced by itself."""
    story.node.commits("alone", next(story.number))
    story.node.pass_time(STEP_MS)


def roll(story: Story, _: Between) -> None:
    """Begin a segment."""
    for log in (story.node.log_of_groups, story.node.open_log(PLAIN)):
        story.node.commits("alone", next(story.number))
        if not log.segments[-1].size:
            story.node.produce(PLAIN, b"more")
        before = log.segments[-1].base_offset
        log.roll()
        assert log.segments[-1].base_offset > before


def write_ahead(story: Story, between: Between) -> None:
    """Append to several logs, which one frame of a write-ahead file makes durable."""

    def during() -> None:
        for each in between:
            each()

    story.turn(during)
    write_ahead = story.node.directory.write_ahead
    assert not story.run.flush or (write_ahead is not None and not write_ahead.is_empty)


def settle(story: Story, between: Between) -> None:
    """Sync the logs of a write-ahead file, and remove it."""
    write_ahead = story.node.directory.write_ahead
    assert write_ahead is not None
    if write_ahead.is_empty:
        story.turn()
    file = write_ahead._active
    story.node.settle(*between)
    assert file is not None
    assert file not in (write_ahead._active, write_ahead._settling)


def compact(story: Story, between: Between) -> None:
    """Clean the log of groups, as soon as that is due.

    The cleaner's checkpoint was lost. But where little dirt makes a cleaning due, or age alone, the
    first segment counts as clean.
    """
    node, bounds = story.node, story.run.bounds
    log = node.log_of_groups
    before = log.segments[0]
    is_all_dirty = bounds.min_cleanable_ratio == CLEANER.min_cleanable_ratio
    first = 0 if is_all_dirty else before.next_offset
    if not node.is_cleaning_due(first) and bounds.max_compaction_lag_ms < _NEVER_MS:
        # No share of dirty bytes is great enough, and no record is old enough.
        node.pass_time(bounds.min_compaction_lag_ms + bounds.max_compaction_lag_ms)
    if not node.is_cleaning_due(first):
        # It is still in a write-ahead file, or too young.
        node.settle()
        log.roll()
        node.pass_time(bounds.min_compaction_lag_ms + STEP_MS)
    assert node.is_cleaning_due(first)
    node.clean(*between, first=first)
    assert between or before is not log.segments[0]


def members(story: Story, _: Between) -> None:
    """A member of a consumer group joins, takes partitions and commits; the others leave."""
    node, number = story.node, next(story.number)
    name = f"member {number}"
    if consumer_group(node, GROUP) is None:
        beat(node, GROUP, "the first", PLAIN)
    group = consumer_group(node, GROUP)
    assert group is not None
    before = list(group.members)
    beat(node, GROUP, name, PLAIN)
    reconcile(node, GROUP, PLAIN)
    for each in before:
        leave(node, GROUP, each, PLAIN)
    reconcile(node, GROUP, PLAIN)
    commit(node, GROUP, name, PLAIN, number)
    assert list(group.members) == [name]
    node.pass_time(STEP_MS)


def migration(story: Story, _: Between) -> None:
    """A classic group becomes a consumer group, and a classic group again."""
    node, number = story.node, next(story.number)
    join_classic(node, MIXED, PLAIN)
    name = f"member {number}"
    beat(node, MIXED, name, PLAIN)
    assert consumer_group(node, MIXED) is not None
    reconcile(node, MIXED, PLAIN)
    leave(node, MIXED, name, PLAIN)
    assert consumer_group(node, MIXED) is None
    node.pass_time(STEP_MS)


def delete_group(story: Story, _: Between) -> None:
    """A consumer group is deleted, with its offsets."""
    node, number = story.node, next(story.number)
    beat(node, UNUSED, f"member {number}", PLAIN)
    commit(node, UNUSED, f"member {number}", PLAIN, number)
    leave(node, UNUSED, f"member {number}", PLAIN)
    node.delete_groups(UNUSED)
    assert node.coordinator.group(UNUSED) is None


def retention(story: Story, _: Between) -> None:
    """Remove the oldest segments of a topic by size."""
    node = story.node
    log = node.open_log(PLAIN)
    # Two are removed: the second must not be gone without the first.
    while sum(each.size for each in log.segments[2:]) < story.run.bounds.retention_bytes:
        node.produce(PLAIN, _VALUE)
        log.roll()
    before = log.log_start_offset
    node.expire_records(PLAIN, story.run.bounds.retention_bytes)
    assert log.log_start_offset > before


def delete_records(story: Story, _: Between) -> None:
    """Delete records of a topic, and those of the log of groups that newer ones have superseded."""
    node = story.node
    if DELETED not in node.directory.topics:
        story.create(DELETED)
    log = node.open_log(DELETED)
    node.produce(DELETED, b"more")
    node.delete_records(DELETED, log.log_end_offset)
    groups = node.log_of_groups
    newest: dict[bytes | None, int] = {}
    for data in groups.chunks():
        for position, header in iterate_batches(data):
            records = decode_records(data, header, position)
            newest |= {record.key: record.offset for record in records}
    superseded = min(newest.values())
    if superseded > groups.log_start_offset:
        node.directory.delete_records(OFFSETS_TOPIC, 0, superseded)


def create(story: Story, _: Between) -> None:
    """Create a topic, by the name of a deleted one if there is one."""
    name = DELETED if DELETED not in story.node.directory.topics else f"new{next(story.number)}"
    story.create(name)
    # Its first segment.
    story.node.open_log(name)


def delete(story: Story, _: Between) -> None:
    """Delete a topic and its files."""
    if DELETED not in story.node.directory.topics:
        story.create(DELETED)
    log = story.node.open_log(DELETED)
    if log.synced_offset == log.log_end_offset:
        # Of a log that is deleted something may not be synced.
        story.turn()
    story.node.delete_topic(DELETED)


def alter(story: Story, _: Between) -> None:
    """Alter the settings of a topic."""
    story.node.alter_topic(PLAIN, 200 + next(story.number))


def snapshot(story: Story, _: Between) -> None:
    """Write a snapshot of producers, and the recovery points."""
    node = story.node
    log = node.open_log(PRODUCED)
    node.produce_batches(PRODUCED, Sent(1, 0, log.log_end_offset, value=_VALUE))
    log.roll()
    assert log.segments[-1].base_offset == log.log_end_offset
    node.directory.write_recovery_points()


def recovery(story: Story, _: Between) -> None:
    """Kill the process, and start again."""
    story.run.die()
    story.run.start(_RESTART_MS)


def power_recovery(story: Story, _: Between) -> None:
    """Lose power, with everything that is not synced, and start again."""
    run = story.run
    medium = Medium(run.base)
    for operation in run.recorder.operations:
        medium.add(operation)
    run.die()
    run.recorder.disk = medium.certain
    run.recorder.boot = FIRST_BOOT
    run.begin_recording()
    run.start(_RESTART_MS)


def take_over(story: Story, _: Between) -> None:
    """The coordinator gives its partition up, and takes it over again."""
    story.node.unload()
    story.node.load()
    story.node.commits("alone", next(story.number))


def other_software(story: Story, _: Between) -> None:
    """Software that does not know our files uses the directory of a killed broker, and is killed.

    Like Kafka it writes checkpoints without our checksum, cleans and appends.
    """
    run, now_ms = story.run, story.node.now_ms
    run.die()
    path = f"{DATA}/{RECOVERY_POINT_FILE}"
    replace_file(run.filesystem, path, f"0\n1\n{OFFSETS_TOPIC} 0 0\n", durable=True)
    for name in (LOG_START_FILE, CLEANER_FILE):
        path = f"{DATA}/{name}"
        if run.filesystem.exists(path):
            file = run.filesystem.open(path)
            text = open_entries(path, file.read(0, file.size()).decode())[0]
            replace_file(run.filesystem, path, text, durable=True)
    log = _opened(run, OFFSETS_TOPIC)
    log.roll()
    before = log.segments[0]
    clean(log, 0, now_ms, run.bounds.cleaner)
    assert before is not log.segments[0]
    key, value = next(iter(run.history.groups.states[-1][1]))
    end_offset, state = run.history.groups.states[-1]
    run.history.groups.change(len(run.recorder.operations), (end_offset + 1, state))
    log.append(encode_batch([(key, value)], log.log_end_offset, now_ms))
    log.sync()
    run.history.groups.acknowledge(len(run.recorder.operations))
    sales, register = _opened(run, PLAIN), run.history.topic(PLAIN)
    topic = register.states[-1]
    run.history.values[topic.topic_id].append(b"foreign")
    grown = TopicState(topic.topic_id, topic.start, topic.end + 1)
    register.change(len(run.recorder.operations), grown)
    sales.append(encode_batch([(b"k", b"foreign")], 0, now_ms + topic.end))
    sales.sync()
    register.acknowledge(len(run.recorder.operations))
    run.start(2 * _RESTART_MS)


def _opened(run: ScenarioRun, topic: str) -> Log:
    log = Log.open(
        run.filesystem,
        f"{DATA}/{topic}-0",
        log_config(topic, flush=run.flush, bounds=run.bounds),
        trust=TailTrust.PROCESS_DIED,
    )
    log.digests = _NoDigests(run.filesystem, log.directory)
    return log


class _NoDigests(SegmentDigests):
    """Other software has no file of digests."""

    def replacing(self, _base_offset: int, _entry: SegmentDigest) -> Callable[[], None]:
        """Note nothing."""
        return lambda: None

    def _write(self) -> None:
        pass


class FileOperation(NamedTuple):
    """An operation that changes files.

    Attributes:
        name: in the table and in the names of scenarios.
        run: does it. It calls the functions of its second argument between its steps.
        needs_flush: whether it only exists with `--flush commit`.
        has_steps: whether others may run within it.
        restarts: whether the broker is another one afterwards, so it runs within no other.
    """

    name: str
    run: Callable[[Story, Between], None]
    needs_flush: bool = False
    has_steps: bool = False
    restarts: bool = False


OPERATIONS = (
    FileOperation("append", append),
    FileOperation("roll", roll),
    FileOperation("write-ahead", write_ahead, needs_flush=True, has_steps=True),
    FileOperation("settle", settle, needs_flush=True, has_steps=True),
    FileOperation("clean", compact, has_steps=True),
    FileOperation("members", members),
    FileOperation("migration", migration),
    FileOperation("delete-group", delete_group),
    FileOperation("retention", retention),
    FileOperation("delete-records", delete_records),
    FileOperation("create", create),
    FileOperation("delete", delete),
    FileOperation("alter", alter),
    FileOperation("snapshot", snapshot),
    FileOperation("recovery", recovery, restarts=True),
    FileOperation("power-recovery", power_recovery, needs_flush=True, restarts=True),
    FileOperation("take-over", take_over),
    FileOperation("other-software", other_software, restarts=True),
)
BY_NAME = {operation.name: operation for operation in OPERATIONS}
