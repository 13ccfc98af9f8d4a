"""What goes wrong in a storm: brokers go and come, leaders and coordinators move, logs lose ends.

Each event is counted together with the state of every group and transaction that it concerns. What
passes soon would meet few events by chance: when a client begins such a thing, an event may strike
the broker that coordinates it.
"""

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING, TypeVar

from coterie.protocol.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from coterie.server.broker import Broker
from coterie.server.cluster.image import NO_LEADER, CoordinatorType
from tests.simulation.brokers.clients import Place
from tests.simulation.brokers.pairs import IN_FLIGHT, Led, pair, states_of
from tests.simulation.brokers.records import TOPIC as RECORDS
from tests.simulation.transactions.producers import TOPIC as TRANSACTIONAL

if TYPE_CHECKING:
    from tests.simulation.brokers.world import World

# An event.
_E = TypeVar("_E")

_PAUSES_MS = (1, 300)
_DETECTIONS_MS = (30, 400, 1_500)
_PROPAGATIONS_MS = (0, 0, 30, 300)
# After what time the next event comes.
_EVENTS_AFTER_MS = (0, 5, 50, 200, 600, 1_500)
# After what time an event strikes what passes soon.
_STRIKES_AFTER_MS = (0, 0, 1, 2, 5, 40, 300)
# How often an event is aimed at what is in one of these states, which pass soon.
_AIMS = 0.5
_RARE = frozenset(
    {"PreparingRebalance", "CompletingRebalance", "Assigning", "PrepareCommit", "PrepareAbort"}
)

# What happens to a broker; a move concerns one partition, which may be chosen already.
_HappensTo = Callable[[Broker, Led | None], None]


def _drawn(chance: Random, weights: dict[_E, float]) -> _E:
    """Return one of some events, by their weights."""
    (event,) = chance.choices(list(weights), list(weights.values()))
    return event


class Faults:
    """What happens to the brokers of a world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        # The storm that goes on; what belongs to an earlier one is over.
        self._storm = 0
        # What happens to the cluster, or to one of its brokers, and how often.
        self._happens: dict[Callable[[], None], float] = {
            self._move_leader: 4,
            self._start: 5,
            self._cut: 2 if world.cuts else 0,
            self._propagate: 1,
        }
        self._happens_to: dict[_HappensTo, float] = {
            self._move_groups: 5,
            self._move_transactions: 4,
            self._kill: 2,
            self._kill_undetected: 2,
            self._stop: 2,
            self._pause: 2,
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
        at_all, at_one = sum(self._happens.values()), sum(self._happens_to.values())
        if self._few_run():
            self._start()
        elif world.chance.random() * (at_all + at_one) < at_all:
            _drawn(world.chance, self._happens)()
        elif (broker := self._some_live()) is not None:
            _drawn(world.chance, self._happens_to)(broker, None)
        world.after(world.chance.choice(_EVENTS_AFTER_MS), self._happen, storm)

    # --- what is concerned ------------------------------------------------------------------------

    def _some_live(self) -> Broker | None:
        """Return a broker that runs; it may be aimed at the one with the rarest states."""
        live, chance = list(self._world.cluster.brokers.values()), self._world.chance
        if not live:
            return None
        if chance.random() < _AIMS:
            return max(live, key=lambda each: sum(state in _RARE for _, state in states_of(each)))
        return chance.choice(live)

    def _few_run(self) -> bool:
        """Whether most brokers are down, so that little else happens until one is started."""
        return len(self._world.cluster.brokers) * 2 < len(self._world.node_ids)

    def strike(self, node_id: int, place: Place | None, share: float) -> None:
        """Let an event strike a broker now and then, because something begins that passes soon.

        Args:
            node_id: the broker.
            place: what it coordinates, which may move.
            share: how often.
        """
        world = self._world
        if share and not world.is_calm and world.chance.random() < share:
            delay_ms = world.chance.choice(_STRIKES_AFTER_MS)
            world.after(delay_ms, self._strike, self._storm, node_id, place)

    def _strike(self, storm: int, node_id: int, place: Place | None) -> None:
        world = self._world
        broker = world.cluster.brokers.get(node_id)
        if storm != self._storm or broker is None or self._few_run():
            return
        happens: list[_HappensTo] = [
            self._kill,
            self._kill_undetected,
            self._stop,
            self._pause,
            self._restart,
        ]
        led = None
        if place is not None and isinstance(place[0], CoordinatorType):
            image = world.cluster.leadership.image
            led = Led.at(image.coordinator_partition(place[0], str(place[1])))
            is_group = place[0] is CoordinatorType.GROUP
            happens.append(self._move_groups if is_group else self._move_transactions)
        world.chance.choice(happens)(broker, led)

    def _noted(
        self, event: str, brokers: Iterable[Broker], text: object = "", of: Led | None = None
    ) -> None:
        """Count an event with all states at the brokers, or of the partition, that it concerns."""
        self._world.note(f"{event} {text}")
        self._world.coverage[event] += 1
        for broker in brokers:
            for kind, state in (*states_of(broker, of), *self._of_clients(broker)):
                self._world.coverage[pair(kind, state, event)] += 1

    def _of_clients(self, broker: Broker) -> Iterator[tuple[str, str]]:
        """Yield what clients know: requests without an answer, and members that are away."""
        coordinator = broker.groups.coordinator
        for group in self._world.groups:
            live = coordinator.group(group.group_id) if group.away else None
            if live is not None:
                yield live.group_type, "member away"
        for client in self._world.clients:
            if client.asked == broker.node_id and isinstance(client.waits, IN_FLIGHT):
                yield "request", type(client.waits).__name__

    # --- leaders ----------------------------------------------------------------------------------

    def _move(self, topic: str, before: Broker | None, led: Led | None) -> None:
        """Let another broker lead a partition: this one, one of those that a broker leads, or any.

        Args:
            topic: the topic.
            before: the broker.
            led: the partition, if it is chosen already.
        """
        world, chance = self._world, self._world.chance
        placed = world.cluster.leadership.image.placements.get(topic)
        if not placed or not world.cluster.brokers:
            return
        to = chance.choice(list(world.cluster.brokers.values()))
        if led is None:
            own = [at for at, each in enumerate(placed) if before and each[0] == before.node_id]
            led = Led(topic, chance.choice(own or range(len(placed))))
        leader = world.cluster.brokers.get(placed[led.partition].leader_id)
        is_coordinated = topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
        concerned = [leader] if is_coordinated and leader not in (None, to) else []
        self._noted("move", concerned, f"{topic}-{led.partition} to {to.node_id}", led)
        if world.cluster.leadership.image.nodes[to.node_id].is_live:
            world.cluster.move(topic, led.partition, to.node_id)

    def _move_groups(self, broker: Broker, led: Led | None) -> None:
        self._move(OFFSETS_TOPIC, broker, led)

    def _move_transactions(self, broker: Broker, led: Led | None) -> None:
        self._move(TRANSACTIONS_TOPIC, broker, led)

    def _move_leader(self) -> None:
        self._move(self._world.chance.choice((RECORDS, TRANSACTIONAL)), None, None)

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

    def _kill(self, broker: Broker, _: Led | None, detect_ms: int = 0) -> None:
        event = "undetected kill" if detect_ms else "kill"
        self._noted(event, [broker], f"{broker.node_id} for {detect_ms}")
        self._world.ended.append(broker)
        self._world.cluster.kill(broker.node_id, detect_ms)

    def _kill_undetected(self, broker: Broker, led: Led | None) -> None:
        self._kill(broker, led, self._world.chance.choice(_DETECTIONS_MS))

    def _stop(self, broker: Broker, _: Led | None) -> None:
        if not self._world.gates[broker.node_id].is_closed:
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

    def _pause(self, broker: Broker, _: Led | None) -> None:
        world, node_id = self._world, broker.node_id
        gate = world.gates[node_id]
        if gate.is_closed:
            return
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

    def _restart(self, *_: object) -> None:
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
