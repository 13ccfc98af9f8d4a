"""Virtual time and everything that happens in it: one run of a seed.

A heap of things to come and the coordinator's own timers take turns, in order of time. Answers take
a few milliseconds, or are lost with their connection; appends are acknowledged late, or fail;
processes and the coordinator die. After the run's time the faults stop: what lives must find
together soon (I8), and when everybody has left nothing may be left (I9).
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, NamedTuple

from coterie.coordinator.group import GroupState
from coterie.protocol.errors import ErrorCode
from tests.simulation.call import Call
from tests.simulation.checks.violation import Violation, require
from tests.simulation.consumer import COOPERATIVE, EAGER, Consumer
from tests.simulation.outsiders import Admin, Committer, Outsider, Rogue
from tests.simulation.profile import Profile
from tests.simulation.subject import Subject

# Where the clocks of all runs start: in the year 2023, so that times look like real ones.
START_MS = 1_700_000_000_000

# More events than this in one millisecond are a loop that does not end.
MOST_AT_ONCE = 5_000

# How appends fail; each is translated before a client sees it (spec section 2.1).
_LOG_ERRORS = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE,
)

Client = Consumer | Outsider


class Outcome(NamedTuple):
    """What a run amounted to."""

    seed: int
    steps: int
    events: int
    virtual_ms: int
    rebalances: int
    group_hours: float
    digest: str


class World:
    """One run."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.rng = Random(f"world {profile.seed}")
        self.subject = Subject(profile.config(), profile.append_ms[1], START_MS)
        self.quiet = False
        self.group_ids = [f"g{number}" for number in range(profile.groups)]
        self.life = 0
        # Member ids that were given to somebody lately.
        self.handed_out: deque[tuple[Consumer, str]] = deque(maxlen=6)
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._serial = 0
        self._offset = 0
        self._senders: dict[int, tuple[Client, int]] = {}
        self._events = 0
        self._moving: set[int] = set()
        self.consumers = [self._consumer(number) for number in range(profile.consumers)]
        self._populate()

    # -- the population ----------------------------------------------------------------------------

    def _consumer(self, number: int) -> Consumer:
        rng = self.rng
        group = rng.randrange(self.profile.groups)
        # Of every three groups one is cooperative, one is of workers that are no consumers.
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
            instance=instance,
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

    # -- what clients use --------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The time."""
        return self.subject.now_ms

    def after(self, delay_ms: int, function: Callable[..., None], *arguments: Any) -> None:
        """Let something happen later."""
        self._serial += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._serial, function, arguments))

    def next_offset(self) -> int:
        """An offset that nobody has committed yet."""
        self._offset += 1
        return self._offset

    def pause(self, client: Consumer) -> int:
        """How long a client takes to act; now and then too long."""
        profile, rng = self.profile, self.rng
        if not self.quiet and rng.random() < profile.laze:
            return rng.randint(1, client.rebalance_ms * 3 // 2)
        return rng.choice((0, 1, 5, 20))

    def request(self, client: Client, request: Any, version: int) -> None:
        """Send a request on a client's connection."""
        self._serial += 1
        call = Call(self._serial, request, version, client.name, self.now_ms)
        self._senders[call.number] = client, client.connection
        self.subject.send(call)

    def delete_topic(self, topic: str) -> None:
        """A topic is deleted, and made again at once."""
        self.subject.topics_deleted([(topic, bytes(16))])

    # -- the run -----------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """The whole run: faults, the quiet end, everybody leaves.

        Raises:
            Violation: an invariant does not hold; or whatever the core raised.
        """
        self._until(START_MS + self.profile.duration_ms)
        self._calm()
        self._converge()
        self._part()
        subject = self.subject
        virtual_ms = self.now_ms - START_MS
        began = sum(subject.reach.counts.get("cause", {}).values())
        return Outcome(
            seed=self.profile.seed,
            steps=subject.steps,
            events=self._events,
            virtual_ms=virtual_ms,
            rebalances=began,
            group_hours=virtual_ms * self.profile.groups / 3_600_000,
            digest=subject.digest,
        )

    def _until(self, end_ms: int) -> None:
        subject = self.subject
        heap = self._heap
        before_ms = crowd = 0
        while True:
            deadline_ms = subject.coordinator.next_deadline_ms()
            if deadline_ms is not None and (not heap or deadline_ms <= heap[0][0]):
                if deadline_ms > end_ms:
                    break
                subject.now_ms = max(subject.now_ms, deadline_ms)
                subject.advance()
            else:
                if not heap or heap[0][0] > end_ms:
                    break
                at_ms, _, function, arguments = heappop(heap)
                subject.now_ms = max(subject.now_ms, at_ms)
                function(*arguments)
            self._events += 1
            self._pump()
            crowd = crowd + 1 if subject.now_ms == before_ms else 0
            before_ms = subject.now_ms
            require(crowd < MOST_AT_ONCE, "hang", f"no end of events at {before_ms}")
        subject.now_ms = max(subject.now_ms, end_ms)

    def _pump(self) -> None:
        """Send answers on their way, and let the log decide about new appends."""
        subject = self.subject
        for call, message in subject.outbox:
            client, connection = self._senders.pop(call.number)
            self.after(
                self.rng.choice((0, 0, 1, 4)), self._deliver, client, connection, call, message
            )
        subject.outbox.clear()
        least_ms, most_ms = self.profile.append_ms
        for partition, batch in subject.appends:
            delay_ms = self.rng.randint(least_ms, most_ms)
            fails = not self.quiet and self.rng.random() < self.profile.append_failure
            self.after(delay_ms, self._decide, partition, batch.number, self.life, fails)
        subject.appends.clear()

    def _deliver(self, client: Client, connection: int, call: Call, message: Any) -> None:
        if client.connection != connection:
            return
        if not self.quiet and self.rng.random() < self.profile.answer_loss:
            client.connection += 1
            self.after(self.rng.randint(1, 500), client.reconnect)
            return
        client.answered(call, message)

    def _decide(self, partition: int, number: int, life: int, fails: bool) -> None:
        if life != self.life:
            return
        subject = self.subject
        count = sum(batch.number <= number for batch in subject.logs[partition].pending)
        if not count:
            return
        if fails:
            subject.fail_append(partition, self.rng.choice(_LOG_ERRORS))
        else:
            subject.acknowledge(partition, count)

    # -- faults of the server ----------------------------------------------------------------------

    def _restart(self) -> None:
        if self.quiet:
            return
        self.life += 1
        self._moving.clear()
        max_size = self.profile.max_size if self.rng.random() < 0.7 else 2
        self.subject.restart(lambda count: self.rng.randint(0, count), max_size)
        self._hang_up()
        self.after(self.rng.randint(1, self.profile.restart_ms * 2), self._restart)

    def _hang_up(self) -> None:
        for client in {id(each): each for each, _ in self._senders.values()}.values():
            client.connection += 1
            self.after(self.rng.randint(1, 500), client.reconnect)
        self._senders.clear()

    def _move(self) -> None:
        if self.quiet:
            return
        partition = self.rng.randrange(self.profile.partitions)
        if partition not in self._moving:
            self._moving.add(partition)
            self.subject.unload(partition, lambda count: self.rng.randint(0, count))
            self.after(self.rng.randint(1, 1_000), self._begin_load, partition, self.life)
        self.after(self.rng.randint(1, self.profile.move_ms * 2), self._move)

    def _begin_load(self, partition: int, life: int) -> None:
        if life == self.life:
            self.subject.begin_load(partition)
            self.after(self.rng.randint(1, 500), self._finish_load, partition, life)

    def _finish_load(self, partition: int, life: int) -> None:
        if life == self.life:
            self._moving.discard(partition)
            self.subject.finish_load(partition)

    def _compact(self) -> None:
        for partition in range(self.profile.partitions):
            self.subject.compact(partition, self.rng)
        self.after(10_000, self._compact)

    # -- the end -----------------------------------------------------------------------------------

    def _calm(self) -> None:
        """Faults stop: partitions come back, who lives has a working connection."""
        self.quiet = True
        settle_ms = 2_000 + self.profile.append_ms[1]
        self._until(self.now_ms + settle_ms)
        require(not self._moving, "simulation", "a partition is still on its way")
        for consumer in self.consumers:
            if consumer.phase in ("joining", "syncing"):
                consumer.connection += 1
                consumer.join()
        self._pump()

    def _converge(self) -> None:
        """All that live are together in one Stable generation, within twice the longest timeout
        (I8).
        """
        profile = self.profile
        longest_ms = max(profile.session_ms[1], profile.rebalance_ms[1])
        slack_ms = profile.initial_delay_ms + profile.append_ms[1] + 2_000
        self._until(self.now_ms + 2 * longest_ms + slack_ms)
        self.subject.look_at_everything()
        for group_id in self.group_ids:
            self._is_together(group_id)

    def _is_together(self, group_id: str) -> None:
        alive = [
            each
            for each in self.consumers
            if each.group_id == group_id and each.phase in ("joining", "syncing", "member")
        ]
        if not alive:
            return
        group = self.subject.coordinator.group(group_id)
        if group is None or group.state is not GroupState.STABLE:
            raise Violation("I8", f"{group} at the end; alive are {alive}")
        wanted = sorted(each.member_id for each in alive)
        if sorted(group.members) != wanted:
            raise Violation("I8", f"{group} at the end; alive are {alive}")
        for each in alive:
            together = each.phase == "member" and each.generation_id == group.generation_id
            require(together, "I8", f"{each} is not in {group}")

    def _part(self) -> None:
        """Everybody leaves: sessions end, groups empty, no timer is left but the sweeps (I9)."""
        for consumer in self.consumers:
            if consumer.phase == "member":
                consumer.leave()
            consumer.connection += 1
            consumer.phase = "down"
            consumer.turn += 1
        self._pump()
        profile = self.profile
        longest_ms = max(profile.session_ms[1] * 2, profile.rebalance_ms[1])
        self._until(self.now_ms + 2 * longest_ms + profile.append_ms[1] * 4 + 1_000)
        subject = self.subject
        subject.look_at_everything()
        groups = list(subject.coordinator.groups())
        for group in groups:
            require(group.state is GroupState.EMPTY, "I9", f"{group} after all have left")
        left = len(subject.coordinator.purgatory)
        require(left == profile.partitions, "I9", f"{left} timers after all have left")
        require(not subject.ledger.open, "I9", f"requests wait: {subject.ledger.open}")
