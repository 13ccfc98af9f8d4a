"""The coordinator of Coterie in virtual time, for many groups, with its records kept."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from coterie.conformance.harness import Pair
from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.event import Event
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.lab.kernel import World
from coterie.lab.machines.timed_coordinator import TimedCoordinator
from coterie.lab.records import KeptRecords
from coterie.protocol.messages.journal_records import (
    encode_fact,
)
from coterie.protocol.messages.partition_facts import PartitionLoaded
from coterie.protocol.wire import Message

# 2025-10-09 09:00:00 UTC.
START_MS = 1_760_000_400_000
_LATENCY_US = 1_500
_APPEND_US = 2_000

# Is called with the response, or with None if the broker cannot be reached.
Handler = Callable[[Any], None]


class _Records(KeptRecords):
    """The records of a broker, with the loads of its partitions."""

    def add(self, at_ms: int, events: Sequence[Event]) -> None:
        """Keep events of the coordinator, each as a record of the journal."""
        super().add(at_ms, events)
        loads: list[Pair] = [
            encode_fact(event.group_id, event.fact)
            for event in events
            if isinstance(event.fact, PartitionLoaded) and event.fact.group_count
        ]
        if loads:
            self.append_facts(at_ms, loads)


class Broker(TimedCoordinator):
    """A broker that coordinates all groups of a cluster.

    Attributes:
        is_down: whether it has been killed.
    """

    def __init__(self, world: World) -> None:
        self.records: KeptRecords
        self.is_down = False
        self._waiting: dict[Hashable, Handler] = {}
        self._number = 0
        config = GroupConfig(offsets_topic_num_partitions=1)
        super().__init__(world, config, START_MS, _Records(START_MS), _APPEND_US)

    def submit(self, client: ClientContext, request: Message, version: int, then: Handler) -> None:
        """Send a request; `then` gets the response some time later."""
        self.world.after(_LATENCY_US, self._arrive, client, request, version, then)

    def kill(self) -> None:
        """Stop at once: nobody gets a response any more."""
        self.is_down = True
        self.life += 1
        self.disarm()
        # What is in the records was durable.
        self.logs[0].acknowledge(len(self.logs[0].pending))
        waiting, self._waiting = self._waiting, {}
        for then in waiting.values():
            self.world.after(_LATENCY_US, then, None)

    def start(self) -> None:
        """Start again, with what was durable."""
        self.set_clock()
        self.is_down = False
        self.restart()
        self.events.clear()
        self.disarm()
        self.arm()

    def _arrive(self, client: ClientContext, request: Message, version: int, then: Handler) -> None:
        if self.is_down:
            self.world.after(_LATENCY_US, then, None)
            return
        self.set_clock()
        self._number += 1
        self._waiting[self._number] = then
        effects = self.handle(request, RequestContext(client, version, self._number))
        self.carry_out(effects, self._number)
        self.arm()

    def deliver(self, to: Any, message: Any) -> None:
        """Send a response."""
        then = self._waiting.pop(to, None)
        if then is not None:
            self.world.after(_LATENCY_US, then, message)

    def carry_out(self, effects: Effects[Any], to: Hashable = None) -> None:
        """Carry effects out, and keep the facts."""
        self.records.add(self.now_ms, effects.events)
        super().carry_out(effects, to)
        self.events.clear()
