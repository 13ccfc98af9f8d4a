"""Scenarios in which a turn appends to several logs, so that the write-ahead log is used."""

from collections.abc import Callable

from tests.crash.node import Node
from tests.crash.scenario_run import ScenarioRun

TOPICS = ("sales", "stock")


def begin(run: ScenarioRun) -> Node:
    """Start a broker with two topics beside the groups' partition."""
    node = run.start()
    for number, name in enumerate(TOPICS):
        node.create_topic(name, number)
    return node


def many(
    node: Node, offset: int, *, length: int = 3, during: Callable[[], None] | None = None
) -> None:
    """A turn with a commit, and one value for each topic."""
    node.commit(f"many {offset} {node.done}", offset, group_id="g")
    value = b"%d" % offset
    values = {name: value.rjust(length, name[:1].encode()) for name in TOPICS}
    node.turn(values, during or (lambda: None))


def many_commits(run: ScenarioRun) -> None:
    """Turns that are synced as one, before, during and after the settling of their file."""
    node = begin(run)
    run.begin_recording()
    many(node, 1)
    many(node, 2)
    node.settle(lambda: many(node, 3), lambda: node.produce("sales", b"alone"))
    node.commits("g", 4)
    many(node, 5)


def many_rolls(run: ScenarioRun) -> None:
    """Segments fill and new ones begin, while write-ahead files hold records of the old ones."""
    node = begin(run)
    run.begin_recording()
    many(node, 1, length=400)
    many(node, 2, length=400)
    node.settle(lambda: many(node, 3, length=400))


def many_compacted(run: ScenarioRun) -> None:
    """The group log is compacted, also while write-ahead files hold records of its segments."""
    node = begin(run)
    node.commits("g", *range(1, 6))
    run.begin_recording()
    for offset in range(6, 9):
        many(node, offset)
    node.log_of_groups.roll()
    node.clean(lambda: many(node, 9))
    many(node, 10)
    node.settle()
    node.clean(lambda: many(node, 11))
    node.commits("g", 12)


def many_and_moved(run: ScenarioRun) -> None:
    """Compaction moves batches to other positions, where a write-ahead file has held records."""
    node = begin(run)
    node.commits("first", 1)
    run.begin_recording()
    many(node, 1)
    node.commits("keep", 1)
    node.commits("first", 2)
    node.log_of_groups.roll()
    node.clean()
    node.settle()
    node.clean()
    many(node, 2)


def many_and_restart(run: ScenarioRun) -> None:
    """The process dies and starts again; then power is lost."""
    node = begin(run)
    run.begin_recording()
    many(node, 1)
    many(node, 2)
    run.die()
    run.start(1000)


def many_and_a_new_topic(run: ScenarioRun) -> None:
    """A topic is deleted while a write-ahead file holds its records; another gets its name."""
    node = begin(run)
    run.begin_recording()
    many(node, 1)
    node.delete_topic("sales")
    node.create_topic("sales", 9)
    many(node, 2)
    node.settle()


def many_deleted_records(run: ScenarioRun) -> None:
    """Records and segments are deleted while a write-ahead file holds them."""
    node = begin(run)
    run.begin_recording()
    many(node, 1, length=400)
    many(node, 2, length=400)
    node.delete_records("sales", 1)
    node.delete_records("stock", 2)
    many(node, 3)
    node.settle()


def many_and_die(run: ScenarioRun) -> None:
    """The process dies, and stops cleanly, while there are write-ahead files; it goes on."""
    node = begin(run)
    run.begin_recording()
    many(node, 1)
    many(node, 2)
    run.die()
    node = run.start(1000)
    for name in TOPICS:
        node.open_log(name)
    many(node, 3)
    run.stop()
    node = run.start(1000)
    many(node, 4)


def many_at_once(run: ScenarioRun) -> None:
    """A slow disk: the event loop appends more while a frame is written."""
    node = begin(run)
    run.begin_recording()

    def late() -> None:
        node.append_value("sales", b"late")

    many(node, 1, during=late)
    many(node, 2, during=late)
    node.settle(late, late)
    many(node, 3)


MANY = (
    many_commits,
    many_rolls,
    many_compacted,
    many_and_moved,
    many_and_restart,
    many_and_a_new_topic,
    many_deleted_records,
    many_and_die,
    many_at_once,
)
