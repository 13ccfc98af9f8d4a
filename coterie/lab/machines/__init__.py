"""The machines of the lab by name."""

from collections.abc import Callable
from typing import Any, NamedTuple

from coterie.lab.environment import Environment
from coterie.lab.errors import WrongInput, closest
from coterie.lab.machine import Machine
from coterie.lab.machines import classic
from coterie.lab.machines.connect_worker import ConnectGroup, ConnectOptions
from coterie.lab.machines.consumer_group import ConsumerProtocolGroup
from coterie.lab.machines.old_consumer import ZooKeeperGroup
from coterie.lab.machines.rocketmq import RELEASE_4, RELEASE_5, RocketMqGroup
from coterie.lab.machines.rocketmq_ordered import OrderedGroup
from coterie.lab.machines.rocketmq_pop import PopGroup
from coterie.lab.machines.server_2015 import DraftGroup
from coterie.lab.machines.share_group import ShareMachine
from coterie.lab.machines.streams_group import StreamsMachine


class MachineSpec(NamedTuple):
    """A machine.

    Attributes:
        era: when it was the usual one.
        summary: what it is, in a line.
        make: makes it for a run.
        settings: its own defaults of the model.
        cost: how much longer a run takes than that of a classic group, roughly.
    """

    era: str
    summary: str
    make: Callable[[Environment], Machine]
    settings: dict[str, Any] = {}
    cost: int = 1


MACHINES: dict[str, MachineSpec] = {
    "zookeeper": MachineSpec(
        "Kafka 0.8, 2012 to 2015",
        "every member watches the others in ZooKeeper and computes its own share",
        ZooKeeperGroup,
        cost=4,
    ),
    "server-2015": MachineSpec(
        "Kafka trunk, 2015, never released",
        "the coordinator assigns; groups are in memory only",
        DraftGroup,
    ),
    "eager-0.9": MachineSpec(
        "Kafka 0.9, 2015",
        "classic group, range, heartbeats only inside poll",
        lambda environment: classic.ClassicGroup(environment, classic.EAGER_09, initial_delay_ms=0),
    ),
    "eager-0.10.1": MachineSpec(
        "Kafka 0.10.1 to 2.8",
        "classic group, range, heartbeat thread, session 10 s",
        lambda environment: classic.ClassicGroup(environment, classic.EAGER_0_10_1),
    ),
    "eager-3": MachineSpec(
        "Kafka 3.0 on",
        "classic group, range, session 45 s",
        lambda environment: classic.ClassicGroup(environment, classic.EAGER_3),
    ),
    "static": MachineSpec(
        "Kafka 2.3 on, KIP-345",
        "eager-3 with an instance id for each pod",
        lambda environment: classic.ClassicGroup(environment, classic.EAGER_3, static=True),
    ),
    "cooperative": MachineSpec(
        "Kafka 2.4 on, KIP-429",
        "classic group, cooperative-sticky: only what moves is given up",
        lambda environment: classic.ClassicGroup(environment, classic.COOPERATIVE_3),
    ),
    "consumer": MachineSpec(
        "Kafka 4.0 on, KIP-848",
        "the coordinator assigns; each member goes to its share by itself, heartbeat by heartbeat",
        ConsumerProtocolGroup,
    ),
    "share": MachineSpec(
        "Kafka 4.2 on, KIP-932",
        "members share partitions; each record is locked for one of them, and acknowledged",
        ShareMachine,
    ),
    "streams": MachineSpec(
        "Kafka Streams 4.2 on, KIP-1071",
        "the coordinator assigns the tasks of a topology; each member goes to its own by itself",
        StreamsMachine,
    ),
    "connect-eager": MachineSpec(
        "Kafka Connect 0.9 to 2.2",
        "workers that stop all tasks for each rebalance",
        lambda environment: ConnectGroup(environment, ConnectOptions(("default",))),
    ),
    "connect-2.3": MachineSpec(
        "Kafka Connect 2.3 to 3.3, KIP-415",
        "incremental workers with a delay for lost ones; never two revoking rounds in a row",
        lambda environment: ConnectGroup(
            environment, ConnectOptions(("compatible", "default"), backs_off=False)
        ),
    ),
    "connect": MachineSpec(
        "Kafka Connect 3.4 on",
        "incremental workers; revoking rounds in a row wait longer and longer",
        lambda environment: ConnectGroup(environment, ConnectOptions()),
    ),
    "rocketmq-4": MachineSpec(
        "RocketMQ 4",
        "every client computes its own share after a notice or 20 s",
        lambda environment: RocketMqGroup(environment, RELEASE_4),
        cost=10,
    ),
    "rocketmq-5": MachineSpec(
        "RocketMQ 5",
        "the same, at most once a second; a new queue is pulled after 500 ms",
        lambda environment: RocketMqGroup(environment, RELEASE_5),
        cost=3,
    ),
    "rocketmq-ordered": MachineSpec(
        "RocketMQ 5, ordered",
        "the same, and a client locks each queue at its broker before it consumes it",
        lambda environment: OrderedGroup(environment, RELEASE_5),
        cost=3,
    ),
    "rocketmq-pop": MachineSpec(
        "RocketMQ 5, POP",
        "the broker gives messages to any client: nothing to rebalance",
        PopGroup,
    ),
}
# Those whose group is at the coordinator of Coterie, which writes Kafka's records.
_HOSTED = ("eager", "static", "cooperative", "consumer", "share", "streams", "connect")
WITH_RECORDS = tuple(name for name in MACHINES if name.startswith(_HOSTED))


def machine_named(name: str) -> MachineSpec:
    """Return a machine.

    Raises:
        WrongInput: there is no machine of this name.
    """
    if name not in MACHINES:
        raise WrongInput(
            f"There is no machine '{name}'{closest(name, MACHINES)}."
            f" Machines: {', '.join(MACHINES)}."
        )
    return MACHINES[name]
