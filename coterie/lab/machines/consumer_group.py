"""The machine of the consumer protocol (KIP-848), on the coordinator of Coterie.

A member has one request, the heartbeat. The coordinator assigns, and each member goes to its share
by itself: it gives partitions up, says so at once, and gets what others have given up with one of
its next heartbeats. Nobody waits for a member that keeps what it has.

    starting    it looks for the coordinator
    member      it sends heartbeats, and reads what it owns
    lost        it has lost its place, and waits for its application
    closing     it leaves
    fenced      another process has its instance id
"""

from typing import Any

from coterie.assignors.model import TopicPartition
from coterie.conversation.consumer_protocol_member import FENCED, ConsumerProtocolMember
from coterie.coordinator.groups.config import (
    ConsumerGroupConfig,
    ConsumerSettings,
    ConsumerSettingsTable,
    ShareGroupConfig,
    StreamsGroupConfig,
    StreamsSettings,
)
from coterie.lab.environment import Environment
from coterie.lab.kernel import MS
from coterie.lab.machine import Machine
from coterie.lab.machines.coordinator_host import GROUP, RETRIABLE, GroupHost, HostedGroup
from coterie.lab.machines.group_member import MemberSettings, Versions, partitions_text
from coterie.lab.machines.partition_reader import PartitionReader
from coterie.lab.parameters import Parameters
from coterie.lab.pods import Participant, Pod
from coterie.protocol.errors import ErrorCode
from coterie.protocol.wire import Message

_RETRY_US = 100 * MS
_DEFAULTS = ConsumerSettings()
_VERSIONS = Versions(join=0, sync=0, heartbeat=1, leave=1, commit=9, fetch=9)
_SETTINGS = MemberSettings(
    "consumer", (), _VERSIONS,
    heartbeat_ms=_DEFAULTS.heartbeat_interval_ms, session_ms=_DEFAULTS.session_timeout_ms,
)  # fmt: skip


class EpochGroup(HostedGroup):
    """A group whose coordinator knows the topics and assigns them.

    Attributes:
        topic_ids: the ids of the topics, by name.
    """

    def __init__(
        self,
        environment: Environment,
        config: ConsumerGroupConfig | ShareGroupConfig | StreamsGroupConfig,
    ) -> None:
        if isinstance(config, ConsumerGroupConfig):
            super().__init__(environment, consumer=config)
        elif isinstance(config, ShareGroupConfig):
            super().__init__(environment, share=config)
        else:
            super().__init__(environment, streams=config)
        names = environment.workload.counts
        self.topic_ids = {
            name: number.to_bytes(16, "big") for number, name in enumerate(names, start=1)
        }
        self._put_topics()

    def leader(self) -> str | None:
        """Return the first pod that runs: no member leads."""
        return Machine.leader(self)

    def topic_grew(self) -> None:
        """Let the coordinator know of new partitions: clients need not know of them."""
        self.host.set_clock()
        self._put_topics()
        self.environment.ledger.noticed(None)

    def _put_topics(self) -> None:
        for name, count in self.environment.workload.counts.items():
            self.host.put_topic(name, self.topic_ids[name], count)


class ConsumerProtocolGroup(EpochGroup):
    """A group of consumers that speak the consumer protocol, and its coordinator.

    Attributes:
        settings: the configuration of its members.
    """

    def __init__(self, environment: Environment) -> None:
        parameters = environment.parameters
        chosen = ConsumerSettings(
            parameters.session_ms or _DEFAULTS.session_timeout_ms,
            parameters.heartbeat_ms or _DEFAULTS.heartbeat_interval_ms,
            _DEFAULTS.assignment_interval_ms,
        )
        config = ConsumerGroupConfig(settings=ConsumerSettingsTable(chosen))
        super().__init__(environment, config)
        self.settings = coordinated_settings(_SETTINGS, chosen, parameters)

    def participant(self, pod: Pod) -> Participant:
        """Return a consumer."""
        return ProtocolConsumer(self.host, pod, self.settings, self.topic_ids)


def coordinated_settings(
    settings: MemberSettings, chosen: ConsumerSettings | StreamsSettings, parameters: Parameters
) -> MemberSettings:
    """Return the settings of members that take the times of their group from the coordinator.

    Args:
        settings: the defaults of the members.
        chosen: what the coordinator has for the group.
        parameters: those of the run.
    """
    return settings._replace(
        heartbeat_ms=chosen.heartbeat_interval_ms,
        session_ms=chosen.session_timeout_ms,
        rebalance_ms=parameters.rebalance_ms or settings.rebalance_ms,
        commit_ms=parameters.commit_ms or settings.commit_ms,
    )


class HeartbeatReader(PartitionReader):
    """A member in a pod whose heartbeats say all, until it has what the coordinator wants.

    Another base class makes its requests and takes the answers.

    Attributes:
        interval_ms: the time between two heartbeats, as the latest answer said.
    """

    interval_ms: int

    def _begin(self, host: GroupHost, pod: Pod, settings: MemberSettings) -> None:
        self.pod = pod
        self.host = host
        self.environment = host.environment
        self.settings = settings
        self.phase = "starting"
        self._random = self.environment.world.stream(f"member {pod.name}")
        self._begin_reading()
        # What it shall have; it gives up what is not in it before it takes what it does not have.
        self._wanted: frozenset[TopicPartition] = frozenset()
        self._is_changing = False
        self._waits = False
        self._beat = 0

    # -- the part of its protocol ------------------------------------------------------------------

    def next_beat(self) -> tuple[Message, bool]:
        """Return its next heartbeat, and whether that says what it owns."""
        raise NotImplementedError

    def last_beat(self) -> Message:
        """Return the heartbeat with which it leaves."""
        raise NotImplementedError

    def wanted_of(self, response: Any) -> frozenset[TopicPartition] | None:
        """Take an answer; return what it shall own, or None if the answer does not say."""
        raise NotImplementedError

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start as a new process."""
        self.environment.ledger.rejoining(self.pod.identity, True)
        self.pod.after(int(self.environment.parameters.start_ms * MS), self._find)

    def _find(self) -> None:
        self.host.find_coordinator(self.pod, self._send_beat)

    def close(self) -> None:
        """Stop after the records at hand: commit, leave, exit."""
        self.pod.after(self.environment.poll_wait_us(self.pod), self._close)

    def _close(self) -> None:
        self.phase = "closing"
        commits, owned = self.environment.parameters.commits_on_close, set(self._owned)
        callback_us = self.environment.callback_us(len(owned)) if owned else 0

        def committed(_: Any) -> None:
            self.pod.after(callback_us, self._leave)

        self._commit(self._reading if commits else (), committed)
        # Nobody polls any more, so nothing is read while the commit is under way.
        self._give_up(owned)

    def _leave(self) -> None:
        self.lose()
        self._send_leave()
        self.pod.exit()

    def _send_leave(self) -> None:
        version = self.settings.versions.leave
        self.host.submit(self.pod, self.last_beat(), version, lambda _: None)

    def slow_poll(self, duration_us: int) -> None:
        """Take long for the records at hand; too long, and the heartbeat thread leaves."""
        limit_us = self.settings.rebalance_ms * MS
        if duration_us > limit_us:
            self.pod.after(limit_us, self._leave_for_slowness)

    def _leave_for_slowness(self) -> None:
        if self.phase == "member":
            self._send_leave()
            self._fenced()

    def topic_grew(self) -> None:
        """Do nothing: the coordinator watches the topics."""

    # -- heartbeats --------------------------------------------------------------------------------

    def _send_beat(self) -> None:
        """Send a heartbeat, unless one is under way: its answer leads to the next."""
        if self._waits or self.phase not in ("starting", "member"):
            return
        self._waits = True
        request, says_owned = self.next_beat()
        if says_owned:
            self._detail("Heartbeat", f"epoch={self.generation_id}", f"owned={self.owned_text()}")
        self._begin_beats()
        self.host.submit(self.pod, request, self.settings.versions.heartbeat, self._on_beat)

    def _begin_beats(self) -> None:
        """Set the timer of the next heartbeat anew."""
        self._beat += 1
        delay_us = (self.interval_ms or self.settings.heartbeat_ms) * MS
        parameters = self.environment.parameters
        if parameters.beat_phase == "drifting":
            delay_us += int(self._random.uniform(0, parameters.beat_drift_ms) * MS)
        self.pod.after(delay_us, self._tick, self._beat)

    def _tick(self, beat: int) -> None:
        if beat == self._beat:
            self._send_beat()

    def _on_beat(self, response: Any) -> None:
        self._waits = False
        if self.phase not in ("starting", "member"):
            return
        wanted = self.wanted_of(response)
        if response.error_code:
            self._refused(response.error_code)
            return
        self.phase = "member"
        if wanted is not None:
            self._detail(
                "Heartbeat answered", f"epoch={self.generation_id}",
                f"assigned={partitions_text(wanted)}",
            )  # fmt: skip
            self.environment.ledger.count.attempts += 1
            self._wanted = wanted
        if not self._is_changing:
            self._go_on()

    def _refused(self, error: int) -> None:
        self._detail("Heartbeat refused", f"epoch={self.generation_id}", ErrorCode(error).name)
        if error in RETRIABLE:
            self.pod.after(_RETRY_US, self._find)
        elif error in FENCED:
            self._fenced()
        else:
            self.phase = "fenced"
            self.lose()

    def _fenced(self) -> None:
        """Give up what was lost when the application polls again, and join under the same id."""
        self.phase = "lost"
        self.generation_id, self._wanted = 0, frozenset()
        self.environment.ledger.rejoining(self.pod.identity, True)
        self.pod.after(self.environment.poll_wait_us(self.pod), self._start_over)

    def _start_over(self) -> None:
        self.lose()
        self.phase = "starting"
        self._find()

    # -- reconciliation ----------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Go to what the coordinator wants: give up first, then take [KIP-848]."""
        ledger = self.environment.ledger
        if self._owned == self._wanted:
            ledger.rejoining(self.pod.identity, False)
            self._commit_in_time()
            return
        ledger.rejoining(self.pod.identity, True)
        self._is_changing = True
        # Callbacks are called inside poll.
        self.pod.after(self.environment.poll_wait_us(self.pod), self._change)

    def _change(self) -> None:
        revoked = self._owned - self._wanted
        if not revoked or self.phase != "member":
            self._changed()
            return
        callback_us = self.environment.callback_us(len(revoked))

        def called_back(_: Any) -> None:
            self.pod.after(callback_us, self._changed)

        self._commit(revoked & self._reading, called_back)
        self._give_up(revoked)

    def _changed(self) -> None:
        """Take what is wanted, and confirm it at once."""
        self._is_changing = False
        if self.phase != "member":
            return
        if self._owned <= self._wanted:
            self._take(self._wanted - self._owned)
        self._send_beat()
        self._go_on()

    def _detail(self, *words: object) -> None:
        self.environment.world.detail(self.pod.identity, *words)


class ProtocolConsumer(HeartbeatReader, ConsumerProtocolMember):
    """A consumer in a pod that speaks the consumer protocol."""

    def __init__(
        self, host: GroupHost, pod: Pod, settings: MemberSettings, topic_ids: dict[str, bytes]
    ) -> None:
        super().__init__(
            GROUP,
            f"{pod.identity} id",
            names=sorted(topic_ids),
            topic_ids=topic_ids,
            rebalance_ms=settings.rebalance_ms,
        )
        self._begin(host, pod, settings)

    def next_beat(self) -> tuple[Message, bool]:
        """Return its next heartbeat; see `HeartbeatReader`."""
        request = self.heartbeat_request(self._owned, self.settings.versions.heartbeat)
        return request, request.topic_partitions is not None

    def last_beat(self) -> Message:
        """Return the heartbeat with which it leaves; see `HeartbeatReader`."""
        return self.leave_request(self.settings.versions.leave)

    def wanted_of(self, response: Any) -> frozenset[TopicPartition] | None:
        """Take an answer; see `HeartbeatReader`."""
        return self.take(response)
