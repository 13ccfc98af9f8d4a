"""One run of a seed: virtual time, processes, topics that change, and faults.

Storms and calms follow each other. In a storm answers are lost, appends fail, the broker crashes,
processes die, leave, are slow, subscribe to other topics and come back with the other protocol, and
topics are created, grow and are deleted. In a calm nothing happens, and within a bound each group
must be at rest: every process is a member, and every partition has an owner.
"""

from collections import Counter
from collections.abc import Callable
from heapq import heappush
from random import Random
from typing import Any

from coterie.conformance.harness import START_MS
from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.config import ConsumerSettings
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.group_like import GroupLike
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_facts import GroupTypeChanged, TargetComputed
from coterie.protocol.messages.journal_records import RebalanceBegan
from tests.simulation.checks.violation import Violation, require
from tests.simulation.consumer_groups.checked import CheckedGroups
from tests.simulation.consumer_groups.checks import Checks
from tests.simulation.consumer_groups.classic import ClassicClient
from tests.simulation.consumer_groups.consumers import ConsumerClient
from tests.simulation.consumer_groups.processes import Client, Process
from tests.simulation.virtual_time import Events, run_until

GROUPS = ("g0", "g1")
TOPICS = ("t0", "t1", "t2", "t3")
STORM_MS = 25_000
# All timeouts, twice the longest rebalance, and the time between two resolutions of an expression.
CALM_MS = 30_000
ROUNDS = 3
MAX_PARTITIONS = 6
# More events than this in one millisecond are an endless loop.
MAX_EVENTS_AT_ONCE = 3_000
_LOG_ERRORS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT)


class World:
    """One run.

    Attributes:
        rng: its only source of randomness.
        harness: the coordinator under test.
        regexes: the share of subscriptions that are regular expressions.
        is_calm: whether nothing happens.
        coverage: how often things have occurred.
    """

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(f"consumer groups {seed}")
        policy = rng.choice(("bidirectional",) * 4 + ("upgrade", "downgrade", "disabled"))
        settings = ConsumerSettings(
            session_timeout_ms=rng.choice((3_000, 5_000)),
            heartbeat_interval_ms=500,
            assignment_interval_ms=rng.choice((0, 0, 1_000)),
        )
        self.harness = CheckedGroups(settings, policy)
        self.regexes = rng.choice((0.0, 0.5))
        self.is_calm = False
        self.coverage: Counter[str] = Counter()
        self._policy = policy
        self._classic_share = rng.choice((0.0, 0.3, 0.6))
        self._faults = rng.choice((0.0, 0.02, 0.06))
        self._checks = Checks(self.harness)
        self._heap: Events = []
        self._serial = 0
        self._life = 0
        self._senders: dict[int, tuple[Process, int]] = {}
        self._lives: Counter[str] = Counter()
        self._kept_by_upgrade: set[str] = set()
        self._cooperative = {group_id: rng.random() < 0.6 for group_id in GROUPS}
        for name in TOPICS[:2]:
            self.harness.create_topic(name, rng.randint(1, 4))
        self.processes = [
            Process(self, f"p{number}", rng.choice((GROUPS[0], GROUPS[0], GROUPS[1])), instance)
            for number, instance in enumerate((None, None, None, None, "i1", "i2"))
        ]
        for process in self.processes:
            self.after(rng.randint(0, 2_000), process.start)
        self.after(5_000, self._compact)

    # -- for processes -----------------------------------------------------------------------------

    def after(self, delay_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Schedule an action."""
        self._serial += 1
        heappush(self._heap, (self.harness.now_ms + delay_ms, self._serial, action, arguments))

    def new_client(self, process: Process) -> Client:
        """Return a client of one of the protocols."""
        if self.rng.random() < self._classic_share:
            return ClassicClient(process)
        # Most come back with an id of their own.
        return ConsumerClient(process, f"{process.name}-{process.starts}")

    def is_cooperative(self, group_id: str) -> bool:
        """Return whether the classic members of a group are cooperative."""
        return self._cooperative[group_id]

    def some_topics(self) -> list[str]:
        """Return some topics, which need not exist."""
        return self.rng.sample(TOPICS, self.rng.choice((1, 2, 2, 3)))

    def heartbeat_delay_ms(self) -> int:
        """Return the time until the next heartbeat; now and then it is too long."""
        if not self.is_calm and self.rng.random() < 0.02:
            return self.rng.randint(500, 8_000)
        return self.rng.randint(300, 900)

    def pause_ms(self) -> int:
        """Return the time until a client goes on; now and then it is too long."""
        if not self.is_calm and self.rng.random() < 0.05:
            return self.rng.randint(500, 8_000)
        return self.rng.choice((0, 1, 20))

    def revocation_ms(self, timeout_ms: int) -> int:
        """Return how long a client takes to give partitions up; now and then too long."""
        if not self.is_calm and self.rng.random() < 0.1:
            return self.rng.randint(1, timeout_ms * 2)
        return self.rng.choice((0, 5, 100, 700))

    def request(self, process: Process, request: Any, version: int) -> None:
        """Send a request."""
        self._serial += 1
        self._senders[self._serial] = process, process.connection
        self.harness.request(self._serial, request, version, process.context)

    # -- the run -----------------------------------------------------------------------------------

    def run(self, rounds: int = ROUNDS) -> None:
        """Run storms and calms.

        Raises:
            Violation: something does not hold. Exceptions of the core are passed on.
        """
        for _ in range(rounds):
            self.is_calm = False
            self.after(0, self._storm)
            self._until(self.harness.now_ms + STORM_MS)
            self.is_calm = True
            self._change_last()
            self._until(self.harness.now_ms + CALM_MS)
            self._check_rest()
        self._end()

    def _change_last(self) -> None:
        """Make the last changes: after them the groups have to come to rest.

        The broker crashes, a topic is created, and all processes run. Some time later all clients
        of one protocol leave a group, or a static member is away for a moment.
        """
        if self.rng.random() < 10 * self._faults:
            self._crash_broker()
        if self.rng.random() < 0.6:
            self._create_topic()
        for process in self.processes:
            self.after(self.rng.randint(0, 500), process.start)
        # A leader that was away when a topic was created learns of it, too.
        self.after(3_000, self._refresh_clients)
        happening = self.rng.choice((None, self._let_protocol_leave, self._replace_static))
        if happening is not None:
            self.after(CALM_MS // 2, happening)

    def _let_protocol_leave(self) -> None:
        group_id, classic = self.rng.choice(GROUPS), self.rng.random() < 0.3
        for process in self.processes:
            client = process.client
            if client is None or process.group_id != group_id:
                continue
            if client.uses_classic == classic:
                client.leave()
                process.stop()

    def _replace_static(self) -> None:
        static = [each for each in self.processes if each.instance_id is not None]
        process = self.rng.choice(static)
        if process.client is not None:
            process.client.leave()
            process.stop(1_000)

    def _until(self, end_ms: int) -> None:
        run_until(self.harness, self._heap, end_ms, self._after_event, MAX_EVENTS_AT_ONCE)

    def _after_event(self) -> None:
        self._pump()
        self._checks.run(self.processes)

    def _pump(self) -> None:
        """Schedule the delivery of responses, and the fate of appends."""
        harness, rng = self.harness, self.rng
        for sent, message in harness.outbox:
            process, connection = self._senders.pop(sent.number)
            delay_ms = rng.choice((0, 0, 1, 5))
            self.after(delay_ms, self._deliver, process, connection, sent.request, message)
        harness.outbox.clear()
        for batch in harness.appended:
            fails = not self.is_calm and rng.random() < self._faults / 4
            delay_ms = rng.choice((0, 0, 1, 10)) if self.is_calm else rng.choice((0, 1, 10, 200))
            self.after(delay_ms, self._finish_append, batch.number, self._life, fails)
        harness.appended.clear()
        for event in harness.events:
            self._note(event.group_id, event.fact)
        harness.events.clear()

    def _note(self, group_id: str, fact: Any) -> None:
        """Remember whose assignment is still that of the leader of a classic group."""
        if isinstance(fact, GroupTypeChanged) and fact.group_type == "consumer":
            self._kept_by_upgrade.add(group_id)
        elif isinstance(fact, TargetComputed | RebalanceBegan):
            self._kept_by_upgrade.discard(group_id)
        if isinstance(fact, RebalanceBegan) and fact.cause == "downgrade":
            self.coverage["downgrade"] += 1

    def _deliver(self, process: Process, connection: int, request: Any, message: Any) -> None:
        if process.connection != connection or process.client is None:
            return
        if not self.is_calm and self.rng.random() < self._faults:
            self.coverage["lost answer"] += 1
            process.drop_connection()
            return
        name = type(message).__name__.removesuffix("Response")
        self.coverage[f"{name} {ErrorCode(message.error_code).name}"] += 1
        process.client.receive(request, message)

    def _finish_append(self, number: int, life: int, fails: bool) -> None:
        if life != self._life:
            return
        count = sum(batch.number <= number for batch in self.harness.logs[0].pending)
        if not count:
            return
        if fails:
            self.coverage["failed append"] += 1
            self._checks.rolled_back()
            self.harness.fail(self.rng.choice(_LOG_ERRORS))
        else:
            self.harness.acknowledge(0, count)

    # -- storms ------------------------------------------------------------------------------------

    def _storm(self) -> None:
        if self.is_calm:
            return
        rng = self.rng
        happens, weights = zip(*self._happenings().items(), strict=True)
        (happening,) = rng.choices(happens, weights)
        self.coverage[happening.__name__.strip("_")] += 1
        happening()
        self.after(rng.randint(1, 1_500), self._storm)

    def _happenings(self) -> dict[Callable[[], None], float]:
        return {
            self._crash_process: 4,
            self._leave: 4,
            self._resubscribe: 4,
            self._disconnect: 2,
            self._create_topic: 2,
            self._grow_topic: 2,
            self._delete_topic: 2,
            self._crash_broker: 20 * self._faults,
        }

    def _process(self) -> Process:
        return self.rng.choice(self.processes)

    def _crash_process(self) -> None:
        self._process().stop(4_000)

    def _leave(self) -> None:
        process = self._process()
        if process.client is not None:
            process.client.leave()
            process.stop(3_000)

    def _resubscribe(self) -> None:
        client = self._process().client
        if client is not None:
            client.resubscribe()

    def _disconnect(self) -> None:
        self._process().drop_connection()

    def _create_topic(self) -> None:
        absent = [name for name in TOPICS if name not in self.harness.topics.image.by_name]
        if absent:
            name = self.rng.choice(absent)
            self._lives[name] += 1
            self.harness.create_topic(name, self.rng.randint(1, 4), self._lives[name])
            self._refresh_clients()

    def _grow_topic(self) -> None:
        topics = sorted(self.harness.topics.image.by_name.values())
        if topics:
            topic = self.rng.choice(topics)
            if topic.partitions < MAX_PARTITIONS:
                self.harness.create_topic(topic.name, topic.partitions + 1, self._lives[topic.name])
                self._refresh_clients()

    def _delete_topic(self) -> None:
        names = sorted(self.harness.topics.image.by_name)
        if len(names) > 1:
            name = self.rng.choice(names)
            self.harness.delete_topic(name)
            if self.rng.random() < 0.4:
                self._lives[name] += 1
                self.harness.create_topic(name, self.rng.randint(1, 4), self._lives[name])
            self._refresh_clients()

    def _refresh_clients(self) -> None:
        """Let all clients learn of the topics some time later."""
        for process in self.processes:
            if process.client is not None:
                process.after(self.rng.randint(1, 2_000), process.client.refresh)

    def _crash_broker(self) -> None:
        self._life += 1
        self._senders.clear()
        self._checks.rolled_back()
        self.harness.crash(lambda count: self.rng.randint(0, count))
        for process in self.processes:
            process.drop_connection()

    def _compact(self) -> None:
        self.harness.compact(self.rng)
        self.after(5_000, self._compact)

    # -- rest --------------------------------------------------------------------------------------

    def _check_rest(self) -> None:
        for group_id in GROUPS:
            clients = [
                each.client
                for each in self.processes
                if each.group_id == group_id and each.client is not None
            ]
            group = self.harness.coordinator.group(group_id)
            self.coverage[f"rests as {'nothing' if group is None else group.group_type}"] += 1
            if isinstance(group, ConsumerGroup):
                self._check_consumer_group(group, clients)
            elif isinstance(group, Group):
                self._check_classic_group(group, clients)
            else:
                require(not clients, "rest", f"{clients} have no group {group_id}")

    def _check_consumer_group(self, group: ConsumerGroup, clients: list[Client]) -> None:
        joined = self._able_to_join(group, clients)
        if joined and all(each.uses_classic for each in joined):
            # Nobody computes a target then [consumer-groups/classic-members].
            self.coverage["rests with classic members only"] += 1
            return
        ids = {each.member_id for each in joined}
        require(group.members.keys() == ids, "rest", f"{group} has other members than {ids}")
        require(group.state_name in ("Stable", "Empty"), "rest", f"{group} does not rest")
        for client in joined:
            member = group.members[client.member_id]
            require(client.is_settled, "rest", f"{client} of {group} is not settled")
            assigned = {(topic, index) for topic, each in member.assigned.items() for index in each}
            same = client.owned == assigned
            require(same, "rest", f"{client} owns {client.owned}, {member} has {assigned}")
        if group.target_ms:
            self._check_partitions(group, joined)
        else:
            # An upgrade keeps what the leader has assigned until something changes
            # [consumer-groups/upgrade].
            self.coverage["rests with the assignment of a leader"] += 1

    def _check_partitions(self, group: GroupLike, clients: list[Client]) -> None:
        """Each partition of a topic that somebody wants has one owner."""
        topics = self.harness.topics
        wanted = {
            (topic.topic_id, index)
            for topic in topics.image.by_name.values()
            if any(each.wants(topic.name) for each in clients)
            for index in range(topic.partitions)
        }
        owned = [partition for each in clients for partition in each.owned]
        require(len(owned) == len(set(owned)), "one-owner", f"{owned} of {group}")
        require(set(owned) == wanted, "rest", f"{wanted ^ set(owned)} of {group} is not as wanted")

    def _able_to_join(self, group: ConsumerGroup, clients: list[Client]) -> list[Client]:
        """Return the clients that the policy lets into a consumer group."""
        if self._policy != "disabled":
            return clients
        return [
            each for each in clients if not each.uses_classic or each.member_id in group.members
        ]

    def _check_classic_group(self, group: Group, clients: list[Client]) -> None:
        """Without a client of the consumer protocol, or if the policy keeps them out."""
        upgrades = self._policy in ("bidirectional", "upgrade")
        others = [each for each in clients if not each.uses_classic]
        if others and (upgrades or not group.members):
            raise Violation("rest", f"{group} although {others} want to join")
        classic = [each for each in clients if each.uses_classic]
        ids = {each.member_id for each in classic}
        require(group.members.keys() == ids, "rest", f"{group} has other members than {ids}")
        rests = group.state in (GroupState.STABLE, GroupState.EMPTY)
        require(rests, "rest", f"{group} does not rest")
        if group.group_id in self._kept_by_upgrade:
            # A classic member that takes the place of the last static one of the other protocol
            # changes nothing [consumer-groups/downgrade].
            self.coverage["rests with the assignment of a leader, again classic"] += 1
            return
        self._check_partitions(group, classic)

    def _end(self) -> None:
        """Kill all processes; then nothing but the sweep of the partition has a timer."""
        for process in self.processes:
            process.stop()
        self._heap = []
        self.after(0, self._compact)
        for batch in list(self.harness.logs[0].pending):
            self._finish_append(batch.number, self._life, False)
        self._until(self.harness.now_ms + CALM_MS)
        for group in self.harness.coordinator.groups():
            require(group.is_empty, "leaks", f"{group} has members")
        left = len(self.harness.coordinator.purgatory)
        require(left == 1, "leaks", f"{left} timers are left")

    @property
    def virtual_s(self) -> float:
        """How long the run has lasted."""
        return (self.harness.now_ms - START_MS) / 1000


def run_world(seed: int) -> None:
    """Run the world of a seed."""
    World(seed).run()
