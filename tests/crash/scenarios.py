"""Short scenarios from a broker's life, each run on a disk that records every operation.

A scenario is a function of a `ScenarioRun`. What it does before `begin_recording` is durable and no
crash falls into it. Every scenario runs with `flush=commit` and with `flush=never`.
"""

from collections.abc import Callable
from contextlib import suppress

from tests.crash.many_logs import MANY
from tests.crash.pairs import is_pair, record_pair
from tests.crash.producers import Sent
from tests.crash.scenario_run import Recording, ScenarioRun

HOUR_MS = 3_600_000


def first_start(run: ScenarioRun) -> None:
    """An empty directory becomes a data directory; the first commit."""
    run.begin_recording()
    run.start()
    run.node.commits("g", 1)


def commit(run: ScenarioRun) -> None:
    """Commits of several groups, alone and together in one turn."""
    run.start()
    run.begin_recording()
    node = run.node
    node.commits("a", 1, 2)
    node.commit("x", 5, group_id="b", partitions=(0, 1))
    node.commit("y", 3, group_id="a")
    node.turn()
    node.commits("b", 6)


def generations(run: ScenarioRun) -> None:
    """A static member joins, commits an offset and leaves; another member joins."""
    run.start()
    run.begin_recording()
    node = run.node
    generation = node.rebalance("one", instances={"one": "i-1"})
    node.commit("c", 7, member_id=node.id_of("one"), generation_id=generation)
    node.turn()
    node.leave("leaves", node.id_of("one"))
    node.turn()
    node.rebalance("two")


def roll(run: ScenarioRun) -> None:
    """Segments fill and new ones begin."""
    run.start()
    run.begin_recording()
    run.node.commits("g", *range(1, 12))


def expire(run: ScenarioRun) -> None:
    """Offsets expire; tombstones follow, for the group too."""
    run.start()
    run.node.commits("old", 1)
    run.node.commits("older", 2)
    run.begin_recording()
    run.node.pass_time(HOUR_MS // 2)
    run.node.commits("old", 3)
    run.node.pass_time(2 * HOUR_MS)


def delete_group(run: ScenarioRun) -> None:
    """Groups are deleted, and one is created again."""
    run.start()
    run.node.commits("a", 1)
    run.node.commits("b", 1, 2)
    run.begin_recording()
    run.node.delete_groups("a")
    run.node.commits("a", 9)
    run.node.delete_groups("a", "b")


def delete_topic(run: ScenarioRun) -> None:
    """A topic is deleted with every group's offsets for it, and another one takes its name."""
    node = run.start()
    node.create_topic("sales", 1)
    node.produce("sales", b"one", b"two")
    node.commits("g", 2)
    node.commits("g", 5, topic="other")
    run.begin_recording()
    node.delete_topic("sales")
    node.create_topic("sales", 2)
    node.produce("sales", b"three")
    node.commits("g", 1)


def produce_and_delete(run: ScenarioRun) -> None:
    """An ordinary topic: batches, rolls, deleted records."""
    node = run.start()
    node.create_topic("sales", 1)
    run.begin_recording()
    node.produce("sales", *(b"%d" % number * 90 for number in range(6)))
    node.delete_records("sales", 5)
    node.produce("sales", b"last")


def unload_and_load(run: ScenarioRun) -> None:
    """The groups' partition is unloaded and loaded again, under newer epochs."""
    run.start()
    run.begin_recording()
    node = run.node
    node.commits("g", 1)
    for offset in (2, 3):
        node.commit(f"late {offset}", 100, group_id="g")  # never written: the partition goes
        node.unload()
        node.log_of_groups.leader_epoch += 1
        node.load()
        node.commits("g", offset)


def clean_shutdown(run: ScenarioRun) -> None:
    """A clean stop and a start, twice."""
    run.start()
    run.node.commits("g", 1, 2, 3)
    run.begin_recording()
    for offset in (4, 5):
        run.stop()
        run.start(1000)
        run.node.commits("g", offset)
    run.stop()


def crash_and_recover(run: ScenarioRun) -> None:
    """A kill and a restart, twice; the operations of recovery are part of the scenario."""
    run.start()
    run.begin_recording()
    run.node.commits("g", *range(1, 8))
    for offset in (8, 9):
        run.die()
        run.start(1000)
        run.node.commits("h", offset)


def group_commit(run: ScenarioRun) -> None:
    """A slow disk: segments fill and new ones begin before anything is synced."""
    run.start()
    run.begin_recording()
    node = run.node
    for first in (1, 11):
        node.lags = True
        node.commits("g", *range(first, first + 8))
        node.catch_up()


def compact(run: ScenarioRun) -> None:
    """The group log is compacted during commits and rolls, and then once more."""
    node = run.start()
    node.commits("a", *range(1, 8))
    node.commits("b", 1, 2)
    node.commits("a", *range(8, 12))
    run.begin_recording()
    commits = [lambda offset=offset: node.commits("b", offset) for offset in range(3, 6)]
    node.clean(*commits, node.log_of_groups.roll)
    node.commits("a", 20)
    node.log_of_groups.roll()
    node.pass_time(1000)
    node.clean()


def compact_tombstones(run: ScenarioRun) -> None:
    """Groups are deleted and the log compacted until their tombstones are removed too."""
    node = run.start()
    node.commits("a", 1)
    node.commits("b", 1, 2)
    node.rebalance("one")
    node.delete_groups("a")
    node.log_of_groups.roll()
    run.begin_recording()
    for offset in (3, 4, 5):
        node.clean()
        node.pass_time(1000)
        node.commits("b", offset)
        node.log_of_groups.roll()


def compact_and_die(run: ScenarioRun) -> None:
    """The process dies during a cleaning; the next one finishes it and cleans again."""
    node = run.start()
    node.commits("a", *range(1, 8))
    node.commits("b", *range(1, 8))
    run.begin_recording()

    def die() -> None:
        raise _Died

    for steps in (5, 18, 22):
        with suppress(_Died):
            node.clean(*[lambda: None] * steps, die)
        run.die()
        node = run.start(1000)
        node.commits("a", 30 + steps)


def checkpoints(run: ScenarioRun) -> None:
    """Recovery points are written between commits and rolls, and restarts trust them."""
    node = run.start()
    run.begin_recording()
    for round_ in range(2):
        node.commits("a", *range(round_ * 10, round_ * 10 + 4))
        node.directory.write_recovery_points()
        node.commits("a", round_ * 10 + 5)
        run.die()
        node = run.start(1000)


def retention(run: ScenarioRun) -> None:
    """Retention removes whole segments of an ordinary topic."""
    node = run.start()
    node.create_topic("sales", 1)
    node.produce("sales", *(b"%d" % number * 90 for number in range(7)))
    run.begin_recording()
    node.expire_records("sales", 500)
    node.produce("sales", b"more")
    node.expire_records("sales", 100)
    run.stop()
    run.start()


def producers(run: ScenarioRun) -> None:
    """Idempotent and transactional producers, deleted records, a kill and a clean stop."""
    node = run.start()
    node.create_topic("sales", 1)
    value = b"v" * 90
    node.produce_batches("sales", Sent(1, 0, 0, value=value), Sent(2, 3, 7, value=value))
    run.begin_recording()
    node.produce_batches(
        "sales",
        Sent(3, 0, 0, transactional=True, value=value),
        Sent(4, 0, 0, transactional=True, value=value),
        Sent(3, 0, commits=False),
        Sent(1, 0, 1, value=value),
    )
    node.delete_records("sales", 3)
    node.produce_batches(
        "sales", Sent(4, 0, 1, transactional=True, value=value), Sent(4, 1, commits=True)
    )
    run.die()
    node = run.start(1000)
    node.produce_batches(
        "sales",
        Sent(3, 0, 1, transactional=True, value=value),
        Sent(1, 0, 2, value=value),
        Sent(3, 0, commits=False),
        Sent(5, 0, 0, transactional=True, value=value),
    )
    node.delete_records("sales", 8)
    run.stop()
    node = run.start(1000)
    node.produce_batches("sales", Sent(5, 0, commits=False), Sent(1, 0, 3, value=value))


class _Died(Exception):  # noqa: N818 - not an error
    """The broker's process has died."""


Scenario = Callable[[ScenarioRun], None]
SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
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
        producers,
        expire,
        delete_group,
        delete_topic,
        produce_and_delete,
        unload_and_load,
        clean_shutdown,
        crash_and_recover,
        *MANY,
    )
}


def record(name: str, *, flush: bool) -> Recording:
    """Run a scenario, or a pair of operations, and return what it did."""
    if is_pair(name):
        return record_pair(name, flush=flush)
    run = ScenarioRun(flush=flush)
    SCENARIOS[name](run)
    return Recording(name, flush, run.base, run.recorder.operations, run.history)
