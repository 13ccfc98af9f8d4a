"""RocketMQ's push consumers: many brains, which agree by sorting the same lists.

Brokers only know who is connected. Every client asks one of them for the members, sorts members and
queues, and takes its own share; nothing keeps two clients from reading one queue. A notice of the
broker or a timer makes a client compute again.
"""

import zlib
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, NamedTuple

from coterie.assignors.averagely import share_of_client
from coterie.assignors.model import TopicPartition
from coterie.lab.environment import Environment
from coterie.lab.kernel import MS
from coterie.lab.machine import Machine
from coterie.lab.machines.readings import Readings
from coterie.lab.pods import Participant, Pod

_SCAN_US = 10_000 * MS
_SILENT_US = 120_000 * MS
_HEARTBEAT_US = 30_000 * MS
_ROUTE_US = 30_000 * MS
_PERSIST_MS = 5_000
# Until a broker has removed a client whose connection was closed: 33 to 64 ms measured.
_CLOSED_US = (30 * MS, 60 * MS)
_BYTES = 200

# The clients of a group, in order.
Members = tuple[str, ...]
# The topics and the number of queues of each, as a client has last seen them.
Route = tuple[tuple[str, int], ...]


class ClientOptions(NamedTuple):
    """What differs between the releases.

    Attributes:
        first_ms: from a client's start to its first allocation.
        pull_ms: from a new queue to its first pull.
        least_ms: the least time between two allocations.
        unbalanced_ms: the time to the next allocation after one that changed something; 0 for the
            usual period.
    """

    first_ms: int
    pull_ms: int
    least_ms: int
    unbalanced_ms: int


RELEASE_4 = ClientOptions(0, 0, 0, 0)
RELEASE_5 = ClientOptions(1_000, 500, 1_000, 1_000)


class _Channel:
    """A client at a broker."""

    def __init__(self, pod: Pod, on_notice: Callable[[], None], now_us: int) -> None:
        self.pod = pod
        self.life = pod.life
        self.on_notice = on_notice
        self.heard_us = now_us


class Broker:
    """A broker: the members of the group, and the offsets of the queues.

    Attributes:
        name: the endpoint.
        channels: the clients by identity.
        away: whether it is down.
    """

    def __init__(self, group: "RocketMqGroup", name: str) -> None:
        self.environment = group.environment
        self.name = name
        self.channels: dict[str, _Channel] = {}
        self.away = False
        self._members: Members | None = None
        self._group = group
        self._random = self.environment.world.stream(f"notices {name}")
        self.environment.world.after(_SCAN_US, self._scan)

    def heartbeat(self, identity: str, channel: _Channel) -> None:
        """Register a client, or note that it lives."""
        known = self.channels.get(identity)
        if self.away:
            return
        if known is not None and known.life == channel.life:
            known.heard_us = self.environment.world.now_us
            return
        self.channels[identity] = channel
        self._changed(notice=True)

    def remove(self, identity: str, *, notice: bool = True) -> None:
        """Remove a client that has left, or whose channel was closed."""
        if self.channels.pop(identity, None) is not None:
            self.environment.ledger.noticed(identity)
            self._changed(notice=notice)

    def members(self) -> Members | None:
        """Return the clients; None if the broker does not answer."""
        if self.away:
            return None
        if self._members is None:
            self._members = tuple(sorted(self.channels))
        return self._members

    def forget(self) -> None:
        """Lose the table of clients."""
        self.channels.clear()
        self._members = None

    def _scan(self) -> None:
        """Remove silent clients, without a notice."""
        self.environment.world.after(_SCAN_US, self._scan)
        late_us = self.environment.world.now_us - _SILENT_US
        for identity, channel in sorted(self.channels.items()):
            if channel.heard_us < late_us:
                self.remove(identity, notice=False)

    def _changed(self, *, notice: bool) -> None:
        members = self._members = tuple(sorted(self.channels))
        if self is self._group.brokers[0]:
            self.environment.ledger.membership(list(members))
        if notice:
            self._notify(members)

    def _notify(self, members: Members) -> None:
        """Send a notice to all clients; in a large group that is most of the work of a run."""
        self._group.traffic("NOTIFY_CONSUMER_IDS_CHANGED", len(members))
        send, name, loss = self.environment.network.send, self.name, self._group.loss
        for identity in members:
            if loss and self._random.random() < loss:
                continue
            channel = self.channels[identity]
            pod = channel.pod
            send(name, pod.name, pod.act, channel.life, channel.on_notice, ())


class RocketMqGroup(Machine):
    """Push consumers and their brokers.

    Attributes:
        options: of the clients.
        brokers: each has a part of the queues.
        offsets: the stored offsets.
        loss: the share of notices that get lost.
        route: the topics with their queues.
    """

    may_double = True
    # Sixteen times it is sent back to the broker, and delivered again later.
    deliveries = 17

    def __init__(self, environment: Environment, options: ClientOptions) -> None:
        super().__init__(environment)
        self.options = options
        self.loss = environment.parameters.notices_lost
        # The queues of a topic with so many of them, in order.
        self._queues: dict[tuple[str, int], list[TopicPartition]] = {}
        self.route: Route = tuple(environment.workload.counts.items())
        self.offsets: dict[TopicPartition, int] = {}
        self.brokers = [
            Broker(self, f"broker-{number}")
            for number in range(environment.parameters.rocketmq_brokers)
        ]

    def participant(self, pod: Pod) -> Participant:
        """Return a push consumer."""
        return PushConsumer(self, pod)

    def servers(self) -> list[str]:
        """Return the brokers."""
        return [broker.name for broker in self.brokers]

    def process_died(self, pod: Pod) -> None:
        """Close the channels of a process that has ended."""
        random = self.environment.world.stream("closed connections")
        for broker in self.brokers:
            delay_us = random.randrange(*_CLOSED_US)
            self.environment.world.after(delay_us, broker.remove, pod.identity)

    def learns_after_us(self, pod: Pod) -> int:
        """Return the time until the client's next look at the route."""
        random = self.environment.world.stream(f"metadata {pod.name}")
        return random.randrange(_ROUTE_US)

    def broker_dies(self, down_us: int) -> int:
        """Without a controller no other broker becomes the master: its queues wait for it."""
        self.coordinator_moves(down_us)
        return down_us

    def topic_grew(self) -> None:
        """Let each client learn at its next look at the route."""
        self.route = tuple(self.environment.workload.counts.items())
        super().topic_grew()

    def coordinator_moves(self, down_us: int) -> None:
        """Restart the first broker: its table of clients is empty afterwards."""
        broker = self.brokers[0]
        broker.away = True
        broker.forget()
        self.environment.world.after(down_us, self._back, broker)

    def _back(self, broker: Broker) -> None:
        broker.away = False

    def notices_lost(self, share: float) -> None:
        """Let a share of the notices get lost."""
        self.loss = share

    def share(self, index: int, clients: int, route: Route) -> set[TopicPartition]:
        """Return the share of the client with this place among the clients."""
        share: set[TopicPartition] = set()
        for topic, count in route:
            queues = self._queues.get((topic, count))
            if queues is None:
                queues = [TopicPartition(topic, number) for number in range(count)]
                self._queues[topic, count] = queues
            share.update(share_of_client(queues, index, clients))
        return share

    def traffic(self, api: str, times: int = 1) -> None:
        """Count messages."""
        self.environment.network.traffic.count(api, _BYTES, estimated=True, times=times)

    def store(self, offsets: dict[TopicPartition, int]) -> None:
        """Store offsets at the brokers."""
        for partition, offset in offsets.items():
            self.offsets[partition] = offset
            self.environment.ledger.committed(partition, offset)


class PushConsumer:
    """A push consumer in a pod."""

    def __init__(self, group: RocketMqGroup, pod: Pod) -> None:
        self.environment = group.environment
        self.pod = pod
        self._group = group
        self._route = group.route
        self._held = Readings(self.environment, pod)
        self._random = self.environment.world.stream(f"member {pod.name}")
        # The queues of the last allocation.
        self._wanted: set[TopicPartition] = set()
        # The number of the timer for the next allocation, and when it ends.
        self._timer = 0
        self._due_us = -1
        self._allocated_us = -(10**9)
        self._asking = False
        self._woken = False

    def reading(self) -> set[TopicPartition]:
        """Return the queues whose messages it consumes."""
        return set(self._held.reading)

    def slow_poll(self, duration_us: int) -> None:
        """Do nothing: consumer threads are apart from the rebalance."""

    def topic_grew(self) -> None:
        """See the new queues; the next allocation takes them into account."""
        self._route = self._group.route
        self.environment.ledger.noticed(None)

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Register at all brokers and allocate."""
        self.environment.ledger.rejoining(self.pod.identity, True)
        self.pod.after(int(self.environment.parameters.start_ms * MS), self._register)

    def _register(self) -> None:
        self._heartbeat()
        commit_ms = self.environment.parameters.commit_ms or _PERSIST_MS
        self.pod.after(commit_ms * MS, self._persist_on_time, commit_ms * MS)
        self._group.traffic("GET_ROUTEINFO_BY_TOPIC")
        # The least time between two allocations counts from the start, so a notice is no reason to
        # allocate sooner. The answer to the route comes before the first allocation.
        self._allocated_us = self.environment.world.now_us
        first_us = max(self._group.options.first_ms, 5) * MS
        self._set_timer(first_us)

    def close(self) -> None:
        """Persist, unregister, exit."""
        self.pod.after(self.environment.poll_wait_us(self.pod), self._close)

    def _close(self) -> None:
        self._drop(set(self._held.owned))
        for broker in self._group.brokers:
            self._group.traffic("UNREGISTER_CLIENT")
            network = self.environment.network
            network.send(self.pod.name, broker.name, broker.remove, self.pod.identity)
        self.pod.exit()

    def _heartbeat(self) -> None:
        self.pod.after(_HEARTBEAT_US, self._heartbeat)
        for broker in self._group.brokers:
            self._group.traffic("HEART_BEAT")
            channel = _Channel(self.pod, self._wake_up, self.environment.world.now_us)
            network = self.environment.network
            network.send(self.pod.name, broker.name, broker.heartbeat, self.pod.identity, channel)

    # -- the allocation ----------------------------------------------------------------------------

    def _set_timer(self, delay_us: int) -> None:
        self._timer += 1
        self._due_us = self.environment.world.now_us + delay_us
        self.pod.after(delay_us, self._time_passed, self._timer)

    def _time_passed(self, timer: int) -> None:
        if timer == self._timer:
            self._allocate()

    def _wake_up(self) -> None:
        """React to a notice: allocate now, or as soon as the least time has passed."""
        self.environment.ledger.rejoining(self.pod.identity, True)
        if self._asking:
            self._woken = True
            return
        now_us = self.environment.world.now_us
        wanted_us = max(now_us, self._allocated_us + self._group.options.least_ms * MS)
        if self._due_us > wanted_us or self._due_us < now_us:
            self._set_timer(wanted_us - now_us)

    def _allocate(self) -> None:
        """Ask a broker, chosen at random, for the members."""
        self._asking = True
        self._allocated_us = self.environment.world.now_us
        broker = self._random.choice(self._group.brokers)
        self._group.traffic("GET_CONSUMER_LIST_BY_GROUP")
        self.environment.network.send(self.pod.name, broker.name, self._ask, broker)

    def _ask(self, broker: Broker) -> None:
        pod = self.pod
        arguments = (broker.members(),)
        self.environment.network.send(
            broker.name, pod.name, pod.act, pod.life, self._on_members, arguments
        )

    def _on_members(self, members: Members | None) -> None:
        options, parameters = self._group.options, self.environment.parameters
        self._asking = False
        changed = members is not None and self._apply(members)
        if self._woken:
            self._woken = False
            self._set_timer(options.least_ms * MS)
            return
        unbalanced = changed or members is None
        self.environment.ledger.rejoining(self.pod.identity, unbalanced and options.least_ms > 0)
        if unbalanced and options.unbalanced_ms:
            self._set_timer(options.unbalanced_ms * MS)
        else:
            self._set_timer(parameters.rocketmq_interval_ms * MS)

    def _apply(self, members: Members) -> bool:
        """Take the own share among the members; return whether anything changed."""
        name, ledger = self.pod.identity, self.environment.ledger
        share: set[TopicPartition] = set()
        place = bisect_left(members, name)
        if place < len(members) and members[place] == name:
            share = self._share(members)
            ledger.count.attempts += 1
        ledger.view(name, zlib.crc32(",".join(members).encode()))
        self._wanted = share
        dropped = self._held.owned - share
        added = share - self._held.owned
        self._drop(dropped)
        if added:
            self._add(added)
        return bool(dropped or added)

    def _add(self, partitions: set[TopicPartition]) -> None:
        """Own queues, and get their offsets."""
        self._held.take(partitions)
        self._query(sorted(partitions))

    def _share(self, members: Members) -> set[TopicPartition]:
        index = bisect_left(members, self.pod.identity)
        return self._group.share(index, len(members), self._route)

    # -- queues and offsets ------------------------------------------------------------------------

    def _query(self, partitions: list[TopicPartition]) -> None:
        """Get the offsets of new queues, and pull after a while."""
        for _ in partitions:
            self._group.traffic("QUERY_CONSUMER_OFFSET")
        broker = self._group.brokers[0]
        self.environment.network.send(self.pod.name, broker.name, self._answer, partitions)

    def _answer(self, partitions: list[TopicPartition]) -> None:
        offsets = {each: self._group.offsets.get(each, 0) for each in partitions}
        pod = self.pod
        self.environment.network.send(
            self._group.brokers[0].name, pod.name, pod.act, pod.life, self._pull_later, (offsets,)
        )

    def _pull_later(self, offsets: dict[TopicPartition, int]) -> None:
        self.pod.after(self._group.options.pull_ms * MS, self._pull, offsets)

    def _pull(self, offsets: dict[TopicPartition, int]) -> None:
        for partition, offset in sorted(offsets.items()):
            self._held.start(partition, offset)

    def _drop(self, partitions: set[TopicPartition]) -> None:
        """Persist the offsets of queues and give them up."""
        self._persist(self._held.positions(partitions))
        self._held.stop(partitions)

    def _persist_on_time(self, period_us: int) -> None:
        self.pod.after(period_us, self._persist_on_time, period_us)
        self._persist(self._held.positions(self._held.reading))

    def _persist(self, offsets: dict[TopicPartition, int]) -> None:
        for _ in offsets:
            self._group.traffic("UPDATE_CONSUMER_OFFSET")
        if offsets:
            broker: Any = self._group.brokers[0]
            self.environment.network.send(self.pod.name, broker.name, self._group.store, offsets)
