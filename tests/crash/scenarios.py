"""The corpus: small stories of a broker's life, each told on a disk that records every operation.

A story is a function of a `Stage`; what is prepared before the curtain is durable and belongs to no
crash. All of them run with `flush=commit` and with `flush=never`.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from tests.crash.disk import Disk, Operation, RecordingFileSystem
from tests.crash.history import History
from tests.crash.node import Node

HOUR_MS = 3_600_000


class Recording(NamedTuple):
    """A story that was told: the disk before, what was done to it, what clients know."""

    name: str
    flush: bool
    base: Disk
    operations: list[Operation]
    history: History


class Stage:
    """The disk of one story, and the broker that is up just now."""

    def __init__(self, *, flush: bool, wrap: Callable[[Any], Any] | None = None) -> None:
        """`wrap` puts another file system between the broker and the recording one."""
        self.flush = flush
        self.recorder = RecordingFileSystem()
        self.filesystem: Any = self.recorder if wrap is None else wrap(self.recorder)
        # Called when the story begins.
        self.begins: Callable[[], None] = lambda: None
        self.history = History()
        self.base = self.recorder.disk.copy()
        self.elapsed_ms = 0
        self.node: Node

    def start(self, delay_ms: int = 0) -> Node:
        """Start a broker on the disk, so much later."""
        self.elapsed_ms += delay_ms
        self.node = Node(self.filesystem, self.history, flush=self.flush, delay_ms=self.elapsed_ms)
        self.node.recorder = self.recorder
        return self.node

    def stop(self) -> None:
        """Stop the broker in order."""
        self.elapsed_ms = self.node.now_ms - self.node.start_ms
        self.node.close()
        del self.node

    def die(self) -> None:
        """The broker's process dies; what it has done to the disk stays."""
        if hasattr(self, "node"):
            self.elapsed_ms = self.node.now_ms - self.node.start_ms
            self.node.directory._lock.release()
            del self.node

    def curtain(self) -> None:
        """What is on the disk now is durable; the story begins."""
        self.base = self.recorder.disk.copy()
        self.recorder.operations.clear()
        for register in (self.history.groups, *self.history.topics.values()):
            newest = len(register.states) - 1
            register.moments = [(0, newest, newest)]
        self.begins()


def first_start(stage: Stage) -> None:
    """An empty place becomes a data directory; the first commit."""
    stage.curtain()
    stage.start()
    stage.node.commits("g", 1)


def commit(stage: Stage) -> None:
    """Commits of several groups, alone and together in one turn."""
    stage.start()
    stage.curtain()
    node = stage.node
    node.commits("a", 1, 2)
    node.commit("x", 5, group_id="b", partitions=(0, 1))
    node.commit("y", 3, group_id="a")
    node.turn()
    node.commits("b", 6)


def generations(stage: Stage) -> None:
    """A group forms, a static member joins, one leaves, offsets are committed by members."""
    stage.start()
    stage.curtain()
    node = stage.node
    generation = node.rebalance("one", instances={"one": "i-1"})
    node.commit("c", 7, member_id=node.id_of("one"), generation_id=generation)
    node.turn()
    node.leave("leaves", node.id_of("one"))
    node.turn()
    node.rebalance("two")


def roll(stage: Stage) -> None:
    """Segments fill and new ones begin."""
    stage.start()
    stage.curtain()
    stage.node.commits("g", *range(1, 12))


def expire(stage: Stage) -> None:
    """Offsets pass their retention; tombstones follow, and the group's own."""
    stage.start()
    stage.node.commits("old", 1)
    stage.node.commits("older", 2)
    stage.curtain()
    stage.node.pass_time(HOUR_MS // 2)
    stage.node.commits("old", 3)
    stage.node.pass_time(2 * HOUR_MS)


def delete_group(stage: Stage) -> None:
    """Groups are deleted, and one comes back."""
    stage.start()
    stage.node.commits("a", 1)
    stage.node.commits("b", 1, 2)
    stage.curtain()
    stage.node.delete_groups("a")
    stage.node.commits("a", 9)
    stage.node.delete_groups("a", "b")


def delete_topic(stage: Stage) -> None:
    """A topic goes, with its records and every group's offsets, and another one takes its name."""
    node = stage.start()
    node.create_topic("sales", 1)
    node.produce("sales", b"one", b"two")
    node.commits("g", 2)
    node.commits("g", 5, topic="other")
    stage.curtain()
    node.delete_topic("sales")
    node.create_topic("sales", 2)
    node.produce("sales", b"three")
    node.commits("g", 1)


def produce_and_delete(stage: Stage) -> None:
    """An ordinary topic: batches, rolls, records deleted from the front."""
    node = stage.start()
    node.create_topic("sales", 1)
    stage.curtain()
    node.produce("sales", *(b"%d" % number * 90 for number in range(6)))
    node.delete_records("sales", 5)
    node.produce("sales", b"last")


def unload_and_load(stage: Stage) -> None:
    """The groups' partition is given up and taken over again, under newer epochs."""
    stage.start()
    stage.curtain()
    node = stage.node
    node.commits("g", 1)
    for offset in (2, 3):
        node.commit(f"late {offset}", 100, group_id="g")  # never written: the partition goes
        node.unload()
        node.log_of_groups.leader_epoch += 1
        node.load()
        node.commits("g", offset)


def clean_shutdown(stage: Stage) -> None:
    """Stopped in order and started again, twice."""
    stage.start()
    stage.node.commits("g", 1, 2, 3)
    stage.curtain()
    for offset in (4, 5):
        stage.stop()
        stage.start(1000)
        stage.node.commits("g", offset)
    stage.stop()


def crash_and_recover(stage: Stage) -> None:
    """Dies in the middle, twice; the recovery's own operations are part of the story."""
    stage.start()
    stage.curtain()
    stage.node.commits("g", *range(1, 8))
    for offset in (8, 9):
        stage.die()
        stage.start(1000)
        stage.node.commits("h", offset)


def group_commit(stage: Stage) -> None:
    """The disk is slow: segments fill and new ones begin before anything is synced."""
    stage.start()
    stage.curtain()
    node = stage.node
    for first in (1, 11):
        node.lags = True
        node.commits("g", *range(first, first + 8))
        node.catch_up()


def compact(stage: Stage) -> None:
    """The group log is compacted while commits and rolls go on, and then again."""
    node = stage.start()
    node.commits("a", *range(1, 8))
    node.commits("b", 1, 2)
    node.commits("a", *range(8, 12))
    stage.curtain()
    commits = [lambda offset=offset: node.commits("b", offset) for offset in range(3, 6)]
    node.clean(*commits, node.log_of_groups.roll)
    node.commits("a", 20)
    node.log_of_groups.roll()
    node.pass_time(1000)
    node.clean()


def compact_tombstones(stage: Stage) -> None:
    """Groups are deleted and the log compacted until even their tombstones are gone."""
    node = stage.start()
    node.commits("a", 1)
    node.commits("b", 1, 2)
    node.rebalance("one")
    node.delete_groups("a")
    node.log_of_groups.roll()
    stage.curtain()
    for offset in (3, 4, 5):
        node.clean()
        node.pass_time(1000)
        node.commits("b", offset)
        node.log_of_groups.roll()


def compact_and_die(stage: Stage) -> None:
    """The process dies in the middle of a cleaning; the next one finishes it and cleans again."""
    node = stage.start()
    node.commits("a", *range(1, 8))
    node.commits("b", *range(1, 8))
    stage.curtain()

    def die() -> None:
        raise _Died

    for steps in (5, 18, 22):
        with suppress(_Died):
            node.clean(*[lambda: None] * steps, die)
        stage.die()
        node = stage.start(1000)
        node.commits("a", 30 + steps)


def checkpoints(stage: Stage) -> None:
    """Recovery points are written between commits and rolls, and a restart trusts them."""
    node = stage.start()
    stage.curtain()
    for round_ in range(2):
        node.commits("a", *range(round_ * 10, round_ * 10 + 4))
        node.directory.write_recovery_points()
        node.commits("a", round_ * 10 + 5)
        stage.die()
        node = stage.start(1000)


def retention(stage: Stage) -> None:
    """Whole segments of an ordinary topic go from the front."""
    node = stage.start()
    node.create_topic("sales", 1)
    node.produce("sales", *(b"%d" % number * 90 for number in range(7)))
    stage.curtain()
    node.expire_records("sales", 500)
    node.produce("sales", b"more")
    node.expire_records("sales", 100)
    stage.stop()
    stage.start()


class _Died(Exception):  # noqa: N818 - what happened
    """The process is no more."""


Story = Callable[[Stage], None]
STORIES: dict[str, Story] = {
    story.__name__: story
    for story in (
        first_start,
        commit,
        generations,
        roll,
        group_commit,
        compact,
        compact_tombstones,
        compact_and_die,
        checkpoints,
        retention,
        expire,
        delete_group,
        delete_topic,
        produce_and_delete,
        unload_and_load,
        clean_shutdown,
        crash_and_recover,
    )
}


def record(name: str, *, flush: bool) -> Recording:
    """Tell a story and keep what it did."""
    stage = Stage(flush=flush)
    STORIES[name](stage)
    return Recording(name, flush, stage.base, stage.recorder.operations, stage.history)
