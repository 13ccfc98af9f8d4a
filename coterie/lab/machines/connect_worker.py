"""A worker of Connect: a member of a group of type "connect" that runs tasks.

A task is a partition of the workload; connectors are assigned too, but deliver nothing. An eager
worker stops everything before each join. An incremental one goes on with everything, stops what the
leader has revoked and rejoins at once, and rejoins when the leader's delay has passed.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from coterie.assignors.model import TopicPartition
from coterie.coordinator.groups.classic.group import classic
from coterie.lab.environment import Environment
from coterie.lab.kernel import MS
from coterie.lab.machines.connect_assignor import (
    CONNECTOR,
    IncrementalAssignor,
    Unit,
    assign_eager,
)
from coterie.lab.machines.coordinator_host import RETRIABLE, HostedGroup
from coterie.lab.machines.group_member import GroupMember, MemberSettings, Versions
from coterie.lab.pods import Participant, Pod
from coterie.protocol.messages import connect_protocol as wire
from coterie.protocol.messages.join_group import JoinGroupResponse

_VERSIONS = Versions(join=9, sync=5, heartbeat=4, leave=5, commit=8, fetch=8)
_PROTOCOL_VERSIONS = {"default": 0, "compatible": 1, "sessioned": 2}
_CONFIG_OFFSET = 1


class ConnectOptions(NamedTuple):
    """The era of the workers.

    Attributes:
        protocols: in order of preference.
        backs_off: see `IncrementalAssignor`.
    """

    protocols: tuple[str, ...] = ("sessioned", "compatible", "default")
    backs_off: bool = True


class ConnectGroup(HostedGroup):
    """The workers of a Connect cluster and their coordinator.

    Attributes:
        offsets: the stored offset of each task.
        rounds: for each generation: the delay, and what each worker runs afterwards.
    """

    def __init__(self, environment: Environment, options: ConnectOptions) -> None:
        super().__init__(environment)
        parameters = environment.parameters
        self.options = options
        self.settings = MemberSettings(
            "connect",
            options.protocols,
            _VERSIONS,
            heartbeat_ms=parameters.heartbeat_ms or 3_000,
            session_ms=parameters.session_ms or 10_000,
            rebalance_ms=parameters.rebalance_ms or 60_000,
            commit_ms=parameters.commit_ms or 60_000,
        )
        self.offsets: dict[TopicPartition, int] = {}
        self.rounds: list[tuple[int, int, dict[str, list[Unit]]]] = []

    def participant(self, pod: Pod) -> Participant:
        """Return a worker."""
        return ConnectWorker(self, pod)

    @property
    def units(self) -> list[Unit]:
        """All connectors and tasks of the cluster's configuration."""
        workload = self.environment.workload
        connectors: list[Unit] = [(topic, CONNECTOR) for topic in workload.counts]
        return connectors + [(each.topic, each.partition) for each in workload.partitions]

    def learns_after_us(self, _pod: Pod) -> int:
        """Return after which time a worker has read the topic of configurations."""
        return self.environment.network.latency_us()


class ConnectWorker(GroupMember):
    """A worker in a pod."""

    def __init__(self, group: ConnectGroup, pod: Pod) -> None:
        super().__init__(group.host, pod, group.settings)
        self._group = group
        self._units: list[Unit] = []
        self._reading: set[TopicPartition] = set()
        self._completed_generation = -1
        self._assignor = IncrementalAssignor(
            self.environment.parameters.connect_delay_ms, backs_off=group.options.backs_off
        )
        self._flushing = False

    def reading(self) -> set[TopicPartition]:
        """Return the tasks that it runs."""
        return set(self._reading)

    def poll_wait_us(self) -> int:
        """Return 0: the tasks run in threads of their own."""
        return 0

    def topic_grew(self) -> None:
        """Join again, because the configuration has more tasks."""
        self.environment.ledger.noticed(None)
        if self.phase == "member":
            self.rejoin()

    # -- the rebalance -----------------------------------------------------------------------------

    def metadata(self, protocol: str) -> bytes:
        """Return where the worker is and what it runs."""
        version = _PROTOCOL_VERSIONS[protocol]
        allocation = None
        if version and self._units:
            running = wire.ConnectAssignment(
                leader="", leader_url="", config_offset=_CONFIG_OFFSET,
                assigned=_listed(self._units), revoked=None,
            )  # fmt: skip
            allocation = wire.encode_assignment(running, version)
        metadata = wire.ConnectWorkerMetadata(
            url=f"http://{self.pod.name}:8083/", config_offset=_CONFIG_OFFSET, allocation=allocation
        )
        return wire.encode_metadata(metadata, version)

    def assign(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        """Assign as the leader does."""
        assert joined.protocol_name, "a completed join has a protocol"
        version = _PROTOCOL_VERSIONS[joined.protocol_name]
        running = {each.member_id: _running(each.metadata) for each in joined.members}
        if not version:
            dealt = assign_eager(self._group.units, running)
            self._note_round(0, dealt)
            return {
                member_id: self._encoded(_listed(units), None, 0, 0)
                for member_id, units in dealt.items()
            }
        now_ms = self.environment.world.now_us // MS
        round_ = self._assignor.assign(
            self._group.units, running, self.generation_id, self._completed_generation, now_ms
        )
        now_us = self.environment.world.now_us
        self.environment.ledger.delays.add(now_us, now_us + round_.delay_ms * MS)
        after = {
            member_id: sorted(
                set(units) - set(round_.revoked[member_id]) | set(round_.assigned[member_id])
            )
            for member_id, units in running.items()
        }
        self._note_round(round_.delay_ms, after)
        return {
            member_id: self._encoded(
                _listed(round_.assigned[member_id]),
                _listed(round_.revoked[member_id]),
                round_.delay_ms,
                version,
            )
            for member_id in running
        }

    def _note_round(self, delay_ms: int, after: dict[str, list[Unit]]) -> None:
        group = classic(self.host.coordinator.group("group"))
        assert group is not None, "the leader has a group"
        names = {member_id: group.members[member_id].client_id for member_id in after}
        self._group.rounds.append(
            (self.generation_id, delay_ms, {names[each]: units for each, units in after.items()})
        )

    def _encoded(
        self,
        assigned: list[wire.ConnectorTasks],
        revoked: list[wire.ConnectorTasks] | None,
        delay_ms: int,
        version: int,
    ) -> bytes:
        assignment = wire.ConnectAssignment(
            leader=self.member_id,
            leader_url=f"http://{self.pod.name}:8083/",
            config_offset=_CONFIG_OFFSET,
            assigned=assigned,
        )
        if version:
            assignment.revoked = revoked
            assignment.delay_ms = delay_ms
        return wire.encode_assignment(assignment, version)

    def prepare(self, then: Callable[[], None]) -> None:
        """Stop all tasks before a join of the eager protocol, and before leaving."""
        eager = self._group.options.protocols == ("default",)
        if not self._units or not (eager or self.phase == "closing"):
            then()
            return
        count = len(self._units)
        self._stop(list(self._units))
        self._after(self.environment.callback_us(count), then)

    def adopt(self, assignment: bytes) -> None:
        """Stop what is revoked, start what is assigned; rejoin if anything is revoked."""
        self._completed_generation = self.generation_id
        decoded = wire.decode_assignment(assignment) if assignment else wire.ConnectAssignment()
        revoked = [unit for unit in _units(decoded.revoked) if unit in self._units]
        added = [unit for unit in _units(decoded.assigned) if unit not in self._units]
        self._stop(revoked)
        self._units += added
        tasks = [TopicPartition(*unit) for unit in added if unit[1] != CONNECTOR]
        for task in tasks:
            self.environment.ledger.take(self.pod.identity, task)
        if tasks:
            self.pod.after(self.environment.callback_us(len(tasks)), self._run, tasks)
        if _units(decoded.revoked):
            # Also if it never ran what is revoked: the leader gives lost work to a worker that is
            # back, and takes what is too much from it in the same round.
            self.environment.ledger.rejoining(self.pod.identity, True)
            self._after(self.environment.callback_us(len(revoked)), self.rejoin)
        elif decoded.delay_ms > 0:
            self.environment.ledger.rejoining(self.pod.identity, True)
            self._after(decoded.delay_ms * MS, self.rejoin)
        if not self._flushing:
            self._flushing = True
            self.pod.after(self.settings.commit_ms * MS, self._flush_on_time)

    def lose(self) -> None:
        """Stop all tasks."""
        self._stop(list(self._units))

    def _refused(self, error: int) -> None:
        """A worker that has not reached its coordinator for a heartbeat stops its tasks."""
        silent_us = self.environment.world.now_us - self._heard_us
        late = silent_us > self.settings.heartbeat_ms * MS
        if error in RETRIABLE and self.phase == "member" and late and self._units:
            self.lose()
            self._enter("preparing")
        super()._refused(error)

    # -- tasks -------------------------------------------------------------------------------------

    def _run(self, tasks: list[TopicPartition]) -> None:
        for task in tasks:
            if task in self._reading or tuple(task) not in self._units:
                continue
            self._reading.add(task)
            offset = self._group.offsets.get(task, 0)
            self.environment.ledger.start(self.pod.identity, task, offset)

    def _stop(self, units: list[Unit]) -> None:
        """Stop tasks; each stores its offset at its end."""
        for unit in units:
            self._units.remove(unit)
            if unit[1] == CONNECTOR:
                continue
            task = TopicPartition(*unit)
            self._flush(task)
            self._reading.discard(task)
            self.environment.ledger.stop(self.pod.identity, task)

    def _flush_on_time(self) -> None:
        self.pod.after(self.settings.commit_ms * MS, self._flush_on_time)
        for task in sorted(self._reading):
            self._flush(task)

    def _flush(self, task: TopicPartition) -> None:
        offset = self.environment.ledger.position(self.pod.identity, task)
        if offset is not None:
            self._group.offsets[task] = offset
            self.environment.ledger.committed(task, offset)


def _running(metadata: bytes) -> list[Unit]:
    """Return what a worker reports to run."""
    allocation = wire.decode_metadata(metadata).allocation
    return _units(wire.decode_assignment(allocation).assigned) if allocation else []


def _units(listed: Iterable[wire.ConnectorTasks] | None) -> list[Unit]:
    return [(each.connector, task) for each in listed or () for task in each.tasks]


def _listed(units: Iterable[Unit]) -> list[wire.ConnectorTasks]:
    found: dict[str, list[int]] = {}
    for connector, task in sorted(units):
        found.setdefault(connector, []).append(task)
    return [wire.ConnectorTasks(connector=name, tasks=tasks) for name, tasks in found.items()]
