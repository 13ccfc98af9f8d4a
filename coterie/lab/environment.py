"""What the machines of a run share: time, network, pods, workload, ledger, parameters."""

from coterie.lab.kernel import MS, World
from coterie.lab.ledger import Ledger
from coterie.lab.links import Network
from coterie.lab.parameters import Parameters
from coterie.lab.pods import Pod
from coterie.lab.records import KeptRecords
from coterie.lab.workload import Workload


class Environment:
    """The surroundings of the members of a group.

    Attributes:
        world, network, workload, ledger, parameters: of the run.
        records: keeps the records of the group; None to keep none.
        pods: the pods by name, in the order in which they were added.
    """

    def __init__(
        self,
        seed: int,
        topics: int,
        partitions: int,
        parameters: Parameters,
        *,
        keep_trace: bool,
        keep_details: bool = False,
        records: KeptRecords | None = None,
    ) -> None:
        self.parameters = parameters
        self.world = World(seed, keep_trace=keep_trace, keep_details=keep_details)
        self.network = Network(self.world, parameters.latency_ms, parameters.latency_p99_ms)
        self.workload = Workload(seed, topics, partitions, parameters.rate, parameters.catch_up)
        self.ledger = Ledger(self.world, self.workload)
        self.pods: dict[str, Pod] = {}
        self.records = records

    def pod(self, name: str) -> Pod:
        """Return a pod, which is added if it is new."""
        found = self.pods.get(name)
        if found is None:
            found = self.pods[name] = Pod(self.world, name)
        return found

    def poll_wait_us(self, pod: Pod) -> int:
        """Return how long the application of a pod takes until it polls again."""
        busy_us = pod.busy_until_us - self.world.now_us
        if busy_us > 0:
            return busy_us
        gap_ms = self.parameters.poll_gap_ms
        if not gap_ms:
            return 0
        random = self.world.stream(f"application {pod.name}")
        return int(random.expovariate(1 / gap_ms) * MS)

    def callback_us(self, partitions: int) -> int:
        """Return how long a rebalance callback takes."""
        parameters = self.parameters
        milliseconds = parameters.callback_ms + parameters.callback_partition_ms * partitions
        return int(milliseconds * MS)
