"""What the control port adds to a cluster of a test: its state as a whole, and what needs data.

Everything else that the port can do are methods of `coterie.testing.Cluster` themselves.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from coterie.control.process_control import ProcessControl
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.elect_leaders import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    ElectLeadersRequestTopic,
    ElectLeadersResponse,
)
from coterie.server.broker import Broker as Server
from coterie.server.brokers import Cluster as Brokers
from coterie.server.cluster.image import NO_LEADER
from coterie.testing.bounds import check
from coterie.testing.cluster import Cluster
from coterie.testing.errors import WrongUse
from coterie.testing.loopback import ask
from coterie.testing.members import Partition
from coterie.testing.waiting import Waiting

T = TypeVar("T")

_RUNNING, _PAUSED, _DOWN = "running", "paused", "down"


class ClusterReady(NamedTuple):
    """A cluster that runs.

    Attributes:
        bootstrap_servers: the addresses of all brokers, as host:port,host:port.
    """

    bootstrap_servers: str


class BrokerPlace(NamedTuple):
    """A broker of a cluster.

    Attributes:
        node_id: its id.
        address: where clients connect, as host:port.
        state: running, paused or down.
        is_live: whether the others take it for alive; they learn of an end after `detect_ms`.
        leads: the partitions that it leads, by topic.
        groups: the groups that it coordinates, sorted.
        transactional_ids: those whose transactions it coordinates, sorted.
    """

    node_id: int
    address: str
    state: str
    is_live: bool
    leads: dict[str, list[int]]
    groups: list[str]
    transactional_ids: list[str]

    @property
    def is_running(self) -> bool:
        """Whether it runs, paused or not."""
        return self.state != _DOWN

    @property
    def is_paused(self) -> bool:
        """Whether it is silent."""
        return self.state == _PAUSED


class ClusterState(NamedTuple):
    """A cluster, as it is now.

    Attributes:
        controller_id: the broker that clients send changes to.
        metadata_delay_ms: how much later clients are shown changes.
        brokers: all brokers, by their ids; also those that are down.
        leaderless: the partitions that nothing leads, by topic.
    """

    controller_id: int
    metadata_delay_ms: int
    brokers: list[BrokerPlace]
    leaderless: dict[str, list[int]]


class ClusterControl(ProcessControl):
    """A cluster under control.

    Attributes:
        kafka: the cluster.
    """

    def __init__(self, kafka: Cluster) -> None:
        """Control a cluster that was started."""
        super().__init__(kafka)
        self.kafka = kafka

    def ready(self) -> ClusterReady:
        """Return whether the cluster runs, and where.

        Raises:
            BrokerNotStarted: it does not, because it was closed.
        """
        return ClusterReady(self.kafka.bootstrap_servers)

    def state(self) -> ClusterState:
        """Return which brokers run, and what each leads and coordinates."""
        paused = self.kafka.paused_brokers
        return self._call(lambda brokers: _state_of(brokers, paused, self.kafka.address))

    # --- brokers ----------------------------------------------------------------------------------

    def restart(self) -> Waiting[None]:
        """Stop all brokers in order and start them again, with their data and at their addresses.

        Those that were down run, too.
        """
        return self.kafka.restart()

    def start(self, node_id: int) -> Waiting[None]:
        """Start a broker that was killed or stopped, at its address.

        It is in sync at once, and leads what nothing else leads.

        Args:
            node_id: the broker.

        Raises:
            WrongUse: the broker runs, or there is no such broker.
        """
        return self.kafka.start(node_id)

    def elect(
        self, topic: str | None = None, partition: int | None = None, *, unclean: bool = False
    ) -> Waiting[dict[Partition, int]]:
        """Let the first replicas lead again, as kafka-leader-election does; return who leads now.

        Args:
            topic: the topic; by default all.
            partition: its partition; by default all that need an election.
            unclean: let any live replica lead what nothing leads, instead of the first one.

        Raises:
            WrongUse: this partition needs no election, or its replica is down.
        """
        check(partition=partition)
        if partition is not None and topic is None:
            raise WrongUse("name the topic of the partition")

        brokers = self.kafka.server_cluster

        async def work() -> dict[Partition, int]:
            named = None if topic is None else [_named(brokers, topic, partition)]
            request = ElectLeadersRequest(
                election_type=UNCLEAN if unclean else PREFERRED, topic_partitions=named
            )
            response = await ask(brokers.any_broker, request, ElectLeadersResponse)
            elected: dict[Partition, int] = {}
            for each in response.replica_election_results:
                for result in each.partition_result:
                    key = each.topic, result.partition_id
                    where = brokers.leadership.image.placed(*key)
                    if not result.error_code and where is not None:
                        elected[key] = where.leader_id
                    elif partition is not None:
                        error = ErrorCode(result.error_code).name
                        text = f"the election is refused: {error}: {result.error_message}"
                        raise WrongUse(text)
            return elected

        return Waiting(self.kafka.thread, work())

    # --- in the thread ----------------------------------------------------------------------------

    def _call(self, function: Callable[[Brokers], T]) -> T:
        brokers = self.kafka.server_cluster
        return self.kafka.thread.call(lambda: function(brokers))


def _named(brokers: Brokers, topic: str, partition: int | None) -> ElectLeadersRequestTopic:
    """Return a topic of an election, with one partition or all."""
    found = brokers.shared.topics.find(topic)
    if found is None:
        raise WrongUse(f"there is no topic '{topic}'")
    indices: Iterable[int] = range(len(found.partitions)) if partition is None else [partition]
    return ElectLeadersRequestTopic(topic=topic, partitions=list(indices))


def _state_of(
    brokers: Brokers, paused: Sequence[int], address_of: Callable[[int], str]
) -> ClusterState:
    image, places = brokers.leadership.image, []
    leads = _leads(brokers)
    for node_id, node in image.nodes.items():
        server = brokers.brokers.get(node_id)
        places.append(
            BrokerPlace(
                node_id,
                address_of(node_id),
                _DOWN if server is None else _PAUSED if node_id in paused else _RUNNING,
                node.is_live,
                leads.get(node_id, {}),
                [] if server is None else _group_ids(server),
                [] if server is None else _transactional_ids(server),
            )
        )
    delay_ms = brokers.leadership.propagation_ms
    return ClusterState(image.controller_id, delay_ms, places, leads.get(NO_LEADER, {}))


def _leads(brokers: Brokers) -> Mapping[int, dict[str, list[int]]]:
    """Return the partitions that each broker leads, by topic."""
    found: dict[int, dict[str, list[int]]] = {}
    for topic, placed in sorted(brokers.leadership.image.placements.items()):
        for index, where in enumerate(placed):
            found.setdefault(where.leader_id, {}).setdefault(topic, []).append(index)
    return found


def _group_ids(server: Server) -> list[str]:
    return sorted(group.group_id for group in server.coordinator.groups())


def _transactional_ids(server: Server) -> list[str]:
    shards = server.transaction_runtime.coordinator.shards
    return sorted(each for shard in shards for each in shard.transactions)
