"""RocketMQ's ordered mode: a client locks a queue at its broker before it consumes it.

A lock lives 60 s. Its client renews it one second after its start and then every 20 s, and does not
trust it for more than 30 s, so no two clients consume a queue at a time. A lock outlives a process
that dies: its queues wait for the end of the lock. A client that consumes messages of a queue gives
it up when it has finished them.
"""

from collections.abc import Iterable

from coterie.assignors.model import TopicPartition
from coterie.lab.environment import Environment
from coterie.lab.kernel import MS
from coterie.lab.machine import Machine
from coterie.lab.machines.rocketmq import ClientOptions, PushConsumer, RocketMqGroup
from coterie.lab.pods import Participant, Pod

_LOCK_US = 60_000 * MS
_FIRST_RENEW_US = 1_000 * MS
_RENEW_US = 20_000 * MS
_TRUST_US = 30_000 * MS
_REFUSED_US = 500 * MS
# How long an allocation waits for the messages of a queue, and after which time it waits no more.
_PATIENCE_US = 500 * MS
_FORCED_US = 20_000 * MS


class OrderedGroup(RocketMqGroup):
    """Push consumers that consume in order, and the locks of their queues."""

    may_double = False
    # It is tried again and again, because the order is kept.
    deliveries = 0
    # The locks are in the memory of the broker.
    doubling = Machine.doubling | {"coordinator_moves", "broker_dies"}

    def __init__(self, environment: Environment, options: ClientOptions) -> None:
        super().__init__(environment, options)
        self._locks: dict[TopicPartition, tuple[str, int]] = {}

    def participant(self, pod: Pod) -> Participant:
        """Return an ordered push consumer."""
        return OrderedConsumer(self, pod)

    def coordinator_moves(self, down_us: int) -> None:
        """Restart the broker, which loses the locks."""
        super().coordinator_moves(down_us)
        self._locks.clear()

    def lock(self, identity: str, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Lock queues for a client, or renew its locks; return those that it has now."""
        now_us = self.environment.world.now_us
        granted: set[TopicPartition] = set()
        if self.brokers[0].away:
            return granted
        for partition in partitions:
            holder, until_us = self._locks.get(partition, (identity, 0))
            if holder == identity or until_us < now_us:
                self._locks[partition] = (identity, now_us + _LOCK_US)
                granted.add(partition)
        return granted

    def unlock(self, identity: str, partitions: Iterable[TopicPartition]) -> None:
        """Release the locks that a client has."""
        for partition in partitions:
            if self._locks.get(partition, ("", 0))[0] == identity:
                del self._locks[partition]


class OrderedConsumer(PushConsumer):
    """An ordered push consumer in a pod."""

    def __init__(self, group: OrderedGroup, pod: Pod) -> None:
        super().__init__(group, pod)
        self._locks = group
        # When each lock was asked for last, of those that were granted.
        self._trusted_us: dict[TopicPartition, int] = {}
        # Since when a queue is to be given up.
        self._unwanted_us: dict[TopicPartition, int] = {}
        self._refused = False

    def slow_poll(self, duration_us: int) -> None:
        """Keep the queues until the messages at hand are consumed; `busy_until_us` says so."""

    def _register(self) -> None:
        super()._register()
        self.pod.after(_FIRST_RENEW_US, self._renew)

    # -- locks -------------------------------------------------------------------------------------

    def _apply(self, members: tuple[str, ...]) -> bool:
        self._refused = False
        changed = super()._apply(members)
        for partition in self._wanted & self._unwanted_us.keys():
            del self._unwanted_us[partition]
        return changed

    def _add(self, partitions: set[TopicPartition]) -> None:
        """Ask for the locks of queues; those that are granted are consumed."""
        self._ask_for_locks(sorted(partitions))

    def _ask_for_locks(self, partitions: list[TopicPartition]) -> None:
        self._group.traffic("LOCK_BATCH_MQ")
        broker, now_us = self._group.brokers[0], self.environment.world.now_us
        self.environment.network.send(
            self.pod.name, broker.name, self._lock_at_broker, partitions, now_us
        )

    def _lock_at_broker(self, partitions: list[TopicPartition], asked_us: int) -> None:
        granted = self._locks.lock(self.pod.identity, partitions)
        pod = self.pod
        arguments = (partitions, granted, asked_us)
        self.environment.network.send(
            self._group.brokers[0].name, pod.name, pod.act, pod.life, self._locked, arguments
        )

    def _locked(
        self, partitions: list[TopicPartition], granted: set[TopicPartition], asked_us: int
    ) -> None:
        """Consume queues whose locks were granted, and stop those whose locks were not."""
        for partition in granted:
            self._trusted_us[partition] = asked_us
            self.pod.after(_TRUST_US, self._end_trust, partition, asked_us)
        new = (granted & self._wanted) - self._held.owned
        if new:
            super()._add(new)
        refused = set(partitions) - granted
        self._lose(refused & self._held.owned)
        if refused & self._wanted and not self._refused:
            # The next allocation asks again.
            self._refused = True
            self.environment.ledger.rejoining(self.pod.identity, True)
            self._set_timer(_REFUSED_US)

    def _renew(self) -> None:
        self.pod.after(_RENEW_US, self._renew)
        if self._held.owned:
            self._ask_for_locks(sorted(self._held.owned))

    def _end_trust(self, partition: TopicPartition, asked_us: int) -> None:
        """Stop consuming a queue whose lock was not renewed."""
        if self._trusted_us.get(partition) == asked_us:
            self._lose({partition} & self._held.owned)

    def _lose(self, partitions: set[TopicPartition]) -> None:
        """Stop queues without a lock; the next allocation tries to get them back."""
        self._held.stop(partitions)
        for partition in partitions:
            self._unwanted_us.pop(partition, None)

    # -- giving up ---------------------------------------------------------------------------------

    def _drop(self, partitions: set[TopicPartition]) -> None:
        """Give queues up when the messages at hand are consumed, or at a later allocation."""
        if not partitions:
            return
        now_us = self.environment.world.now_us
        if self.pod.closing:
            self._wanted = set()
        wait_us = 0 if self.pod.closing else self.environment.poll_wait_us(self.pod)
        since_us = min(self._unwanted_us.setdefault(each, now_us) for each in partitions)
        if wait_us > _PATIENCE_US and now_us - since_us < _FORCED_US:
            return
        if self.pod.closing:
            self._release(partitions)
        else:
            self.pod.after(min(wait_us, _PATIENCE_US), self._release, partitions)

    def _release(self, partitions: set[TopicPartition]) -> None:
        given_up = (partitions & self._held.owned) - self._wanted
        super()._drop(given_up)
        for partition in given_up:
            self._unwanted_us.pop(partition, None)
            self._trusted_us.pop(partition, None)
        self._group.traffic("UNLOCK_BATCH_MQ")
        broker = self._group.brokers[0]
        self.environment.network.send(
            self.pod.name, broker.name, self._locks.unlock, self.pod.identity, given_up
        )
