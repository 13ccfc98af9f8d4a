"""The machine of share groups (KIP-932), whose members are at the coordinator of Coterie.

The coordinator assigns partitions, each to one member at least. Records are not owned with their
partition: its leader gives each one to a member that asks, locked until that acknowledges it. So a
partition is read as long as any member has it, nothing is handed over, and the position is that of
the partition. What a member had in hand is delivered to others: at once if its connection ends, and
else when the lock does.
"""

from typing import Any

from coterie.assignors.model import TopicPartition
from coterie.coordinator.groups.config import (
    ShareGroupConfig,
    ShareSettings,
    ShareSettingsTable,
)
from coterie.lab.environment import Environment
from coterie.lab.gaps import UNDETECTED, WAITING
from coterie.lab.kernel import MS, Violation
from coterie.lab.machines.consumer_group import EpochGroup
from coterie.lab.machines.coordinator_host import GROUP, RETRIABLE
from coterie.lab.pods import Participant, Pod
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

# The one that reads partitions in the ledger.
ALL = "all members"
# Kafka's defaults of share.delivery.count.limit and share.record.lock.duration.ms.
DELIVERY_LIMIT = 5
_LOCK_US = 30_000 * MS
_RETRY_US = 100 * MS
_DEFAULTS = ShareSettings()
_VERSION = 1
_LEAVES = -1


class ShareMachine(EpochGroup):
    """A share group and its coordinator.

    Attributes:
        interval_ms: the time between heartbeats until an answer says another.
    """

    shared = True
    deliveries = DELIVERY_LIMIT

    def __init__(self, environment: Environment) -> None:
        parameters = environment.parameters
        chosen = ShareSettings(
            parameters.session_ms or _DEFAULTS.session_timeout_ms,
            parameters.heartbeat_ms or _DEFAULTS.heartbeat_interval_ms,
            _DEFAULTS.assignment_interval_ms,
        )
        config = ShareGroupConfig(settings=ShareSettingsTable(chosen))
        super().__init__(environment, config)
        self.interval_ms = chosen.heartbeat_interval_ms
        # The members that fetch each partition, and where it goes on after a time without any.
        self._fetching: dict[TopicPartition, set[str]] = {}
        self._offsets: dict[TopicPartition, int] = {}

    def participant(self, pod: Pod) -> Participant:
        """Return a member."""
        return ShareConsumer(self, pod)

    def process_died(self, pod: Pod) -> None:
        """The connection of the member ends, and so do its locks."""
        self.redeliver(self.in_hand(pod.identity))
        self._stop(pod.identity, self._fetched(pod.identity), UNDETECTED)

    def process_paused(self, pod: Pod) -> None:
        """Let the member fetch nothing; what it has in hand stays locked for a while."""
        in_hand = self.in_hand(pod.identity)
        self.environment.world.after(_LOCK_US, self._lock_ends, pod, pod.life, in_hand)
        self._stop(pod.identity, self._fetched(pod.identity), UNDETECTED)
        pod.participant.paused()

    def _lock_ends(self, pod: Pod, life: int, in_hand: int) -> None:
        if pod.life == life and pod.paused:
            self.redeliver(in_hand)

    # -- reading -----------------------------------------------------------------------------------

    def fetch(self, identity: str, wanted: set[TopicPartition]) -> None:
        """Let a member fetch these partitions and no others."""
        for partition in sorted(wanted - self._fetched(identity)):
            readers = self._fetching.setdefault(partition, set())
            readers.add(identity)
            if len(readers) == 1:
                offset = self._offsets.get(partition, 0)
                self.environment.ledger.start(ALL, partition, offset)
        self._stop(identity, self._fetched(identity) - wanted, WAITING)

    def _stop(self, identity: str, partitions: set[TopicPartition], mark: str) -> None:
        ledger = self.environment.ledger
        for partition in sorted(partitions):
            self._fetching[partition].discard(identity)
            if not self._fetching[partition]:
                self._offsets[partition] = ledger.position(ALL, partition) or 0
                ledger.stop(ALL, partition, mark)

    def _fetched(self, identity: str) -> set[TopicPartition]:
        return {each for each, readers in self._fetching.items() if identity in readers}

    def in_hand(self, identity: str) -> int:
        """Return how many records a member is working on, on average."""
        workload, parameters = self.environment.workload, self.environment.parameters
        shares = [1 / len(self._fetching[each]) for each in self._fetched(identity)]
        return round(sum(shares) * workload.rate * parameters.poll_gap_ms / 1_000)

    def redeliver(self, records: int) -> None:
        """Deliver records once more, to others."""
        self.environment.ledger.count.duplicates += records
        self.environment.ledger.count.delivered += records

    def check(self) -> None:
        """Check that each partition is fetched by the members that have it, and by no others.

        Raises:
            Violation: it is not so.
        """
        for pod in self.environment.pods.values():
            if pod.running and not pod.paused:
                found = self._fetched(pod.identity)
                if found != pod.participant.reading():
                    raise Violation("share-readers", f"{pod.name} fetches {sorted(found)}")


class ShareConsumer:
    """A member in a pod.

    Attributes:
        phase: "starting" until it is a member, "member", or "closing".
    """

    def __init__(self, group: ShareMachine, pod: Pod) -> None:
        self.environment = group.environment
        self.pod = pod
        self.phase = "starting"
        self._group = group
        self._identity = pod.identity
        self._member_id = f"{pod.identity} id"
        self._epoch = 0
        self._interval_ms = group.interval_ms
        self._assigned: set[TopicPartition] = set()
        self._names = {topic_id: name for name, topic_id in group.topic_ids.items()}
        self._beat = 0

    def reading(self) -> set[TopicPartition]:
        """Return the partitions that it fetches."""
        return set(self._assigned)

    def topic_grew(self) -> None:
        """Do nothing: the coordinator watches the topics."""

    def slow_poll(self, duration_us: int) -> None:
        """Hold records for longer than their locks: they are delivered to another member."""
        if duration_us > _LOCK_US:
            in_hand = self._group.in_hand(self._identity)
            self.pod.after(_LOCK_US, self._group.redeliver, in_hand)

    def paused(self) -> None:
        """Fetch again when the process goes on."""
        self.pod.after(0, self._fetch)

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start as a new process."""
        self.environment.ledger.rejoining(self._identity, True)
        self.pod.after(int(self.environment.parameters.start_ms * MS), self._find)

    def _find(self) -> None:
        self._group.host.find_coordinator(self.pod, self._send_beat)

    def close(self) -> None:
        """Stop after the records at hand: acknowledge, leave, exit."""
        self.pod.after(self.environment.poll_wait_us(self.pod), self._close)

    def _close(self) -> None:
        self.phase = "closing"
        self._take(set())
        self._send(_LEAVES, lambda _: None)
        self.pod.exit()

    # -- heartbeats --------------------------------------------------------------------------------

    def _send_beat(self) -> None:
        if self.phase == "closing":
            return
        self._beat += 1
        self.pod.after(self._interval_ms * MS, self._tick, self._beat)
        self._send(self._epoch, self._on_beat)

    def _tick(self, beat: int) -> None:
        if beat == self._beat:
            self._send_beat()

    def _send(self, epoch: int, handler: Any) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self._member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if epoch else sorted(self._group.topic_ids),
        )
        self._group.host.submit(self.pod, request, _VERSION, handler)

    def _on_beat(self, response: ShareGroupHeartbeatResponse) -> None:
        if self.phase == "closing":
            return
        if response.error_code in RETRIABLE:
            self.pod.after(_RETRY_US, self._find)
            return
        if response.error_code:
            # It was forgotten, so it joins anew.
            self._detail("Heartbeat refused", ErrorCode(response.error_code).name)
            self._epoch = 0
            self._take(set())
            self.environment.ledger.rejoining(self._identity, True)
            self.pod.after(self.environment.poll_wait_us(self.pod), self._find)
            return
        self.phase, self._epoch = "member", response.member_epoch
        self._interval_ms = response.heartbeat_interval_ms
        self.environment.ledger.rejoining(self._identity, False)
        if response.assignment is not None:
            assigned = {
                TopicPartition(self._names[each.topic_id], index)
                for each in response.assignment.topic_partitions
                for index in each.partitions
            }
            self._detail("Heartbeat answered", f"epoch={self._epoch}", f"{len(assigned)} assigned")
            self.environment.ledger.count.attempts += 1
            self._take(assigned)

    def _take(self, assigned: set[TopicPartition]) -> None:
        self._assigned = assigned
        self._fetch()

    def _fetch(self) -> None:
        self._group.fetch(self._identity, self._assigned)

    def _detail(self, *words: object) -> None:
        self.environment.world.detail(self._identity, *words)
