"""The draft of 2015: the coordinator on the broker assigns the partitions itself.

It was on Kafka's trunk between February and October 2015 and in no release. A JoinGroup names
topics and a strategy, and its response has the partitions. Groups are in memory only, so a
coordinator that moves loses them. The messages have no codec here: their API keys mean something
else today.
"""

from collections.abc import Callable
from typing import NamedTuple

from coterie.assignors.by_name import ASSIGNORS
from coterie.assignors.model import MemberSubscription, TopicPartition
from coterie.lab.environment import Environment
from coterie.lab.kernel import MS
from coterie.lab.machine import Machine
from coterie.lab.machines.group_member import partitions_text
from coterie.lab.machines.readings import Readings
from coterie.lab.parameters import OLDER_DRAFT
from coterie.lab.pods import Participant, Pod

ENDPOINT = "coordinator"
_SESSION_MS = 30_000
_HEARTBEAT_MS = 3_000
_COMMIT_MS = 5_000
_RETRY_US = 100 * MS

# The error codes of the draft.
NONE, NOT_COORDINATOR, ILLEGAL_GENERATION, UNKNOWN_CONSUMER, REBALANCE = 0, 16, 22, 25, 27
UNKNOWN_STRATEGY = 24
_ERROR_NAMES = {
    NOT_COORDINATOR: "NOT_COORDINATOR",
    ILLEGAL_GENERATION: "ILLEGAL_GENERATION",
    UNKNOWN_STRATEGY: "UNKNOWN_PARTITION_ASSIGNMENT_STRATEGY",
    UNKNOWN_CONSUMER: "UNKNOWN_CONSUMER_ID",
    REBALANCE: "REBALANCE_IN_PROGRESS",
}
# A new one had to be built into the broker.
ASSIGNORS_OF_THE_BROKER = ("range", "roundrobin")


class Joined(NamedTuple):
    """A JoinGroup response."""

    error: int
    generation: int = 0
    consumer_id: str = ""
    partitions: tuple[TopicPartition, ...] = ()


class _Member:
    """A member at the coordinator."""

    def __init__(self, session_us: int) -> None:
        self.session_us = session_us
        self.deadline_us = 0
        self.partitions: tuple[TopicPartition, ...] = ()
        self.parked: Callable[[Joined], None] | None = None


class DraftCoordinator:
    """The coordinator, for one group.

    Attributes:
        state: Stable, PreparingRebalance or Rebalancing.
        generation: the number of the last completed rebalance.
        members: by consumer id.
        away: whether the coordinator is moving.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.away = False
        self.offsets: dict[TopicPartition, int] = {}
        self._joins = 0
        self.forget()

    def forget(self) -> None:
        """Start with no group."""
        self.state = "Stable"
        self.generation = 0
        self.members: dict[str, _Member] = {}
        self._round = 0

    # -- requests ----------------------------------------------------------------------------------

    def join(
        self, consumer_id: str, identity: str, session_us: int, answer: Callable[[Joined], None]
    ) -> None:
        """Park a join until the rebalance is over; a member of a stable group gets its share."""
        self.environment.world.detail(identity, "JoinGroup", f"consumer={consumer_id or '-'}")
        wrong = self._wrong_strategy()
        if wrong:
            self._refuse("JoinGroup", identity, wrong)
            answer(Joined(wrong))
            return
        if self.away:
            answer(Joined(NOT_COORDINATOR))
            return
        member = self.members.get(consumer_id)
        if consumer_id and member is None:
            answer(Joined(UNKNOWN_CONSUMER))
            return
        if member is not None and self.state == "Stable":
            self._touch(consumer_id, member)
            answer(Joined(NONE, self.generation, consumer_id, member.partitions))
            return
        if member is None:
            self._joins += 1
            consumer_id = f"{identity}-{self._joins}"
            member = self.members[consumer_id] = _Member(session_us)
        member.parked = answer
        if self.state == "Stable":
            self._prepare()
        self._complete_if_all_joined()

    def heartbeat(self, consumer_id: str, generation: int) -> int:
        """Return the error of a heartbeat; only a good one extends the session."""
        error = self._refusal(consumer_id, generation)
        if not error and self.state != "Stable":
            old = self.environment.parameters.draft == OLDER_DRAFT
            error = ILLEGAL_GENERATION if old else REBALANCE
        if error:
            self._refuse("Heartbeat", consumer_id, error, generation)
        if not error:
            self._touch(consumer_id, self.members[consumer_id])
        return error

    def _wrong_strategy(self) -> int:
        """Return the error of a strategy that is not in the broker; NONE if it is."""
        known = self.environment.parameters.strategy in ASSIGNORS_OF_THE_BROKER
        return NONE if known else UNKNOWN_STRATEGY

    def _refuse(self, api: str, name: str, error: int, generation: int | None = None) -> None:
        """Write a refusal into a trace with details."""
        words = [] if generation is None else [f"generation={generation}"]
        self.environment.world.detail(name, api, "refused", *words, _ERROR_NAMES[error])

    def _refusal(self, consumer_id: str, generation: int) -> int:
        """Return the error of a request of a member; NONE if it is in this generation."""
        if self.away:
            return NOT_COORDINATOR
        if consumer_id not in self.members:
            return UNKNOWN_CONSUMER
        return NONE if generation == self.generation else ILLEGAL_GENERATION

    def leave(self, consumer_id: str) -> None:
        """Remove a member that leaves."""
        if not self.away and consumer_id in self.members:
            self._remove(consumer_id)
            if self.state == "Stable" and self.members:
                self._prepare()
            self._complete_if_all_joined()

    def commit(self, consumer_id: str, generation: int, offsets: dict[TopicPartition, int]) -> int:
        """Store offsets of a member's own partitions."""
        error = self._refusal(consumer_id, generation)
        if error:
            return error
        assigned = self.members[consumer_id].partitions
        for partition, offset in offsets.items():
            if partition in assigned:
                self.offsets[partition] = offset
                self.environment.ledger.committed(partition, offset)
        return NONE

    def topic_grew(self) -> None:
        """React to the watch on the topic's node: rebalance."""
        self.environment.ledger.noticed(None)
        if self.state == "Stable" and self.members:
            self._prepare()

    # -- the rebalance -----------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Begin a rebalance: wait for all members, at most for the longest session."""
        self.state = "PreparingRebalance"
        self._round += 1
        longest_us = max(member.session_us for member in self.members.values())
        self.environment.world.after(longest_us, self._end_preparing, self._round)

    def _end_preparing(self, round_: int) -> None:
        if self.state != "PreparingRebalance" or round_ != self._round:
            return
        for consumer_id, member in sorted(self.members.items()):
            if member.parked is None:
                self._remove(consumer_id)
        self._complete_if_all_joined()

    def _complete_if_all_joined(self) -> None:
        if self.state != "PreparingRebalance":
            return
        if not self.members:
            self.forget()
            return
        if any(member.parked is None for member in self.members.values()):
            return
        self.state = "Stable"
        self.generation += 1
        counts = self.environment.workload.counts
        shares = ASSIGNORS[self.environment.parameters.strategy](
            counts, [MemberSubscription(each, tuple(counts)) for each in sorted(self.members)]
        )
        self.environment.ledger.generation([_identity(each) for each in sorted(self.members)])
        for consumer_id, member in sorted(self.members.items()):
            answer, member.parked = member.parked, None
            member.partitions = tuple(shares[consumer_id])
            self._touch(consumer_id, member)
            assert answer is not None, "all members have joined"
            self.environment.world.detail(
                _identity(consumer_id), "JoinGroup answered", f"generation={self.generation}",
                f"assigned={partitions_text(member.partitions)}",
            )  # fmt: skip
            answer(Joined(NONE, self.generation, consumer_id, member.partitions))

    # -- sessions ----------------------------------------------------------------------------------

    def _touch(self, consumer_id: str, member: _Member) -> None:
        armed = member.deadline_us > self.environment.world.now_us
        member.deadline_us = self.environment.world.now_us + member.session_us
        if not armed:
            self.environment.world.at(member.deadline_us, self._expire, consumer_id, member)

    def _expire(self, consumer_id: str, member: _Member) -> None:
        if self.members.get(consumer_id) is not member or member.parked is not None:
            member.deadline_us = 0
            return
        if member.deadline_us > self.environment.world.now_us:
            self.environment.world.at(member.deadline_us, self._expire, consumer_id, member)
            return
        # In the draft a session that ends while others wait removes the member, but only the next
        # join or the timeout completes the phase.
        self._remove(consumer_id)
        if self.state == "Stable" and self.members:
            self._prepare()

    def _remove(self, consumer_id: str) -> None:
        del self.members[consumer_id]
        self.environment.ledger.noticed(_identity(consumer_id))


class DraftGroup(Machine):
    """Consumers of the draft and their coordinator."""

    # The members of a group that was lost come back one by one, and the first gets everything.
    doubling = Machine.doubling | {"coordinator_moves", "broker_dies"}

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.coordinator = DraftCoordinator(environment)
        session_ms = environment.parameters.session_ms or _SESSION_MS
        self.may_double = 20 * environment.parameters.poll_gap_ms > session_ms
        self.restless = self.may_double

    def participant(self, pod: Pod) -> Participant:
        """Return a consumer."""
        return DraftConsumer(self.coordinator, pod)

    def coordinator_moves(self, down_us: int) -> None:
        """Lose the group, which is in memory only; offsets are in a log."""
        self.coordinator.forget()
        self.coordinator.away = True
        self.environment.world.after(down_us, self._back)

    def _back(self) -> None:
        self.coordinator.away = False

    def topic_grew(self) -> None:
        """Let the coordinator know, which watches the topics."""
        delay_us = self.environment.network.latency_us()
        self.environment.world.after(delay_us, self.coordinator.topic_grew)


class DraftConsumer:
    """A consumer of the draft in a pod; all it does happens inside poll."""

    def __init__(self, coordinator: DraftCoordinator, pod: Pod) -> None:
        self.environment = coordinator.environment
        self.pod = pod
        parameters = self.environment.parameters
        self._coordinator = coordinator
        self._held = Readings(self.environment, pod)
        self._consumer_id = ""
        self._generation = 0
        self._rejoining = True
        self._turn = 0
        self._session_us = (parameters.session_ms or _SESSION_MS) * MS
        self._interval_us = (parameters.heartbeat_ms or _HEARTBEAT_MS) * MS
        self._commit_us = (parameters.commit_ms or _COMMIT_MS) * MS

    def reading(self) -> set[TopicPartition]:
        """Return the partitions whose records it hands over."""
        return set(self._held.reading)

    def topic_grew(self) -> None:
        """Do nothing: the coordinator watches the topics."""

    def slow_poll(self, duration_us: int) -> None:
        """Do nothing more: heartbeats wait for the next poll anyway."""

    def start(self) -> None:
        """Join."""
        self.environment.ledger.rejoining(self.pod.identity, True)
        self.pod.after(int(self.environment.parameters.start_ms * MS), self._join)
        self.pod.after(self._commit_us, self._commit_on_time)

    def close(self) -> None:
        """Commit, leave and exit after the records at hand."""
        self.pod.after(self.environment.poll_wait_us(self.pod), self._close)

    def _close(self) -> None:
        self._turn += 1
        self._commit(self._exit)
        self._held.stop(set(self._held.owned))

    def _exit(self) -> None:
        if self._consumer_id:
            self._send("LeaveGroup", 40, self._coordinator.leave, self._consumer_id)
        self.pod.exit()

    # -- messages ----------------------------------------------------------------------------------

    def _send(self, api: str, size: int, call: Callable[..., None], *arguments: object) -> None:
        network = self.environment.network
        network.traffic.count(api, size, estimated=True)
        network.send(self.pod.name, ENDPOINT, call, *arguments)

    def _answer(self, turn: int, then: Callable[..., None], *result: object) -> None:
        """Carry the response to a request of a turn back."""
        pod = self.pod
        arguments = (turn, then, result)
        self.environment.network.send(
            ENDPOINT, pod.name, pod.act, pod.life, self._receive, arguments
        )

    def _receive(self, turn: int, then: Callable[..., None], result: tuple[object, ...]) -> None:
        if turn == self._turn:
            then(*result)

    # -- the rebalance -----------------------------------------------------------------------------

    def _join(self) -> None:
        self._turn += 1
        self.environment.ledger.rejoining(self.pod.identity, True)
        self._rejoining = True
        turn = self._turn
        self._send(
            "JoinGroup", 80, self._coordinator.join, self._consumer_id, self.pod.identity,
            self._session_us, lambda joined: self._answer(turn, self._on_join, joined),
        )  # fmt: skip

    def _on_join(self, joined: Joined) -> None:
        if joined.error == UNKNOWN_STRATEGY:
            # Another try would be refused, too: the application gets an exception.
            self.environment.ledger.gave_up(self.pod.identity)
            return
        if joined.error:
            if joined.error == UNKNOWN_CONSUMER:
                self._consumer_id = ""
            self._later(_RETRY_US, self._join)
            return
        self._rejoining = False
        self._consumer_id = joined.consumer_id
        self._generation = joined.generation
        self.environment.ledger.count.attempts += 1
        self.environment.ledger.rejoining(self.pod.identity, False)
        self._held.take(joined.partitions)
        if joined.partitions:
            self._later(self.environment.callback_us(len(joined.partitions)), self._fetch)
        self._turn_beats()

    def _fetch(self) -> None:
        self._send("OffsetFetch", 60, self._fetch_at_server, self._turn, sorted(self._held.owned))

    def _fetch_at_server(self, turn: int, partitions: list[TopicPartition]) -> None:
        offsets = {each: self._coordinator.offsets.get(each, 0) for each in partitions}
        self._answer(turn, self._read, offsets)

    def _read(self, offsets: dict[TopicPartition, int]) -> None:
        for partition in sorted(offsets):
            self._held.start(partition, offsets[partition])

    def _turn_beats(self) -> None:
        """Send heartbeats from now on, in each poll after an interval."""
        delay_us = self._interval_us
        if self.environment.parameters.beat_phase == "kept":
            random = self.environment.world.stream(f"member {self.pod.name}")
            delay_us = random.randrange(1, self._interval_us)
        self._later(delay_us + self.environment.poll_wait_us(self.pod), self._beat)

    def _later(self, delay_us: int, call: Callable[[], None]) -> None:
        """Schedule a call that is void after the next join."""
        self.pod.after(delay_us, self._receive, self._turn, call, ())

    def _beat(self) -> None:
        self._send("Heartbeat", 30, self._beat_at_server, self._turn)
        self._later(self._interval_us + self.environment.poll_wait_us(self.pod), self._beat)

    def _beat_at_server(self, turn: int) -> None:
        error = self._coordinator.heartbeat(self._consumer_id, self._generation)
        self._answer(turn, self._on_beat, error)

    def _on_beat(self, error: int) -> None:
        if error == NONE or self._rejoining:
            return
        self._rejoining = True
        if error == UNKNOWN_CONSUMER:
            self._consumer_id = ""
        if error == NOT_COORDINATOR:
            # The coordinator is looked for again; reading goes on.
            self._rejoining = False
            return
        self._later(self.environment.poll_wait_us(self.pod), self._rejoin)

    def _rejoin(self) -> None:
        count = len(self._held.owned)
        self.environment.ledger.rejoining(self.pod.identity, True)
        callback_us = self.environment.callback_us(count)
        self._commit(lambda: self._later(callback_us, self._join))
        self._held.stop(set(self._held.owned))

    # -- offsets -----------------------------------------------------------------------------------

    def _commit_on_time(self) -> None:
        self.pod.after(self._commit_us, self._commit_on_time)
        if not self._rejoining:
            self._commit(lambda: None)

    def _commit(self, then: Callable[[], None]) -> None:
        offsets = self._held.positions(self._held.reading)
        if not offsets:
            then()
            return
        self._send(
            "OffsetCommit", 40 + 16 * len(offsets), self._commit_at_server,
            self._consumer_id, self._generation, offsets, self._turn, then,
        )  # fmt: skip

    def _commit_at_server(
        self,
        consumer_id: str,
        generation: int,
        offsets: dict[TopicPartition, int],
        turn: int,
        then: Callable[[], None],
    ) -> None:
        self._coordinator.commit(consumer_id, generation, offsets)
        self._answer(turn, then)


def _identity(consumer_id: str) -> str:
    """Return the member of a consumer id."""
    return consumer_id.rsplit("-", 1)[0]
