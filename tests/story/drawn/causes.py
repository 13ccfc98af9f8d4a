"""What can happen to a group, and what a reader should be told of it.

Each cause schedules what happens and writes into the ledger what it was. Causes of a group never
touch the same process, and they do not know of each other.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from coterie.coordinator.groups.config import ConsumerSettings
from coterie.lab.kernel import SECOND, World
from tests.story.drawn.broker import Broker
from tests.story.drawn.consumer_process import ConsumerProcess
from tests.story.drawn.process import COOPERATIVE, EAGER, Process
from tests.story.drawn.timed_process import Settings, TimedProcess

CONSUMER_SESSION_MS = ConsumerSettings().session_timeout_ms


class Truth(NamedTuple):
    """Something that a reader should be told, or may be told.

    Attributes:
        rule: the rule that tells it.
        group: the group; "" for findings across groups.
        subject: the identity that the finding names; None if any or none may be named.
        from_s, to_s: the time of the finding.
        is_required: whether it must be found; otherwise a finding of it is right, too.
        about: what happened, for the reader of a report.
    """

    rule: str
    group: str
    subject: str | None
    from_s: float
    to_s: float
    is_required: bool
    about: str


class DrawnGroup:
    """A group with its processes.

    Attributes:
        settings: what its processes have in common.
        speaks_consumer: whether new processes speak the consumer protocol.
        processes: those that run from the start.
        free: those of them to which no cause happens yet.
        ledger: the truth.
    """

    def __init__(
        self,
        broker: Broker,
        name: str,
        chance: Random,
        libraries: Random,
        *,
        log_only: bool,
        speaks_consumer: bool = False,
    ) -> None:
        self.broker, self.chance, self._libraries = broker, chance, libraries
        self.speaks_consumer = speaks_consumer
        self.settings = Settings(
            group=name,
            partitions=chance.choice((3, 6, 6, 12)),
            assignor=chance.choice((EAGER, COOPERATIVE)),
            session_ms=chance.choice((30_000, 45_000) if log_only else (10_000, 30_000, 45_000)),
            max_poll_ms=chance.choice((120_000, 180_000, 300_000)),
            gives_reasons=chance.random() < 0.6,
        )
        if speaks_consumer:
            self.settings = self.settings._replace(session_ms=CONSUMER_SESSION_MS)
        self._rejoins_anew = chance.random() < 0.6
        # Its processes use several libraries.
        self._is_mixed = libraries.random() < 0.3
        self.is_static = chance.random() < 0.25
        self._hosts = 0
        self.processes = [
            self.process(f"{name}-{number}") for number in range(chance.randrange(2, 6))
        ]
        self.free = list(self.processes)
        self.ledger: list[Truth] = []
        for number, each in enumerate(self.processes):
            self.at(1 + 3 * number + chance.random(), each.start)
        if self.settings.assignor == EAGER:
            self.tell("needless_moves", None, 0, 1e6, "range moves without need", required=False)

    @property
    def world(self) -> World:
        """The time."""
        return self.broker.world

    def process(self, client: str) -> TimedProcess:
        """Return a new process, on a host of its own."""
        self._hosts += 1
        return self.process_at(client, f"10.{len(self.settings.group) % 200}.0.{self._hosts}")

    def process_at(self, client: str, host: str) -> TimedProcess:
        """Return a new process that speaks what new processes of the group speak now."""
        instance = f"{client}-i" if self.is_static else None
        if self.speaks_consumer:
            return ConsumerProcess(self.broker, self.settings, client, host, instance)
        rejoins_anew = self._rejoins_anew
        if self._is_mixed:
            rejoins_anew = self._libraries.random() < 0.5
        return Process(
            self.broker, self.settings, client, host, instance, rejoins_anew=rejoins_anew
        )

    def take(self) -> TimedProcess | None:
        """Return a process to which nothing else happens; one that others survive."""
        return self.free.pop() if len(self.free) > 1 else None

    def at(self, at_s: float, call: Callable[..., None], *arguments: object) -> None:
        """Schedule a call."""
        self.world.at(round(at_s * SECOND), call, *arguments)

    def tell(
        self,
        rule: str,
        subject: str | None,
        from_s: float,
        to_s: float,
        about: str,
        *,
        required: bool = True,
    ) -> None:
        """Write the truth into the ledger."""
        truth = Truth(rule, self.settings.group, subject, from_s, to_s, required, about)
        self.ledger.append(truth)


Cause = Callable[[DrawnGroup, float], bool]


def expiry(group: DrawnGroup, at_s: float) -> bool:
    """A process is killed; often another one takes its place a minute later."""
    victim = group.take()
    if victim is None:
        return False
    group.at(at_s, victim.kill)
    session_s = group.settings.session_ms / 1000
    if group.chance.random() < 0.6:
        group.at(at_s + session_s + group.chance.uniform(20, 60), victim.start)
    group.tell("expired_member", victim.identity, at_s, at_s + session_s + 30, "killed")
    return True


def suspended(group: DrawnGroup, at_s: float) -> bool:
    """A machine is suspended for longer than the session, and continues."""
    victim = group.take()
    if victim is None:
        return False
    session_s = group.settings.session_ms / 1000
    pause_s = session_s + group.chance.uniform(10, 60)
    group.at(at_s, victim.pause, round(pause_s * SECOND))
    group.tell("expired_member", victim.identity, at_s, at_s + session_s + 30, "suspended")
    return True


def slow_batch(group: DrawnGroup, at_s: float) -> bool:
    """A batch takes longer than max.poll.interval.ms; then the member comes back."""
    victim = group.take()
    if victim is None or group.is_static:
        return False
    limit_s = group.settings.max_poll_ms / 1000
    group.at(at_s, victim.hang, round((limit_s + group.chance.uniform(10, 90)) * SECOND))
    group.tell("max_poll_exceeded", victim.identity, at_s, at_s + limit_s + 30, "polled too late")
    return True


def _up_and_down(
    group: DrawnGroup,
    client: str,
    at_s: float,
    times: int,
    up_s: Callable[[], float],
    down_s: Callable[[], float],
) -> tuple[str, float]:
    """Start and stop a new process several times.

    Args:
        group: its group.
        client: its client id.
        at_s: when it is started first.
        times: how often.
        up_s, down_s: draw how long it runs, and how long it is away.

    Returns:
        Its identity, and when the last time without it ends.
    """
    process = group.process(client)
    for _ in range(times):
        group.at(at_s, process.start)
        at_s += up_s()
        group.at(at_s, process.stop)
        at_s += down_s()
    return process.identity, at_s


def storm(group: DrawnGroup, at_s: float) -> bool:
    """A client comes and goes every minute or faster."""
    if group.is_static:
        return False
    chance = group.chance
    times = chance.randrange(6, 14)
    up_s, down_s = chance.uniform(8, 35), chance.uniform(4, 15)
    identity, end_s = _up_and_down(
        group, f"{group.settings.group}-flaky", at_s, times,
        lambda: up_s * chance.uniform(0.8, 1.2), lambda: down_s * chance.uniform(0.8, 1.2),
    )  # fmt: skip
    group.tell("rebalance_storm", identity, at_s, end_s, f"{times} times up and down")
    # A broker that is killed meanwhile leaves too few rebalances for a storm.
    group.tell("flapping_member", identity, at_s, end_s, "cut short", required=False)
    return True


def flapper(group: DrawnGroup, at_s: float) -> bool:
    """A client comes and goes every few minutes."""
    if group.is_static:
        return False
    chance = group.chance
    times = chance.randrange(3, 5)
    identity, end_s = _up_and_down(
        group, f"{group.settings.group}-restless", at_s, times,
        lambda: chance.uniform(80, 150), lambda: chance.uniform(150, 230),
    )  # fmt: skip
    group.tell("flapping_member", identity, at_s, end_s, f"{times} times up and down")
    # With what else happens in the group, its rebalances may be a storm.
    group.tell("rebalance_storm", identity, at_s, end_s, "flaps", required=False)
    return True


def deploy(group: DrawnGroup, at_s: float) -> bool:
    """All processes are restarted, one after the other, in place or on other hosts."""
    if len(group.free) < len(group.processes):
        return False
    group.free = []
    chance, now_s = group.chance, at_s
    moves = chance.random() < 0.5 and not group.is_static
    apart_s = chance.uniform(3, 25)
    for old in group.processes:
        group.at(now_s, old.stop)
        now_s += chance.uniform(3, 10)
        group.at(now_s, (group.process(old.client) if moves else old).start)
        now_s += apart_s
    group.tell("deployment", None, at_s, now_s, "deployed", required=False)
    if group.is_static:
        group.tell("static_restart", None, at_s, now_s, "static members deployed")
    return True


def static_restart(group: DrawnGroup, at_s: float) -> bool:
    """A static member restarts within its session."""
    victim = group.take()
    if victim is None or not group.is_static:
        return False
    group.at(at_s, victim.stop)
    group.at(at_s + group.chance.uniform(2, 6), victim.start)
    group.tell("static_restart", victim.identity, at_s, at_s + 10, "static member restarted")
    return True


def scale_out(group: DrawnGroup, at_s: float) -> bool:
    """More members join."""
    for number in range(group.chance.randrange(1, 4)):
        group.at(at_s, group.process(f"{group.settings.group}-more-{number}").start)
        at_s += group.chance.uniform(2, 30)
    return True


def scale_in(group: DrawnGroup, at_s: float) -> bool:
    """A member stops in order."""
    victim = group.take()
    if victim is None or group.is_static:
        return False
    group.at(at_s, victim.stop)
    return True


def handover(group: DrawnGroup, at_s: float) -> bool:
    """A member stops, and its successor joins some seconds later."""
    victim = group.take()
    if victim is None or group.is_static:
        return False
    group.at(at_s, victim.stop)
    successor = group.process(f"{group.settings.group}-next")
    group.at(at_s + group.chance.uniform(5, 25), successor.start)
    return True


def _migration(group: DrawnGroup, at_s: float, *, to_consumer: bool) -> bool:
    """All processes are stopped and started with another protocol, one after the other."""
    if len(group.free) < len(group.processes) or group.speaks_consumer == to_consumer:
        return False
    group.free, group.speaks_consumer = [], to_consumer
    now_s, apart_s = at_s, group.chance.uniform(3, 25)
    for old in group.processes:
        group.at(now_s, old.stop)
        now_s += group.chance.uniform(3, 10)
        group.at(now_s, group.process_at(old.client, old.host).start)
        now_s += apart_s
    group.tell("deployment", None, at_s, now_s, "migrated", required=False)
    group.tell("needless_moves", None, at_s, 1e6, "another assignor", required=False)
    if group.is_static:
        group.tell("static_restart", None, at_s, now_s, "migrated", required=False)
    return True


def upgrade(group: DrawnGroup, at_s: float) -> bool:
    """A classic group becomes a consumer group."""
    return _migration(group, at_s, to_consumer=True)


def downgrade(group: DrawnGroup, at_s: float) -> bool:
    """A consumer group becomes a classic group."""
    return _migration(group, at_s, to_consumer=False)


def nothing(group: DrawnGroup, at_s: float) -> bool:
    """Nothing happens."""
    return True


CAUSES: tuple[Cause, ...] = (
    expiry, expiry, suspended, slow_batch, storm, storm, flapper, deploy, static_restart,
    static_restart, scale_out, scale_in, handover, handover, nothing, nothing,
)  # fmt: skip

# What happens to a group whose members speak the consumer protocol, before or after it.
CONSUMER_CAUSES: tuple[Cause, ...] = (
    expiry, suspended, storm, flapper, deploy, static_restart, scale_out, scale_in, handover,
    upgrade, upgrade, downgrade, downgrade, nothing,
)  # fmt: skip
