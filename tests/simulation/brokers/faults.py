"""What goes wrong in a storm: brokers go and come, leaders and coordinators move, logs lose ends.

Each event is counted together with the state of every group and transaction that it concerns.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from coterie.protocol.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from coterie.server.broker import Broker
from coterie.server.cluster.image import NO_LEADER
from tests.simulation.brokers.records import TOPIC as RECORDS
from tests.simulation.transactions.producers import TOPIC as TRANSACTIONAL

if TYPE_CHECKING:
    from tests.simulation.brokers.world import World

_PAUSES_MS = (1, 300)
_DETECTIONS_MS = (30, 400, 1_500)
_PROPAGATIONS_MS = (0, 0, 30, 300)
# How often an event is aimed at what is in one of these states, which pass soon.
_AIMS = 0.5
_RARE = frozenset(
    {"PreparingRebalance", "CompletingRebalance", "Assigning", "PrepareCommit", "PrepareAbort"}
)

# The events that are counted with states.
EVENTS = ("move", "kill", "undetected kill", "stop", "pause", "detected pause", "restart")
CLASSIC_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
CONSUMER_STATES = ("Empty", "Assigning", "Reconciling", "Stable")
TRANSACTION_STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
)  # fmt: skip


def required_pairs() -> Iterator[str]:
    """Yield each pair of a state and an event, as it is counted."""
    states = {
        "classic": CLASSIC_STATES,
        "consumer": CONSUMER_STATES,
        "transaction": TRANSACTION_STATES,
    }
    for kind, names in states.items():
        for name in names:
            for event in EVENTS:
                yield _pair(kind, name, event)


def _pair(kind: str, state: str, event: str) -> str:
    return f"{kind} {state} x {event}"


def _states(broker: Broker) -> Iterator[tuple[str, str]]:
    """Yield what a broker coordinates: classic, consumer or transaction, and its state."""
    for group in broker.groups.coordinator.groups():
        yield group.group_type, group.state_name
    for shard in broker.transaction_runtime.coordinator.shards:
        for each in shard.transactions.values():
            yield "transaction", each.state.kafka_name


class Faults:
    """What happens to the brokers of a world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        # The storm that goes on; what belongs to an earlier one is over.
        self._storm = 0
        self._happens: dict[Callable[[], None], float] = {
            self._move_groups: 5,
            self._move_transactions: 4,
            self._move_leader: 4,
            self._kill: 2,
            self._kill_undetected: 2,
            self._stop: 2,
            self._start: 5,
            self._pause: 2,
            self._cut: 2 if world.cuts else 0,
            self._propagate: 1,
            self._restart: 1,
        }

    def begin(self) -> None:
        """Begin a storm."""
        self._storm += 1
        self._happen(self._storm)

    def end(self) -> None:
        """End the storm: all brokers run, and nobody is paused."""
        self._storm += 1
        world = self._world
        for node_id in world.gates:
            self._go_on(node_id)
        # A broker that stops is down a moment later.
        self._start_missing(self._storm)

    def _start_missing(self, storm: int) -> None:
        world = self._world
        if storm != self._storm:
            return
        for node_id in world.node_ids:
            if node_id not in world.cluster.brokers:
                world.note(f"start {node_id}")
                world.drive(world.cluster.start_broker(node_id))
        world.after(500, self._start_missing, storm)

    def _happen(self, storm: int) -> None:
        if storm != self._storm:
            return
        world = self._world
        happens, weights = zip(*self._happens.items(), strict=True)
        (happening,) = world.chance.choices(happens, weights)
        happening()
        world.after(world.chance.choice((0, 5, 50, 200, 600)), self._happen, storm)

    # --- what is concerned ------------------------------------------------------------------------

    def _some_live(self, *, aims: bool = False) -> Broker | None:
        """Return a broker that runs; if it is aimed at one, the one with the rarest states."""
        live, chance = list(self._world.cluster.brokers.values()), self._world.chance
        if not live:
            return None
        if aims and chance.random() < _AIMS:
            return max(live, key=lambda each: sum(state in _RARE for _, state in _states(each)))
        return chance.choice(live)

    def _noted(self, event: str, brokers: Iterable[Broker], text: object = "") -> None:
        """Count an event with all states at the brokers that it concerns."""
        self._world.note(f"{event} {text}")
        self._world.coverage[event] += 1
        for broker in brokers:
            for kind, state in _states(broker):
                self._world.coverage[_pair(kind, state, event)] += 1

    # --- leaders ----------------------------------------------------------------------------------

    def _move(self, topic: str) -> None:
        world, to = self._world, self._some_live()
        placed = world.cluster.leadership.image.placements.get(topic)
        if to is None or placed is None:
            return
        aimed_at = self._some_live(aims=True)
        led = [at for at, each in enumerate(placed) if aimed_at and each[0] == aimed_at.node_id]
        index = world.chance.choice(led or range(len(placed)))
        before = world.cluster.leadership.leader(topic, index)
        concerned = [each for each in world.cluster.brokers.values() if each is before]
        is_coordinated = topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC) and before is not to
        text = f"{topic}-{index} to {to.node_id}"
        self._noted("move", concerned if is_coordinated else (), text)
        if world.cluster.leadership.image.nodes[to.node_id].is_live:
            world.cluster.move(topic, index, to.node_id)

    def _move_groups(self) -> None:
        self._move(OFFSETS_TOPIC)

    def _move_transactions(self) -> None:
        self._move(TRANSACTIONS_TOPIC)

    def _move_leader(self) -> None:
        self._move(self._world.chance.choice((RECORDS, TRANSACTIONAL)))

    def _cut(self) -> None:
        world = self._world
        cluster = world.cluster
        index = world.chance.randrange(len(cluster.shared.topics.by_name[RECORDS].partitions))
        partition = cluster.shared.topics.by_name[RECORDS].partitions[index]
        where = cluster.leadership.image.placements[RECORDS][index]
        log = partition.opened_log
        if log is None or where.leader_id == NO_LEADER or not log.log_end_offset:
            return
        least = max(log.log_start_offset, log.log_end_offset - 4)
        offset = world.chance.randint(least, log.log_end_offset)
        self._noted("cut", (), f"{partition} to {offset}")
        world.drive(cluster.cut(RECORDS, index, offset))
        # Batches have one record, so nothing more is gone.
        world.ledger.cut(index, offset)
        world.checks.cut(index, offset)

    def _propagate(self) -> None:
        world = self._world
        delay_ms = world.chance.choice(_PROPAGATIONS_MS)
        self._noted("propagation", (), delay_ms)
        world.cluster.leadership.propagation_ms = delay_ms

    # --- brokers ----------------------------------------------------------------------------------

    def _kill(self, detect_ms: int = 0) -> None:
        broker = self._some_live(aims=True)
        if broker is not None:
            event = "undetected kill" if detect_ms else "kill"
            self._noted(event, [broker], f"{broker.node_id} for {detect_ms}")
            self._world.ended.append(broker)
            self._world.cluster.kill(broker.node_id, detect_ms)

    def _kill_undetected(self) -> None:
        self._kill(self._world.chance.choice(_DETECTIONS_MS))

    def _stop(self) -> None:
        broker = self._some_live(aims=True)
        if broker is not None and not self._world.gates[broker.node_id].is_closed:
            self._noted("stop", [broker], broker.node_id)
            self._world.ended.append(broker)
            self._world.drive(self._world.cluster.stop_broker(broker.node_id))

    def _start(self) -> None:
        world = self._world
        down = [each for each in world.node_ids if each not in world.cluster.brokers]
        if down:
            node_id = world.chance.choice(down)
            self._noted("start", (), node_id)
            world.drive(world.cluster.start_broker(node_id))

    def _pause(self) -> None:
        world, broker = self._world, self._some_live(aims=True)
        if broker is None or world.gates[broker.node_id].is_closed:
            return
        node_id = broker.node_id
        gate = world.gates[node_id]
        pause_ms = world.chance.choice(_PAUSES_MS) * world.chance.randint(1, 6)
        detect_ms = pause_ms // 2 if world.chance.random() < 0.5 else None
        event = "pause" if detect_ms is None else "detected pause"
        self._noted(event, [broker], f"{node_id} for {pause_ms}")
        gate.close()
        if detect_ms is not None:
            world.after(detect_ms, self._detect, node_id, gate)
        world.after(pause_ms, self._open, node_id, gate)

    def _detect(self, node_id: int, gate: object) -> None:
        world = self._world
        is_same = world.gates.get(node_id) is gate and world.gates[node_id].is_closed
        if is_same and node_id in world.cluster.brokers:
            world.note(f"detect {node_id}")
            world.cluster.detect(node_id)

    def _open(self, node_id: int, gate: object) -> None:
        if self._world.gates.get(node_id) is gate:
            self._go_on(node_id)

    def _go_on(self, node_id: int) -> None:
        """Let a broker go on that is paused."""
        world = self._world
        gate = world.gates[node_id]
        if gate.is_closed:
            world.note(f"go on {node_id}")
            gate.open()
            if node_id in world.cluster.brokers:
                world.cluster.rejoin(node_id)

    def _restart(self) -> None:
        """Kill all brokers at once, and start them again over what the disk has."""
        world = self._world
        brokers = list(world.cluster.brokers.values())
        self._noted("restart", brokers)
        world.ended += brokers
        world.cluster.brokers.clear()
        for broker in brokers:
            broker.break_off()
        world.cluster.shared.abandon()
        world.start_all()
