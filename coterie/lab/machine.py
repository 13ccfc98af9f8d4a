"""What every machine offers to a run."""

from coterie.lab.environment import Environment
from coterie.lab.kernel import MS
from coterie.lab.pods import Participant, Pod


class Machine:
    """A protocol: its servers, and a client for each pod.

    A method about a fault that the protocol has no part for does nothing.

    Attributes:
        environment: the surroundings.
        shared: whether partitions have no readers of their own.
        deliveries: how often a record is delivered at most that no application can process; 0 for
            no limit, so that nothing behind it in its partition is read.
        keeps_identity: whether a new process of a pod is the same member.
        may_double: whether partitions may have two readers without any fault.
        restless: whether it may never come to rest without any fault.
        doubling: the faults after which partitions may have two readers.
    """

    may_double = False
    restless = False
    doubling = frozenset({"pause", "cut", "slow_poll"})
    shared = False
    deliveries = 0
    keeps_identity = False

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    def participant(self, pod: Pod) -> Participant:
        """Return the client of a new process."""
        raise NotImplementedError

    def leader(self) -> str | None:
        """Return the name of the pod that leads; by default the first one that runs."""
        running = (pod.name for pod in self.environment.pods.values() if pod.running)
        return min(running, default=None)

    def process_died(self, pod: Pod) -> None:
        """Note that a process has ended without a word; its connections are closed."""

    def process_paused(self, pod: Pod) -> None:
        """Note that a process stands still."""

    def servers(self) -> list[str]:
        """Return the endpoints that coordinate."""
        return ["coordinator"]

    def coordinator_moves(self, down_us: int) -> None:
        """Take the coordinator away and bring it back elsewhere with what is durable."""

    def topic_grew(self) -> None:
        """Let each client learn, after a while, that the topics have more partitions."""
        for pod in self.environment.pods.values():
            if pod.running:
                pod.after(self.learns_after_us(pod), pod.participant.topic_grew)

    def learns_after_us(self, pod: Pod) -> int:
        """Return after which time a client learns that its topics have changed."""
        random = self.environment.world.stream(f"metadata {pod.name}")
        return int(random.uniform(0, self.environment.parameters.metadata_age_ms) * MS)

    def broker_dies(self, down_us: int) -> int:
        """Take the broker away that coordinates and has a part of the partitions.

        Returns:
            For how long these partitions have no broker.
        """
        failover_us = min(down_us, self.environment.parameters.failover_ms * MS)
        self.coordinator_moves(failover_us)
        return failover_us

    def server_slow(self, factor: float) -> None:
        """Make the answers of the servers slower by a factor; 1 ends it."""
        environment = self.environment
        for server in self.servers():
            environment.network.slow[server] = factor

    def follower_lags(self, lag_us: int) -> None:
        """Let the followers of an ensemble lag more."""

    def notices_lost(self, share: float) -> None:
        """Let a share of the notices of the servers get lost."""

    def check(self) -> None:
        """Check what must hold at the end of a run.

        Raises:
            Violation: it does not hold.
        """

    def load_max_us(self) -> int:
        """Return the longest time that a request waited at a server."""
        return 0
