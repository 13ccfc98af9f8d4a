"""A member of a classic group: joins, syncs, heartbeats, and starts over after errors.

What a member does with an assignment is the part of its subclasses: a consumer reads partitions, a
worker of Connect runs tasks.

    starting   it looks for the coordinator
    joining    its JoinGroup is under way
    syncing    its SyncGroup is under way
    member     it has an assignment
    preparing  it has heard of a rebalance, or was refused, and waits for its application
    closing    it leaves
    fenced     another process has its instance id
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from coterie.assignors.model import TopicPartition
from coterie.conversation.member import ClassicMember
from coterie.lab.environment import Environment
from coterie.lab.kernel import MS
from coterie.lab.machines.coordinator_host import GROUP, RETRIABLE, GroupHost
from coterie.lab.pods import Pod
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupResponse

_RETRY_US = 100 * MS


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions for a trace, in order; "-" for none."""
    return ",".join(f"{each.topic}-{each.partition}" for each in sorted(partitions)) or "-"


class Versions(NamedTuple):
    """The versions of the requests that a client sends."""

    join: int
    sync: int
    heartbeat: int
    leave: int
    commit: int
    fetch: int


class MemberSettings(NamedTuple):
    """A client.

    Attributes:
        protocol_type: "consumer" or "connect".
        protocols: the names in its JoinGroup, in order of preference.
        versions: of its requests.
        heartbeat_ms, session_ms, rebalance_ms: its timeouts.
        beats_in_poll: whether it only sends heartbeats inside poll, as before KIP-62.
        commit_ms: between two commits.
    """

    protocol_type: str
    protocols: tuple[str, ...]
    versions: Versions
    heartbeat_ms: int = 3_000
    session_ms: int = 45_000
    rebalance_ms: int = 300_000
    beats_in_poll: bool = False
    commit_ms: int = 5_000


class GroupMember(ClassicMember):
    """A member of a classic group in a pod.

    Attributes:
        pod, host, settings: where it runs, its coordinator, its configuration.
        phase: what it is doing; see above.
    """

    def __init__(self, host: GroupHost, pod: Pod, settings: MemberSettings) -> None:
        super().__init__(
            GROUP,
            protocols=settings.protocols,
            session_ms=settings.session_ms,
            rebalance_ms=settings.rebalance_ms,
            protocol_type=settings.protocol_type,
        )
        self.pod = pod
        self.host = host
        self.environment: Environment = host.environment
        self.settings = settings
        self.phase = "starting"
        self._turn = 0
        self._beat = 0
        self._heard_us = 0
        self._random = self.environment.world.stream(f"member {pod.name}")
        self._phase_us = self._random.randrange(settings.heartbeat_ms * MS)

    # -- the part of subclasses --------------------------------------------------------------------

    def reading(self) -> set[TopicPartition]:
        """Return the partitions whose records it hands over."""
        raise NotImplementedError

    def assign(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        """Return the assignment of each member, as the leader."""
        raise NotImplementedError

    def prepare(self, then: Callable[[], None]) -> None:
        """Give up what must be given up before a join, then go on."""
        raise NotImplementedError

    def adopt(self, assignment: bytes) -> None:
        """Apply an assignment."""
        raise NotImplementedError

    def lose(self) -> None:
        """Give everything up because the group has given it to others."""
        raise NotImplementedError

    def topic_grew(self) -> None:
        """Learn that the topics have more partitions."""
        raise NotImplementedError

    def owned_text(self) -> str:
        """Return what it has, for a trace."""
        return partitions_text(self.reading())

    def _detail(self, *words: object) -> None:
        self.environment.world.detail(self.pod.identity, *words)

    def poll_wait_us(self) -> int:
        """Return how long it takes until the application polls again."""
        return self.environment.poll_wait_us(self.pod)

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start as a new process."""
        self.environment.ledger.rejoining(self.pod.identity, True)
        self.pod.after(int(self.environment.parameters.start_ms * MS), self.find)

    def find(self) -> None:
        """Look for the coordinator and join."""
        self._enter("starting")
        self.host.find_coordinator(self.pod, self._in_turn(self.join))

    def close(self) -> None:
        """Stop after the records at hand: commit, leave, exit."""
        self.pod.after(self.poll_wait_us(), self._close)

    def _close(self) -> None:
        self._enter("closing")
        self.prepare(self._leave)

    def _leave(self) -> None:
        self.lose()
        if self.member_id and self.instance_id is None:
            self._send_leave()
        self.pod.exit()

    def _send_leave(self) -> None:
        version = self.settings.versions.leave
        request = self.leave_request(version)
        self.host.submit(self.pod, request, version, lambda _: None)

    def slow_poll(self, duration_us: int) -> None:
        """Take long for the records at hand; too long, and the heartbeat thread leaves."""
        limit_us = self.settings.rebalance_ms * MS
        if not self.settings.beats_in_poll and duration_us > limit_us:
            self.pod.after(limit_us, self._leave_for_slowness)

    def _leave_for_slowness(self) -> None:
        if self.phase in ("member", "preparing") and self.instance_id is None:
            self._send_leave()
            self._refused(ErrorCode.UNKNOWN_MEMBER_ID)

    def _enter(self, phase: str) -> None:
        self.phase = phase
        self._turn += 1
        self.environment.ledger.rejoining(self.pod.identity, phase != "member")

    def _in_turn(self, call: Callable[..., None]) -> Callable[..., None]:
        """Return the call, void as soon as the phase has changed."""
        turn = self._turn

        def guarded(*arguments: Any) -> None:
            if turn == self._turn:
                call(*arguments)

        return guarded

    def _after(self, delay_us: int, call: Callable[..., None]) -> None:
        self.pod.after(delay_us, self._in_turn(call))

    # -- joining -----------------------------------------------------------------------------------

    def join(self) -> None:
        """Send a JoinGroup."""
        version = self.settings.versions.join
        self._enter("joining")
        request = self.join_request(version)
        self._detail("JoinGroup", f"generation={self.generation_id}", f"owned={self.owned_text()}")
        self.host.submit(self.pod, request, version, self._in_turn(self._on_join))

    def _on_join(self, response: JoinGroupResponse) -> None:
        error = response.error_code
        if error:
            self._detail("JoinGroup refused", ErrorCode(error).name)
        else:
            role = f"leader of {len(response.members)}" if response.members else "follower"
            self._detail("JoinGroup answered", f"generation={response.generation_id}", role)
        self.take_join(response)
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            self.join()
        elif error:
            self._refused(error)
        else:
            self._enter("syncing")
            leads = bool(response.members) and not response.skip_assignment
            delay_ms = self.environment.parameters.assign_ms if leads else 0
            self._after(int(delay_ms * MS), self._sync)

    def _sync(self) -> None:
        joined = self.joined
        assert joined is not None, "a sync follows a join"
        assigns = joined.members and not joined.skip_assignment
        assignments = self.assign(joined) if assigns else {}
        version = self.settings.versions.sync
        request = self.sync_request(assignments, version)
        shares = f"assignments={len(assignments)}"
        self._detail("SyncGroup", f"generation={self.generation_id}", shares)
        self.host.submit(self.pod, request, version, self._in_turn(self._on_sync))

    def _on_sync(self, response: Any) -> None:
        if response.error_code:
            self._detail("SyncGroup refused", ErrorCode(response.error_code).name)
            self._refused(response.error_code)
            return
        self._enter("member")
        self._heard_us = self.environment.world.now_us
        self._begin_beats()
        self.environment.ledger.count.attempts += 1
        self.adopt(response.assignment)

    def rejoin(self) -> None:
        """Join again: at once, without waiting for the application."""
        self._enter("preparing")
        self.prepare(self._in_turn(self.join))

    def _rejoin_at_poll(self) -> None:
        self._enter("preparing")
        self._after(self.poll_wait_us(), self.rejoin)

    def _refused(self, error: int) -> None:
        """React to an error of a request."""
        if error in RETRIABLE:
            member = self.phase == "member"
            self._after(_RETRY_US, self._beat_again if member else self.find)
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin_at_poll()
        else:
            if error != ErrorCode.ILLEGAL_GENERATION:
                self.member_id = ""
            self.generation_id = -1
            self._enter("fenced" if error == ErrorCode.FENCED_INSTANCE_ID else "preparing")
            self._after(self.poll_wait_us(), self._start_over)

    def _start_over(self) -> None:
        """Give up what was lost; join as a new member unless another process has the place."""
        self.lose()
        if self.phase != "fenced":
            self.find()

    # -- heartbeats --------------------------------------------------------------------------------

    def _begin_beats(self) -> None:
        """Set the timer of heartbeats anew after a rebalance."""
        self._beat += 1
        interval_us = self.settings.heartbeat_ms * MS
        delay_us = interval_us
        if self.environment.parameters.beat_phase == "kept":
            delay_us -= (self.environment.world.now_us - self._phase_us) % interval_us
        self.pod.after(delay_us, self._tick, self._beat)

    def _tick(self, beat: int) -> None:
        if beat != self._beat:
            return
        parameters = self.environment.parameters
        delay_us = self.settings.heartbeat_ms * MS
        if parameters.beat_phase == "drifting":
            delay_us += int(self._random.uniform(0, parameters.beat_drift_ms) * MS)
        self.pod.after(delay_us, self._tick, beat)
        if self.phase not in ("member", "preparing"):
            return
        if not self.settings.beats_in_poll:
            self._send_beat()
        elif self.phase == "member":
            self.pod.after(self.poll_wait_us(), self._send_beat)

    def _beat_again(self) -> None:
        self.host.find_coordinator(self.pod, self._in_turn(self._send_beat))

    def _send_beat(self) -> None:
        if self.phase not in ("member", "preparing") or not self.member_id:
            return
        silent_us = self.environment.world.now_us - self._heard_us
        if self.phase == "member" and silent_us > self.settings.session_ms * MS:
            # The client ends its session by its own clock.
            self._refused(ErrorCode.UNKNOWN_MEMBER_ID)
            return
        version = self.settings.versions.heartbeat
        request = self.heartbeat_request(version)
        self.host.submit(self.pod, request, version, self._in_turn(self._on_beat))

    def _on_beat(self, response: Any) -> None:
        error = response.error_code
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._heard_us = self.environment.world.now_us
        if error == ErrorCode.NONE:
            return
        self._detail("Heartbeat refused", f"generation={self.generation_id}", ErrorCode(error).name)
        if self.phase == "preparing" and error in (ErrorCode.REBALANCE_IN_PROGRESS, *RETRIABLE):
            return
        self._refused(error)
