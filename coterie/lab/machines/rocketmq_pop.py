"""RocketMQ 5 with POP: the broker gives single messages to any client, so nothing is rebalanced.

No client owns a queue: as long as one client runs, all queues are read. What a client had in hand
when it died, or for too long, becomes visible again after the invisible time.
"""

from collections.abc import Iterable

from coterie.assignors.model import TopicPartition
from coterie.lab.environment import Environment
from coterie.lab.kernel import MS
from coterie.lab.machine import Machine
from coterie.lab.pods import Participant, Pod

# The one that reads all queues in the ledger.
ALL = "all clients"
_POLL_US = 1_000 * MS


class PopGroup(Machine):
    """Clients that pop.

    Attributes:
        clients: those that run, by identity.
        offsets: where reading goes on after a time without clients.
    """

    shared = True
    # As for push consumers.
    deliveries = 17

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.clients: dict[str, Pod] = {}
        self.offsets: dict[TopicPartition, int] = {}

    def participant(self, pod: Pod) -> Participant:
        """Return a client."""
        return PopClient(self, pod)

    def servers(self) -> list[str]:
        """Return the broker."""
        return ["broker-0"]

    def learns_after_us(self, _pod: Pod) -> int:
        """Return 0: clients pop from brokers, which know their queues."""
        return 0

    def broker_dies(self, down_us: int) -> int:
        """Let the queues of the broker wait until it is back."""
        return down_us

    def read(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin to read queues, unless that has begun."""
        ledger = self.environment.ledger
        for partition in partitions:
            if ledger.position(ALL, partition) is None:
                ledger.start(ALL, partition, self.offsets.get(partition, 0))

    def process_died(self, pod: Pod) -> None:
        """What the client had in hand is delivered again."""
        if pod.identity in self.clients:
            self.redeliver(1.0)
            self.remove(pod.identity)

    def redeliver(self, batches: float) -> None:
        """Deliver what a client had in hand once more, after the invisible time."""
        workload, parameters = self.environment.workload, self.environment.parameters
        arriving = workload.rate * len(workload.partitions) / max(1, len(self.clients))
        in_hand = round(batches * arriving * parameters.poll_gap_ms / 1_000)
        self.environment.world.after(parameters.invisible_ms * MS, self._again, in_hand)

    def _again(self, messages: int) -> None:
        self.environment.ledger.count.duplicates += messages
        self.environment.ledger.count.delivered += messages

    def add(self, pod: Pod) -> None:
        """Let a client pop; the first one begins to read all queues."""
        self.clients[pod.identity] = pod
        self.environment.ledger.membership(sorted(self.clients))
        if len(self.clients) == 1:
            self.read(self.environment.workload.partitions)

    def remove(self, identity: str) -> None:
        """Let a client pop no more; without the last one nothing is read."""
        del self.clients[identity]
        if self.clients:
            return
        ledger = self.environment.ledger
        for partition in self.environment.workload.partitions:
            self.offsets[partition] = ledger.position(ALL, partition) or 0
            ledger.stop(ALL, partition)


class PopClient:
    """A client in a pod."""

    def __init__(self, group: PopGroup, pod: Pod) -> None:
        self.environment = group.environment
        self.pod = pod
        self._group = group
        self._popped_us = 0

    def reading(self) -> set[TopicPartition]:
        """Return nothing: no client has queues of its own."""
        return set()

    def slow_poll(self, duration_us: int) -> None:
        """Hold a batch for longer than its invisible time: it is delivered to another client."""
        if duration_us > self.environment.parameters.invisible_ms * MS:
            self._group.redeliver(1.0)

    def topic_grew(self) -> None:
        """Pop from the new queues, too."""
        if self._group.clients:
            self._group.read(self.environment.workload.partitions)

    def start(self) -> None:
        """Pop."""
        self.pod.after(int(self.environment.parameters.start_ms * MS), self._register)

    def _register(self) -> None:
        self._group.add(self.pod)
        self._popped_us = self.environment.world.now_us
        self._pop()

    def close(self) -> None:
        """Finish what is in hand, and exit."""
        self.pod.after(self.environment.poll_wait_us(self.pod), self._close)

    def _close(self) -> None:
        if self.pod.identity in self._group.clients:
            self._group.remove(self.pod.identity)
        self.pod.exit()

    def _pop(self) -> None:
        """Pop and acknowledge."""
        now_us = self.environment.world.now_us
        if now_us - self._popped_us > self.environment.parameters.invisible_ms * MS:
            self._group.redeliver(1.0)
        self._popped_us = now_us
        traffic = self.environment.network.traffic
        traffic.count("POP_MESSAGE", 200, estimated=True)
        traffic.count("ACK_MESSAGE", 100, estimated=True)
        self.pod.after(_POLL_US, self._pop)
