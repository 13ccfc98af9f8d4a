"""Stories of groups, and the findings that a person would expect of each."""

from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple

from tests.pipeline.findings.simulated import MINUTE_S, Process, SimulatedGroup

# An expected finding: its rule, and its subject if that matters.
Expected = tuple[str, str | None]
# Every group is recorded for this time.
END_S = 200 * MINUTE_S


class Told(NamedTuple):
    """A group with its story, and what there is to be found."""

    group: SimulatedGroup
    expected: tuple[Expected, ...]


def _started(
    name: str, chance: Random, least: int = 2, most: int = 8, *, partitions: int = 0
) -> SimulatedGroup:
    """Return a group whose members have joined within its first minute."""
    group = SimulatedGroup(
        name, chance, partitions=partitions or chance.randrange(2, 8), end_s=END_S
    )
    shares_client = chance.random() < 0.3
    static = chance.random() < 0.2
    for number in range(chance.randrange(least, most + 1)):
        client = name if shares_client else f"{name}-{number}"
        process = Process(client, f"10.0.0.{number}", f"{name}-i{number}" if static else None)
        group.change(1 + 4 * number, join=[process])
    return group


def _somebody(group: SimulatedGroup) -> tuple[str, Process]:
    member_id = group.chance.choice(sorted(group.here))
    return member_id, group.here[member_id]


def _now_and_then(group: SimulatedGroup, from_s: float, to_s: float, every_s: float) -> None:
    """Let members be replaced now and then: a machine is rebooted."""
    at_s = from_s + group.chance.uniform(0.3, 1) * every_s
    while at_s < to_s - 120:
        member_id, process = _somebody(group)
        group.change(at_s, leave=[member_id])
        group.change(at_s + group.chance.uniform(10, 90), join=[process])
        at_s += group.chance.uniform(0.7, 1.5) * every_s


def quiet(name: str, chance: Random) -> Told:
    group = _started(name, chance)
    _now_and_then(group, 600, END_S, 4000)
    return Told(group, ())


def deployed(name: str, chance: Random) -> Told:
    """Each member is replaced, on the same host or as a new pod on another one."""
    group = _started(name, chance, 3, 12)
    _now_and_then(group, 600, 4000, 3000)
    at_s = chance.uniform(4500, 9000)
    moves = chance.random() < 0.5
    for member_id, process in list(group.here.items()):
        group.change(at_s, leave=[member_id])
        host = f"10.1.0.{chance.randrange(250)}" if moves else process.host
        at_s += chance.uniform(4, 20)
        group.change(at_s, join=[process._replace(host=host)])
        at_s += chance.uniform(5, 20)
    return Told(group, (("deployment", None),))


def scaled(name: str, chance: Random) -> Told:
    """The group gets twice as many members, one after the other."""
    group = _started(name, chance, 5, 9)
    at_s = chance.uniform(3000, 9000)
    for number in range(len(group.here)):
        group.change(at_s, join=[Process(f"{name}-more-{number}", f"10.2.0.{number}")])
        at_s += chance.uniform(5, 25)
    return Told(group, (("deployment", None),))


def _flap(group: SimulatedGroup, at_s: float, times: int, up_s: float, down_s: float) -> Process:
    process = Process(f"{group.group_id}-flaky", "10.9.0.1")
    chance = group.chance
    for _ in range(times):
        (member_id,) = group.change(at_s, join=[process])
        at_s += up_s * chance.uniform(0.7, 1.3)
        group.change(at_s, leave=[member_id])
        at_s += down_s * chance.uniform(0.7, 1.3)
    return process


def storm(name: str, chance: Random) -> Told:
    """One client joins and expires again and again, under a new member id each time."""
    group = _started(name, chance, 2, 5)
    _now_and_then(group, 600, 3000, 2500)
    times = chance.randrange(7, 20)
    process = _flap(group, chance.uniform(4000, 8000), times, 50, 15)
    return Told(group, (("rebalance_storm", process.identity),))


def restarting(name: str, chance: Random) -> Told:
    """One client dies and is back before the others have rejoined, each time in one rebalance."""
    group = _started(name, chance, 3, 5)
    process = Process(f"{name}-flaky", "10.9.0.1")
    at_s = chance.uniform(4000, 8000)
    (member_id,) = group.change(3000, join=[process])
    for _ in range(chance.randrange(9, 16)):
        (member_id,) = group.change(at_s, leave=[member_id], join=[process])
        at_s += chance.uniform(30, 60)
    return Told(group, (("rebalance_storm", process.identity),))


def _come_and_go(group: SimulatedGroup, processes: Iterable[Process]) -> None:
    """Let processes join and leave one after the other."""
    at_s = group.chance.uniform(4000, 8000)
    for process in processes:
        (member_id,) = group.change(at_s, join=[process])
        at_s += group.chance.uniform(20, 45)
        group.change(at_s, leave=[member_id])
        at_s += group.chance.uniform(5, 15)


def moving(name: str, chance: Random) -> Told:
    """A pod is started again and again on other hosts, so that no member can be named."""
    group = _started(name, chance, 2, 4)
    hosts = range(chance.randrange(8, 16))
    _come_and_go(group, [Process(f"{name}-pod", f"10.8.0.{number}") for number in hosts])
    return Told(group, (("rebalance_storm", None),))


def two_culprits(name: str, chance: Random) -> Told:
    group = _started(name, chance, 2, 5)
    both = [Process(f"{name}-flaky-{number}", "10.9.0.1") for number in range(2)]
    _come_and_go(group, both * chance.randrange(5, 9))
    return Told(group, (("rebalance_storm", None),))


def rejoining(name: str, chance: Random) -> Told:
    """A leader asks for rebalances again and again; no member comes or goes."""
    group = _started(name, chance, 2, 5)
    at_s = chance.uniform(4000, 8000)
    for _ in range(chance.randrange(9, 20)):
        group.change(at_s)
        at_s += chance.uniform(20, 60)
    return Told(group, (("rebalance_storm", None),))


def unlucky(name: str, chance: Random) -> Told:
    """Two machines are rebooted shortly after each other."""
    group = _started(name, chance, 4, 8)
    at_s = chance.uniform(4000, 8000)
    for member_id, process in sorted(group.here.items())[:2]:
        group.change(at_s, leave=[member_id])
        group.change(at_s + chance.uniform(20, 60), join=[process])
        at_s += chance.uniform(120, 400)
    return Told(group, ())


def flapping(name: str, chance: Random) -> Told:
    """One client comes and goes too slowly for a storm."""
    group = _started(name, chance, 2, 5)
    process = _flap(group, chance.uniform(3000, 5000), chance.randrange(3, 6), 200, 330)
    return Told(group, (("flapping_member", process.identity),))


def busy(name: str, chance: Random) -> Told:
    """A large group in which a member is replaced every few minutes, which is usual for it."""
    group = _started(name, chance, 20, 30, partitions=30)
    _now_and_then(group, 300, END_S, 500)
    return Told(group, ())


def stuck(name: str, chance: Random) -> Told:
    """A member stays in the group and makes no progress any more."""
    group = _started(name, chance, 1, 3, partitions=4)
    client = group.here[min(group.here)].client
    group.hang(chance.uniform(5000, 9000), END_S + 60, client)
    return Told(group, (("stalled_partition", None),))


def recovered(name: str, chance: Random) -> Told:
    group = _started(name, chance, 1, 3, partitions=4)
    at_s = chance.uniform(3000, 6000)
    group.hang(at_s, at_s + chance.uniform(600, 2400))
    return Told(group, (("passed_stall", None),))


def slow(name: str, chance: Random) -> Told:
    """A batch takes a few minutes, less than max.poll.interval.ms."""
    group = _started(name, chance, 1, 3)
    for at_s in range(1000, END_S - 1000, 1500):
        group.hang(at_s, at_s + chance.uniform(60, 230))
    return Told(group, ())


def _stop(group: SimulatedGroup, at_s: float) -> None:
    for member_id in sorted(group.here):
        group.change(at_s, leave=[member_id])
        at_s += group.chance.uniform(1, 6)


def stopped(name: str, chance: Random) -> Told:
    """The group is stopped while its topic grows."""
    group = _started(name, chance)
    _stop(group, chance.uniform(4000, 9000))
    return Told(group, (("empty_group_with_lag", None),))


def finished(name: str, chance: Random) -> Told:
    """The group is stopped after its topic has ended."""
    group = _started(name, chance)
    at_s = chance.uniform(4000, 9000)
    group.produced_until_s = at_s - 120
    _stop(group, at_s)
    return Told(group, ())


def rewound(name: str, chance: Random) -> Told:
    group = _started(name, chance)
    at_s = chance.uniform(3000, 9000)
    for partition in range(chance.randrange(1, group.partitions + 1)):
        group.rewind(at_s, partition, chance.randrange(1, 5000))
    return Told(group, (("rewind", None),))


def zombie(name: str, chance: Random) -> Told:
    """A process that lost its partition goes on committing it, and nobody owns it."""
    group = _started(name, chance, 2, 2, partitions=6)
    whole = group.assign
    group.assign = lambda members: {
        each: [number for number in given if number != 5] for each, given in whole(members).items()
    }
    at_s = chance.uniform(3000, 5000)
    member_id, process = _somebody(group)
    group.change(at_s, leave=[member_id])
    group.change(at_s + 60, join=[process])
    for step in range(chance.randrange(1, 6)):
        group.commit_foreign(at_s + 300 + 60 * step, 5)
    # Nobody reads the partition, so it has a lag, too.
    return Told(group, (("zombie_commit", None), ("stalled_partition", None)))


def reshuffled(name: str, chance: Random) -> Told:
    """An assignor that gives every member other partitions each time."""
    group = _started(name, chance, 3, 4, partitions=12)

    def assign(members: list[str]) -> dict[str, list[int]]:
        order = list(range(12))
        chance.shuffle(order)
        return {each: sorted(order[n :: len(members)]) for n, each in enumerate(members)}

    group.assign = assign
    for at_s in (3000, 7000):
        member_id, process = _somebody(group)
        group.change(at_s, leave=[member_id])
        group.change(at_s + 60, join=[process])
    return Told(group, (("needless_moves", None),))


def unequal(name: str, chance: Random) -> Told:
    group = SimulatedGroup(name, chance, partitions=12, end_s=END_S)
    group.assign = lambda members: {
        each: list(range(12 - len(members) + 1)) if not n else [12 - n]
        for n, each in enumerate(members)
    }
    for number in range(chance.randrange(3, 5)):
        group.change(60 * number + 1, join=[Process(f"{name}-{number}", "10.3.0.1")])
    return Told(group, (("unbalanced_assignment", None),))


STORIES: tuple[Callable[[str, Random], Told], ...] = (
    quiet, deployed, scaled, storm, restarting, moving, two_culprits, rejoining, unlucky, flapping,
    busy, stuck, recovered, slow, stopped, finished, rewound, zombie, reshuffled, unequal,
)  # fmt: skip


def cluster(seed: int) -> list[Told]:
    """Return a cluster with one group of each story; in some, a broker restarts."""
    told = [
        story(f"{story.__name__}-{seed}", Random(f"{story.__name__} {seed}")) for story in STORIES
    ]
    chance = Random(f"cluster {seed}")
    return told + (restarted(seed, chance) if chance.random() < 0.5 else [])


# The finding across groups that is expected if a cluster has groups of `restarted`.
RESTART = "broker_restart"


def restarted(seed: int, chance: Random) -> list[Told]:
    """Return groups whose members all expire and come back when their broker restarts."""
    at_s = chance.uniform(9500, 10_500)
    told = []
    for number in range(chance.randrange(10, 16)):
        group = _started(f"restarted-{number}-{seed}", chance, 2, 4)
        group.produced_until_s = at_s - 60
        before = dict(group.here)
        # The rebalance waits until all of them are back. Static members would keep their places.
        back = [process._replace(instance=None) for process in before.values()]
        group.change(at_s + chance.uniform(0, 8), leave=list(before), join=back)
        told.append(Told(group, ()))
    return told
