"""One run: clients of several libraries work while leaders and coordinators move and brokers die.

Checked at the end: every acknowledged record is in its place, once; all answers about committed
offsets of a group have one order in real time; no member was given partitions a second time.
"""

import itertools
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple

from coterie.testing import Cluster
from tests.failover.libraries import ERRORS, LIBRARIES, Library, Register
from tests.histories.register import Kind, Operation, contradiction
from tests.live.deadlines import eventually
from tests.live.records import read_partition
from tests.soak.ledger import Ledger

TOPIC = "orders"
REGISTER = ("registers", 0)
PARTITIONS = 6
# Between two calls of a client, for each library: more libraries make no more load.
_PAUSE_S = 0.0015
_READS_OF_A_CLIENT = 20
_JOIN_LIMIT_S = 90.0


class Plan(NamedTuple):
    """What happens to the cluster.

    Attributes:
        moves: how many leaders and coordinators move.
        kills: how many brokers are killed, and started again.
        pause_s: the time from one move to the next, with what the move takes.
        seed: of the choices.
    """

    moves: int
    kills: int
    pause_s: float = 0.02
    seed: int = 0


class Run:
    """A run against one cluster.

    Attributes:
        ledger: what was acknowledged, and what contradicts it.
        histories: the operations on the register of each library.
        gaps_s: of each library, the longest time between two acknowledged commits.
    """

    def __init__(
        self, cluster: Cluster, plan: Plan, libraries: Sequence[Library] = LIBRARIES
    ) -> None:
        """Prepare a run; the cluster is started and has the topics."""
        self.ledger = Ledger()
        self.histories: dict[str, list[Operation]] = {each.name: [] for each in libraries}
        self.gaps_s: dict[str, float] = {}
        self._cluster = cluster
        self._plan = plan
        self._libraries = libraries
        self._pause_s = _PAUSE_S * len(libraries)
        self._began_s = time.monotonic()
        self._bootstrap = cluster.bootstrap_servers
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._assigned: dict[str, int] = {}
        # The next offset to commit, for all that write to one register.
        self._values = {each.name: itertools.count() for each in self._libraries}
        self._choose = random.Random(plan.seed)

    def carry_out(self) -> None:
        """Let the clients work, carry out the plan, and check everything."""
        with self._clients():
            eventually(
                lambda: len(self._assigned) == len(self._libraries),
                "all members have partitions",
                evidence=lambda: dict(self._assigned),
            )
            before = dict(self._assigned)
            self._carry_out_plan()
            # What was held up goes on, so the end of the run is not the end of a fault.
            time.sleep(1)
        again = [
            each.name
            for each in self._libraries
            if self._assigned[each.name] != before[each.name] and not each.rejoins
        ]
        if again:
            self.ledger.violated(f"members were assigned again: {', '.join(again)}")
        self._read_back()
        for name, history in self.histories.items():
            found = contradiction(history)
            if found is not None:
                self.ledger.violated(f"{name}: {found}")
            self.gaps_s[name] = _longest_gap_s(history)

    # -- faults ------------------------------------------------------------------------------------

    def _carry_out_plan(self) -> None:
        every = max(1, self._plan.moves // max(1, self._plan.kills))
        # Nobody else ends brokers, so they need not be asked for: each call waits for its turn
        # among the threads of all clients.
        nodes = self._cluster.brokers
        killed: int | None = None
        due_s = time.monotonic()
        for number in range(self._plan.moves):
            if number % every == 0 and self.ledger.counts["kills"] < self._plan.kills:
                if killed is not None:
                    self._cluster.start(killed)
                killed = self._choose.choice(nodes)
                self._cluster.kill(killed)
                self.ledger.counts["kills"] += 1
            self._move([each for each in nodes if each != killed])
            # A move that took long does not put off the next one, but is not made up for either.
            now_s = time.monotonic()
            due_s = max(due_s + self._plan.pause_s, now_s)
            time.sleep(due_s - now_s)
        if killed is not None:
            self._cluster.start(killed)

    def _move(self, running: Sequence[int]) -> None:
        """Move the leader of a partition, or the coordinator of a group."""
        to = self._choose.choice(running)
        if self._choose.random() < 0.5:
            self._cluster.move(TOPIC, self._choose.randrange(PARTITIONS), to=to)
        else:
            library = self._choose.choice(self._libraries).name
            group = self._choose.choice((_group_of_register(library), _group_of_members(library)))
            self._cluster.move_coordinator(group, to=to)
        self.ledger.counts["moves"] += 1

    # -- clients -----------------------------------------------------------------------------------

    @contextmanager
    def _clients(self) -> Iterator[None]:
        # A client sends a commit again if a killed broker took the answer along. With a second
        # writer the value could come back after the other's, as no register has it.
        writers = [self._write] if self._plan.kills else [self._write, self._write]
        actors: list[Callable[[Library], None]] = [
            self._produce, *writers, self._read, self._consume
        ]  # fmt: skip
        threads = [
            threading.Thread(target=self._guard, args=(actor, library), name=library.name)
            for library in self._libraries
            for actor in actors
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(_JOIN_LIMIT_S)
        alive = [thread.name for thread in threads if thread.is_alive()]
        if alive:
            self.ledger.violated(f"clients that do not end: {', '.join(alive)}")

    def _guard(self, actor: Callable[[Library], None], library: Library) -> None:
        try:
            actor(library)
        except Exception as error:
            self._violated(f"{library.name} {actor.__name__}: {type(error).__name__}: {error}")

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s

    def _violated(self, text: str) -> None:
        with self._lock:
            self.ledger.violated(text)

    def _failed(self, library: Library, what: str) -> None:
        with self._lock:
            self.ledger.counts[f"{what} that failed, {library.name}"] += 1

    def _produce(self, library: Library) -> None:
        with closing(library.producer(self._bootstrap)) as producer:
            for number in itertools.count():
                if self._stop.wait(self._pause_s):
                    return
                partition, value = (TOPIC, number % PARTITIONS), f"{library.name}-{number}".encode()
                try:
                    offset = producer.send(partition, value)
                except ERRORS:
                    self._failed(library, "records")
                    continue
                with self._lock:
                    self.ledger.produced(partition, offset, value)

    def _write(self, library: Library) -> None:
        history = self.histories[library.name]
        with closing(self._register(library)) as register:
            for value in self._values[library.name]:
                begin_s = self._now_s()
                try:
                    register.commit(value)
                except ERRORS:
                    history.append(Operation(Kind.WRITE, value, begin_s))
                    self._failed(library, "commits")
                else:
                    history.append(Operation(Kind.WRITE, value, begin_s, self._now_s()))
                if self._stop.wait(self._pause_s):
                    return

    def _register(self, library: Library) -> Register:
        group = _group_of_register(library.name)
        return library.register(self._bootstrap, group, REGISTER)

    def _read(self, library: Library) -> None:
        """Fetch the offset, with a new client every now and then.

        Clients that stay connected to one broker never see that another one thinks otherwise.
        """
        while not self._stop.is_set():
            try:
                opened = self._register(library)
            except ERRORS:
                # The broker that was asked first is dead.
                self._failed(library, "new clients")
                continue
            with closing(opened) as register:
                for _ in range(_READS_OF_A_CLIENT):
                    self._read_once(library, register)
                    if self._stop.wait(self._pause_s):
                        return

    def _read_once(self, library: Library, register: Register) -> None:
        begin_s = self._now_s()
        try:
            value = register.committed()
        except ERRORS:
            self._failed(library, "fetches of offsets")
        else:
            operation = Operation(Kind.READ, value, begin_s, self._now_s())
            self.histories[library.name].append(operation)

    def _consume(self, library: Library) -> None:
        with closing(library.member(self._bootstrap, _group_of_members(library.name), TOPIC)) as it:
            while not self._stop.is_set():
                try:
                    records = it.poll()
                except ERRORS:
                    # kafka-python raises while the broker that it asks is dead.
                    self._failed(library, "polls")
                    continue
                with self._lock:
                    for each in records:
                        self.ledger.consumed(*each)
                    if it.assignments:
                        self._assigned[library.name] = it.assignments

    # -- the end -----------------------------------------------------------------------------------

    def _read_back(self) -> None:
        """Read every partition from its beginning, with a client that knows nothing."""
        for topic, index in self.ledger.partitions():
            rows = read_partition(self._bootstrap, topic, index)
            records = {row.offset: row.value or b"" for row in rows}
            self.ledger.read_back((topic, index), records)


def _longest_gap_s(history: list[Operation]) -> float:
    """Return the longest time without an acknowledged commit."""
    answered = [each for each in history if each.kind is Kind.WRITE and math.isfinite(each.end)]
    ends = sorted(each.end for each in answered)
    return max((later - earlier for earlier, later in itertools.pairwise(ends)), default=0.0)


def _group_of_register(library: str) -> str:
    return f"register-{library}"


def _group_of_members(library: str) -> str:
    return f"members-{library}"
