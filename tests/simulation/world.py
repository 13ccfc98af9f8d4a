"""One run of a seed: virtual time and everything that happens in it.

Scheduled actions and the coordinator's timers are carried out in the order of time. Responses take
a few milliseconds or are lost with their connection; appends are acknowledged late or fail; clients
and the coordinator crash. At the end of the run the faults stop. All running consumers must then
soon be members of one Stable generation, and after they have left, no timer and no delayed request
may remain.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappush
from random import Random
from typing import Any, NamedTuple

from coterie.conformance.harness import START_MS
from coterie.coordinator.groups.classic.group import classic
from coterie.coordinator.groups.classic.states import GroupState
from coterie.protocol.errors import ErrorCode
from tests.simulation.call import Call
from tests.simulation.checked_coordinator import CheckedCoordinator
from tests.simulation.checks.structure import classic_groups
from tests.simulation.checks.violation import Violation, require
from tests.simulation.consumer import COOPERATIVE, EAGER, Consumer
from tests.simulation.other_clients import Admin, Committer, OtherClient, Rogue
from tests.simulation.profile import Profile
from tests.simulation.virtual_time import Events, run_until

# More events than this in one millisecond are an endless loop.
MAX_EVENTS_AT_ONCE = 5_000

# How appends fail. The coordinator translates them for clients [coordinator/error-translation].
_LOG_ERRORS = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE,
)

Client = Consumer | OtherClient


class Outcome(NamedTuple):
    """The figures of a run."""

    seed: int
    steps: int
    events: int
    virtual_ms: int
    rebalances: int
    group_hours: float
    digest: str


class World:
    """One run.

    Attributes:
        profile: its settings.
        rng: its only source of randomness.
        harness: the coordinator under test with its checks.
        calm: whether the faults have stopped.
        group_ids: the groups of the consumers.
        life: counts the restarts of the coordinator; what was scheduled for an earlier one is void.
        pending_ids: the last member ids that were sent with MEMBER_ID_REQUIRED, and their owners.
        consumers: the clients that are members.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.rng = Random(f"world {profile.seed}")
        self.harness = CheckedCoordinator(profile.config(), profile.append_ms[1])
        self.calm = False
        self.group_ids = [f"g{number}" for number in range(profile.groups)]
        self.life = 0
        self.pending_ids: deque[tuple[Consumer, str]] = deque(maxlen=6)
        self._heap: Events = []
        self._serial = 0
        self._offset = 0
        self._senders: dict[int, tuple[Client, int]] = {}
        self._events = 0
        self._moving: set[int] = set()
        self.consumers = [self._consumer(number) for number in range(profile.consumers)]
        self._populate()

    # -- the clients -------------------------------------------------------------------------------

    def _consumer(self, number: int) -> Consumer:
        rng = self.rng
        group = rng.randrange(self.profile.groups)
        # Of every three groups, one is cooperative and one has members that are not consumers.
        if group % 3 == 1:
            protocols: tuple[str, ...] = (COOPERATIVE,)
        else:
            protocols = rng.choice(((EAGER,), (EAGER, "roundrobin"), ("roundrobin", EAGER)))
        instance = (
            f"i{number % 4}" if group % 3 != 1 and rng.random() < self.profile.static else None
        )
        version = rng.choice((5, 7, 8, 9) if instance else (0, 2, 4, 5, 7, 9))
        return Consumer(
            self,
            f"c{number}",
            self.group_ids[group],
            instance_id=instance,
            protocol_type="connect" if group % 3 == 2 else "consumer",
            protocols=protocols,
            version=version,
        )

    def _populate(self) -> None:
        profile, rng = self.profile, self.rng
        for consumer in self.consumers:
            self.after(rng.randint(0, 3_000), consumer.start)
        for kind, mean_ms in (
            (Rogue, profile.rogue_ms),
            (Admin, profile.admin_ms),
            (Committer, profile.commit_ms),
        ):
            if mean_ms:
                kind(self, kind.__name__.lower(), mean_ms)
        if profile.restart_ms:
            self.after(rng.randint(1, profile.restart_ms * 2), self._restart)
        if profile.move_ms:
            self.after(rng.randint(1, profile.move_ms * 2), self._move)
        self.after(10_000, self._compact)

    # -- for clients -------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The virtual time."""
        return self.harness.now_ms

    def after(self, delay_ms: int, function: Callable[..., None], *arguments: Any) -> None:
        """Schedule an action."""
        self._serial += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._serial, function, arguments))

    def next_offset(self) -> int:
        """Return an offset that was not committed before."""
        self._offset += 1
        return self._offset

    def pause(self, client: Consumer) -> int:
        """Return how long a client takes until its next step; now and then it takes too long."""
        profile, rng = self.profile, self.rng
        if not self.calm and rng.random() < profile.pause:
            return rng.randint(1, client.rebalance_ms * 3 // 2)
        return rng.choice((0, 1, 5, 20))

    def request(self, client: Client, request: Any, version: int) -> None:
        """Send a request on a client's connection."""
        self._serial += 1
        call = Call(self._serial, request, version, client.name, self.now_ms)
        self._senders[call.number] = client, client.connection
        self.harness.send(call)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and create it again at once."""
        self.harness.delete_topics([(topic, bytes(16))])

    # -- the run -----------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run with faults, then without; then let all consumers leave.

        Raises:
            Violation: an invariant does not hold. Exceptions of the core are passed on.
        """
        self._until(START_MS + self.profile.duration_ms)
        self._stop_faults()
        self._converge()
        self._end()
        harness = self.harness
        virtual_ms = self.now_ms - START_MS
        rebalances = sum(harness.coverage.counts.get("cause", {}).values())
        return Outcome(
            seed=self.profile.seed,
            steps=harness.steps,
            events=self._events,
            virtual_ms=virtual_ms,
            rebalances=rebalances,
            group_hours=virtual_ms * self.profile.groups / 3_600_000,
            digest=harness.digest,
        )

    def _until(self, end_ms: int) -> None:
        run_until(self.harness, self._heap, end_ms, self._after_event, MAX_EVENTS_AT_ONCE)

    def _after_event(self) -> None:
        self._events += 1
        self._pump()

    def _pump(self) -> None:
        """Schedule the delivery of responses and the outcome of new appends."""
        harness = self.harness
        for call, message in harness.outbox:
            client, connection = self._senders.pop(call.number)
            self.after(
                self.rng.choice((0, 0, 1, 4)), self._deliver, client, connection, call, message
            )
        harness.outbox.clear()
        min_ms, max_ms = self.profile.append_ms
        for partition, batch in harness.appended:
            delay_ms = self.rng.randint(min_ms, max_ms)
            fails = not self.calm and self.rng.random() < self.profile.append_failure
            self.after(delay_ms, self._finish_append, partition, batch.number, self.life, fails)
        harness.appended.clear()

    def _deliver(self, client: Client, connection: int, call: Call, message: Any) -> None:
        if client.connection != connection:
            return
        if not self.calm and self.rng.random() < self.profile.response_loss:
            client.connection += 1
            self.after(self.rng.randint(1, 500), client.reconnect)
            return
        client.receive(call, message)

    def _finish_append(self, partition: int, number: int, life: int, fails: bool) -> None:
        if life != self.life:
            return
        harness = self.harness
        count = sum(batch.number <= number for batch in harness.logs[partition].pending)
        if not count:
            return
        if fails:
            harness.fail_appends(partition, self.rng.choice(_LOG_ERRORS))
        else:
            harness.acknowledge(partition, count)

    # -- faults of the server ----------------------------------------------------------------------

    def _restart(self) -> None:
        if self.calm:
            return
        self.life += 1
        self._moving.clear()
        max_size = self.profile.max_size if self.rng.random() < 0.7 else 2
        self.harness.crash(lambda count: self.rng.randint(0, count), max_size)
        self._disconnect_all()
        self.after(self.rng.randint(1, self.profile.restart_ms * 2), self._restart)

    def _disconnect_all(self) -> None:
        for client in {id(each): each for each, _ in self._senders.values()}.values():
            client.connection += 1
            self.after(self.rng.randint(1, 500), client.reconnect)
        self._senders.clear()

    def _move(self) -> None:
        if self.calm:
            return
        partition = self.rng.randrange(self.profile.partitions)
        if partition not in self._moving:
            self._moving.add(partition)
            self.harness.unload(partition, lambda count: self.rng.randint(0, count))
            self.after(self.rng.randint(1, 1_000), self._begin_load, partition, self.life)
        self.after(self.rng.randint(1, self.profile.move_ms * 2), self._move)

    def _begin_load(self, partition: int, life: int) -> None:
        if life == self.life:
            self.harness.load_next_epoch(partition)
            self.after(self.rng.randint(1, 500), self._finish_load, partition, life)

    def _finish_load(self, partition: int, life: int) -> None:
        if life == self.life:
            self._moving.discard(partition)
            self.harness.finish_load(partition)

    def _compact(self) -> None:
        for partition in range(self.profile.partitions):
            self.harness.compact(partition, self.rng)
        self.after(10_000, self._compact)

    # -- the end -----------------------------------------------------------------------------------

    def _stop_faults(self) -> None:
        """Stop the faults: partitions are loaded again and running consumers have a connection."""
        self.calm = True
        settle_ms = 2_000 + self.profile.append_ms[1]
        self._until(self.now_ms + settle_ms)
        require(not self._moving, "simulation", "a partition is still being moved")
        for consumer in self.consumers:
            if consumer.phase in ("joining", "syncing"):
                consumer.connection += 1
                consumer.join()
        self._pump()

    def _converge(self) -> None:
        """Check that twice the longest timeout brings running consumers into one generation."""
        profile = self.profile
        longest_ms = max(profile.session_ms[1], profile.rebalance_ms[1])
        slack_ms = profile.initial_delay_ms + profile.append_ms[1] + 2_000
        self._until(self.now_ms + 2 * longest_ms + slack_ms)
        self.harness.check_everything()
        for group_id in self.group_ids:
            self._check_converged(group_id)

    def _check_converged(self, group_id: str) -> None:
        running = [
            each
            for each in self.consumers
            if each.group_id == group_id and each.phase in ("joining", "syncing", "member")
        ]
        if not running:
            return
        group = classic(self.harness.coordinator.group(group_id))
        if group is None or group.state is not GroupState.STABLE:
            raise Violation("convergence", f"{group} although {running} are running")
        expected = sorted(each.member_id for each in running)
        if sorted(group.members) != expected:
            raise Violation("convergence", f"{group} although {running} are running")
        for each in running:
            is_member = each.phase == "member" and each.generation_id == group.generation_id
            require(is_member, "convergence", f"{each} is not in {group}")

    def _end(self) -> None:
        """Let all consumers leave and check that groups are Empty and only sweep timers remain."""
        for consumer in self.consumers:
            if consumer.phase == "member":
                consumer.leave()
            consumer.connection += 1
            consumer.phase = "down"
            consumer.phase_number += 1
        self._pump()
        profile = self.profile
        longest_ms = max(profile.session_ms[1] * 2, profile.rebalance_ms[1])
        self._until(self.now_ms + 2 * longest_ms + profile.append_ms[1] * 4 + 1_000)
        harness = self.harness
        harness.check_everything()
        groups = classic_groups(harness.coordinator.groups())
        for group in groups:
            require(group.state is GroupState.EMPTY, "no-leaks", f"{group} has no running member")
        left = len(harness.coordinator.purgatory)
        require(left == profile.partitions, "no-leaks", f"{left} timers remain")
        require(not harness.requests.open, "no-leaks", f"{harness.requests.open} remain")
