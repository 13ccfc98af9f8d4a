"""One run of a seed: a cluster in virtual time, its clients, and what goes wrong.

Calms and storms follow each other. In a calm groups form and come to rest, and what must be so at
rest is checked (rest.py). In a storm brokers go and come, leaders and coordinators move, and
answers are lost. After every turn of the event loop the invariants of `Checks` hold.
"""

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from hashlib import sha256
from itertools import count
from random import Random
from typing import Any

from coterie.address import Address
from coterie.protocol.messages.incremental_alter_configs import (
    SET,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from coterie.server.broker import Broker
from coterie.server.brokers import Cluster, UnknownNode
from coterie.server.config.config import Config
from coterie.server.config.keys import GROUP_RESOURCE
from coterie.server.config.listeners import Listener
from coterie.server.data_place import IN_MEMORY
from coterie.server.shared_parts import SharedParts
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.testing.pausing import Gate
from tests.simulation.brokers.checks import Checks
from tests.simulation.brokers.classic_members import classic_life
from tests.simulation.brokers.clients import Ask, Client, Steps
from tests.simulation.brokers.consumer_members import consumer_life
from tests.simulation.brokers.deletions import group_deleter, topic_deleter
from tests.simulation.brokers.disk import Disk, LateEnvironment, Life
from tests.simulation.brokers.faults import Faults
from tests.simulation.brokers.ledger import Ledger
from tests.simulation.brokers.lines import Line
from tests.simulation.brokers.members import HASTY, RESTLESS, STATIC, STEADY, GroupInfo
from tests.simulation.brokers.offsets import OffsetsProducer, group_of
from tests.simulation.brokers.records import Follower, RoutedReader, producer
from tests.simulation.brokers.registers import reader, writer
from tests.simulation.brokers.rest import check_end, check_rest
from tests.simulation.checks.violation import require
from tests.simulation.transactions.producers import PARTITIONS
from tests.unit.server.cluster import serve_in_memory
from tests.unit.server.manual import COMMIT, NEVER
from tests.unit.server.manual_loop import START_MS, ManualLoop
from tests.unit.server.turns import turn_limit

TOPICS = ("records", "t")
TRANSACTIONAL_IDS = ("a", "b")
PRODUCERS_OF_AN_ID = 2
ROUNDS = 2
# Until all groups are formed.
FORMING_MS = 8_000
STORM_MS = 6_000
# All sessions and rebalances of restless groups, one after the other.
CALM_MS = 12_000
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "200",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "2000",
    "group.consumer.session.timeout.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "default.replication.factor": "3",
}
# More turns than this at one moment are an endless loop.
_MOST_TURNS = 5_000
# Nothing is measured here: turns of a loaded machine may take long.
_TURN_LIMIT_S = 60.0


class World:
    """One run.

    Attributes:
        settings, client_class: the settings of the brokers, and what clients are.
        chance: its only source of randomness.
        loop: virtual time.
        disk: how fast the disk is.
        cluster: the brokers.
        ended: the brokers that ran before.
        gates: what pauses a broker, by its id.
        node_ids: all brokers.
        flushes, cuts: whether acknowledged means synced, and whether the ends of logs are cut off.
        transactional_ids: the ids that are used.
        numbers: makes names different.
        is_calm: whether nothing goes wrong.
        checks, ledger: what is checked.
        groups: the groups with members.
        clients: the clients that run.
        coverage: how often things have occurred.
        trace: what clients were answered and what happened, as lines; empty if it is not kept.
    """

    settings = SETTINGS
    client_class: type[Client] = Client

    def __init__(self, seed: int, *, traces: bool = False) -> None:
        """Start the brokers of a seed, and its clients."""
        self.seed = seed
        self.chance = chance = Random(f"brokers {seed}")
        self.loop = ManualLoop()
        self.flushes = chance.random() < 0.5
        self.cuts = not self.flushes and chance.random() < 0.5
        self.is_calm = True
        self.disk = Disk(chance)
        self.checks = Checks(self.disk)
        self.ledger = Ledger(self.checks.leaders, self._shown)
        self.coverage: Counter[str] = Counter()
        self.trace: list[str] = []
        self._traces = traces
        self._digest = sha256()
        self._moments = count()
        self._processes = count()
        self.numbers = count()
        self._life: Life | None = None
        self._files = MemoryFileSystem()
        self.node_ids = list(range(1, 1 + chance.choice((3, 3, 4, 5))))
        self.ended: list[Broker] = []
        self.gates: dict[int, Gate] = {}
        self.transactional_ids = TRANSACTIONAL_IDS
        self.faults = self._make_faults()
        self.start_all()
        for name in TOPICS:
            self.cluster.any_broker.controller.create(name, PARTITIONS, {"segment.ms": "5000"})
        self.cluster.leadership.propagation_ms = chance.choice((0, 0, 30, 300))
        self._make_clients()

    def _make_faults(self) -> Faults:
        return Faults(self)

    def _make_clients(self) -> None:
        self.clients: list[Client] = []
        self.groups = [
            GroupInfo("steady-classic", 2, STEADY),
            GroupInfo("steady-consumer", 2, STEADY),
            GroupInfo("restless-classic", 3, RESTLESS),
            GroupInfo("hasty-classic", 2, HASTY),
            # It is empty now and then.
            GroupInfo("lonely-consumer", 1, RESTLESS),
        ]
        others = [
            GroupInfo("restless-consumer", 3, RESTLESS),
            GroupInfo("static-classic", 2, STATIC),
            GroupInfo("static-consumer", 2, STATIC),
            GroupInfo("restless-mixed", 3, RESTLESS),
        ]
        self.groups += self.chance.sample(others, 2)
        for group in self.groups:
            for number in range(group.size):
                name = f"{group.group_id}-{number}"
                self.join(name, self._lives(name, group))
            name = f"reader-{group.group_id}"
            self.join(name, reader(self, name, group.group_id))
        self.join("administrator", self._settings())
        self.join("deleted", group_deleter(self, "deleted"))
        self.join("short", topic_deleter(self, "short"))
        values = count()
        for name in ("writer-0", "writer-1"):
            self.join(name, writer(self, name, "register", values))
        for name in ("reader-0", "reader-1"):
            self.join(name, reader(self, name, "register"))
        for name in ("producer-0", "producer-1"):
            self.join(name, producer(self, name))
        self.followers = [Follower(index) for index in range(PARTITIONS)]
        for number, each in enumerate(self.followers):
            self.join(f"follower-{number}", each.steps(self, f"follower-{number}"))
        ids = [each for each in TRANSACTIONAL_IDS for _ in range(PRODUCERS_OF_AN_ID)]
        self.producers = [
            OffsetsProducer(self, number, name, Random(f"{self.seed} producer {number}"), values)
            for number, name in enumerate(ids)
        ]
        for name in TRANSACTIONAL_IDS:
            self.join(f"reader-{name}", reader(self, f"reader-{name}", group_of(name)))
        for number, made in enumerate(self.producers):
            self.join(f"transactions-{number}", made.steps())
        self.reader = RoutedReader()
        self.join("committed", self.reader.routed_steps(self))

    def _lives(self, name: str, group: GroupInfo) -> Steps:
        """Be a member of a group again and again."""
        before: Any = None
        while True:
            is_classic = group.group_id.endswith("classic")
            if group.is_mixed:
                is_classic = self.chance.random() < 0.5
            life = classic_life if is_classic else consumer_life
            before = yield from life(self, name, group, before)
            group.settled.pop(name, None)
            yield self.chance.randint(1, group.mood.away_ms)

    def _settings(self) -> Steps:
        """Give the consumer groups that stay a session that outlives a storm."""
        setting = IncrementalAlterConfigsRequestConfig(
            name="consumer.session.timeout.ms", config_operation=SET, value="60000"
        )
        resources = [
            IncrementalAlterConfigsRequestResource(
                resource_type=GROUP_RESOURCE, resource_name=group_id, configs=[setting]
            )
            for group_id in ("steady-consumer", "static-consumer")
        ]
        request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
        while (answer := (yield Ask(request, 1))) is None:
            yield None
        assert not answer.responses[0].error_code, answer
        while True:
            yield 10_000

    def join(self, name: str, steps: Iterator[Any]) -> Client:
        """Let a client begin."""
        client = self.client_class(self, name, steps)
        self.clients.append(client)
        return client

    # --- for clients ------------------------------------------------------------------------------

    @property
    def now_ms(self) -> float:
        """The virtual time."""
        return self.loop.now_ms

    def moment(self) -> int:
        """Return a number that grows with each call: the order of what clients do."""
        return next(self._moments)

    def after(self, delay_ms: float, call: Callable[..., object], *args: object) -> None:
        """Schedule a call."""
        self.loop.call_later(delay_ms / 1000, call, *args)

    def pause_ms(self) -> int:
        """Return how long a client does nothing."""
        if self.is_calm:
            return self.chance.randint(100, 800)
        return self.chance.choice((0, 5, 30, 100, 300))

    def heartbeat_ms(self) -> int:
        """Return the time until a member sends its next heartbeat."""
        return self.chance.randint(200, 700)

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic."""
        return self.cluster.shared.topics.by_name[name].topic_id

    def connect(self, name: str, node_id: int) -> Line | None:
        """Connect a client with a broker; return None if it does not run."""
        broker = self.cluster.brokers.get(node_id)
        return None if broker is None else Line(self.loop, self.chance, broker, name)

    def answered(self, name: str, node_id: int, request: Any, version: int, message: Any) -> None:
        """Note an answer that has arrived."""
        errors = self.ledger.answered(message)
        what = f"{type(request).__name__} v{version}"
        self.note(f"{name} {what} at {node_id}: {errors} {message if self._traces else ''}")

    def _shown(self, group_id: str, offset: int) -> None:
        self.checks.shown(group_id, offset, flushes=self.flushes)

    # --- the brokers ------------------------------------------------------------------------------

    def start_all(self) -> None:
        """Start all brokers, over what the disk has."""
        if self._life is not None:
            self._life.is_over = True
            self.checks.restarted()
        self._life = life = Life(self.loop)
        seed = self.seed * 1000 + next(self._processes)
        shared = SharedParts(
            Config(dict(self.settings)),
            IN_MEMORY,
            LateEnvironment(life, seed, self.disk),
            flush=COMMIT if self.flushes else NEVER,
            filesystem=self._files,
            brokers=len(self.node_ids),
        )
        self.cluster = Cluster(shared, serve=serve_in_memory, prepare=self._prepare)
        listeners = {each: [Listener(Address("127.0.0.1", 9000 + each))] for each in self.node_ids}
        self.drive(self.cluster.start(listeners))

    def _prepare(self, broker: Broker) -> None:
        self.gates[broker.node_id] = Gate(broker)

    def drive(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine, in turns of the loop; one that asks for what cannot be ends."""
        try:
            awaited = work.send(None)
        except (StopIteration, UnknownNode):
            return
        if awaited is None:
            self.loop.call_soon(self.drive, work)
        else:
            awaited.add_done_callback(lambda _: self.drive(work))

    # --- the run ----------------------------------------------------------------------------------

    def run(self, rounds: int = ROUNDS) -> None:
        """Run calms and storms.

        Raises:
            Violation: something does not hold. Exceptions of the product are passed on.
        """
        with turn_limit(_TURN_LIMIT_S):
            self._calm(FORMING_MS)
            for _ in range(rounds):
                for group in self.groups:
                    if group.steady:
                        group.kept = dict(group.settled)
                self.is_calm = False
                self.faults.begin()
                self.run_for(STORM_MS)
                self.faults.end()
                self._calm(CALM_MS)
            check_end(self)

    def _calm(self, milliseconds: int) -> None:
        self.is_calm = True
        self.run_for(milliseconds)
        check_rest(self)

    def run_for(self, milliseconds: int) -> None:
        """Let time pass, and check everything after each turn."""
        end_ms = self.now_ms + milliseconds
        before_ms, turns = self.now_ms, 0
        while self.loop.step(end_ms):
            self.checked()
            turns = turns + 1 if self.now_ms == before_ms else 0
            before_ms = self.now_ms
            require(turns < _MOST_TURNS, "endless-loop", f"turns at {before_ms} do not end")

    def checked(self) -> None:
        """Check what holds after each turn."""
        self.checks.run(self.cluster, self.ended)

    # --- what it was ------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        line = f"{self.now_ms - START_MS:.0f} {text}"
        self._digest.update(line.encode())
        if self._traces:
            self.trace.append(line)

    @property
    def digest(self) -> str:
        """The digest of the trace."""
        return self._digest.hexdigest()[:16]


def run_world(seed: int) -> None:
    """Run the world of a seed."""
    World(seed).run()
