"""The group coordinator of Coterie inside a run, unchanged: its clock, its log, its connections."""

from collections.abc import Callable, Hashable
from typing import Any

from coterie.conformance.harness import GROUP_APIS, START_MS
from coterie.coordinator.groups.classic.group import classic
from coterie.coordinator.groups.config import (
    ConsumerGroupConfig,
    GroupConfig,
    ShareGroupConfig,
    StreamsGroupConfig,
)
from coterie.coordinator.groups.recorded.group import RecordedGroup
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.lab.environment import Environment
from coterie.lab.kernel import MS, Violation
from coterie.lab.machine import Machine
from coterie.lab.machines.timed_coordinator import TimedCoordinator
from coterie.lab.pods import Pod
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_facts import GroupEpochRaised
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.journal_records import GenerationCompleted, MemberRemoved
from coterie.protocol.wire import Message

GROUP = "group"
ENDPOINT = "coordinator"
# The initial delay of KIP-134.
INITIAL_DELAY_MS = 3_000

_CONSUMER_GROUPS, _SHARE_GROUPS = ConsumerGroupConfig(), ShareGroupConfig()
_STREAMS_GROUPS = StreamsGroupConfig()

Handler = Callable[[Any], None]


class GroupHost(TimedCoordinator):
    """The coordinator, driven by the time of a run.

    Attributes:
        environment: the surroundings.
        on_generation: called with each completed generation.
    """

    def __init__(
        self,
        environment: Environment,
        initial_delay_ms: int,
        consumer: ConsumerGroupConfig,
        share: ShareGroupConfig,
        streams: StreamsGroupConfig,
    ) -> None:
        self.environment = environment
        self.on_generation: Callable[[GenerationCompleted], None] = lambda _: None
        self._waiting: dict[Hashable, tuple[Pod, int, Handler]] = {}
        self._number = 0
        self._epoch = 0
        self._contexts: dict[str, ClientContext] = {}
        self._sizes: dict[tuple[type[Message], int], int] = {}
        config = GroupConfig(
            group_initial_rebalance_delay_ms=initial_delay_ms,
            group_min_session_timeout_ms=1,
            offsets_topic_num_partitions=1,
            consumer=consumer,
            share=share,
            streams=streams,
        )
        records = environment.records
        start_ms = START_MS if records is None else records.start_ms
        append_us = int(environment.parameters.append_ms * MS)
        super().__init__(environment.world, config, start_ms, records, append_us)

    # -- requests ----------------------------------------------------------------------------------

    def submit(self, pod: Pod, request: Message, version: int, handler: Handler) -> None:
        """Send a request of a pod; `handler` gets the response in the same process."""
        api = GROUP_APIS[type(request)].name
        network = self.environment.network
        network.traffic.count(api, self._size(api, request, version))
        network.send(
            pod.name, ENDPOINT, self._arrive, pod, pod.life, pod.identity, request, version, handler
        )

    def find_coordinator(self, pod: Pod, then: Callable[[], None]) -> None:
        """Ask any broker for the coordinator."""
        network = self.environment.network
        network.traffic.count("FindCoordinator", 20, estimated=True)
        back_us = network.latency_us()
        network.send(pod.name, "broker", pod.after, back_us, then)

    def _size(self, api: str, request: Message, version: int) -> int:
        """Return the bytes of a request; those of heartbeats differ by a digit at most."""
        if api != "Heartbeat":
            return len(request.encode(version))
        key = (type(request), version)
        if key not in self._sizes:
            self._sizes[key] = len(request.encode(version))
        return self._sizes[key]

    def _arrive(
        self,
        pod: Pod,
        life: int,
        identity: str,
        request: Message,
        version: int,
        handler: Handler,
    ) -> None:
        if type(request) is JoinGroupRequest:
            _check_join(pod, request)
        self.set_clock()
        self._number += 1
        self._waiting[self._number] = (pod, life, handler)
        client = self._contexts.get(identity)
        if client is None:
            client = self._contexts[identity] = ClientContext(
                client_host=f"/{pod.name}", client_id=identity
            )
        effects = self.handle(request, RequestContext(client, version, self._number))
        self.carry_out(effects, self._number)
        self.arm()

    def deliver(self, to: Any, message: Any) -> None:
        """Send a response to the process that waits for it."""
        waiting = self._waiting.pop(to, None)
        if waiting is not None:
            pod, life, handler = waiting
            self.environment.network.send(ENDPOINT, pod.name, pod.act, life, handler, (message,))

    def carry_out(self, effects: Effects[Any], to: Hashable = None) -> None:
        """Carry effects out, and report generations and removed members to the ledger."""
        ledger = self.environment.ledger
        for event in effects.events:
            fact = event.fact
            if type(fact) is GenerationCompleted:
                ledger.generation([member.client_id for member in fact.members])
                self.environment.world.detail(
                    "coordinator completes", f"generation={fact.generation_id}"
                )
                self.on_generation(fact)
            elif type(fact) is GroupEpochRaised:
                self._epoch_raised(fact)
            elif type(fact) is MemberRemoved:
                ledger.noticed(fact.client_id)
        if self.records is not None:
            self.records.add(self.now_ms, effects.events)
        super().carry_out(effects, to)
        self.events.clear()
        if effects.requests:
            # The share coordinator is at hand, and writes before it answers.
            append_us = int(self.environment.parameters.append_ms * MS)
            self.environment.world.after(append_us, self._answer_state, self.life)

    def _answer_state(self, life: int) -> None:
        if life == self.life:
            self.set_clock()
            self.answer_state()
            self.arm()

    def _epoch_raised(self, fact: GroupEpochRaised) -> None:
        """Report that a group with epochs has other members, or other topics."""
        group = self.coordinator.group(GROUP)
        assert isinstance(group, RecordedGroup), "a group whose epoch rises exists"
        if group.members:
            ledger = self.environment.ledger
            ledger.generation([member.client_id for member in group.members.values()])
        self.environment.world.detail(
            "coordinator raises the epoch", f"epoch={fact.epoch}", f"because={fact.cause}"
        )

    # -- moves -------------------------------------------------------------------------------------

    def move(self, down_us: int) -> None:
        """Give the group up, and load it from its log after a while."""
        self.set_clock()
        self.life += 1
        # Replicas have what was appended.
        self.logs[0].acknowledge(len(self.logs[0].pending))
        self._epoch += 1
        self.carry_out(self.coordinator.unload(0, self._epoch, self.now_ms))
        self.environment.world.after(down_us, self._load)

    def _load(self) -> None:
        self.set_clock()
        self._epoch += 1
        if self.begin_load(0, self._epoch):
            self.finish_load(0)
        self.arm()

    def leader(self) -> str | None:
        """Return the pod of the group's leader."""
        group = classic(self.coordinator.group(GROUP))
        if group is None or group.leader is None:
            return None
        return group.members[group.leader].client_id.split(".")[0]


class HostedGroup(Machine):
    """A machine whose group is at the coordinator of Coterie.

    Attributes:
        host: the coordinator.
    """

    def __init__(
        self,
        environment: Environment,
        initial_delay_ms: int = INITIAL_DELAY_MS,
        *,
        consumer: ConsumerGroupConfig = _CONSUMER_GROUPS,
        share: ShareGroupConfig = _SHARE_GROUPS,
        streams: StreamsGroupConfig = _STREAMS_GROUPS,
    ) -> None:
        super().__init__(environment)
        set_ms = environment.parameters.initial_delay_ms
        delay_ms = initial_delay_ms if set_ms < 0 else set_ms
        self.host = GroupHost(environment, delay_ms, consumer, share, streams)

    def leader(self) -> str | None:
        """Return the pod of the group's leader."""
        return self.host.leader()

    def servers(self) -> list[str]:
        """Return the coordinator."""
        return [ENDPOINT]

    def coordinator_moves(self, down_us: int) -> None:
        """Unload the group, and load it from its log after a while."""
        self.host.move(down_us)


RETRIABLE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


def _check_join(pod: Pod, request: JoinGroupRequest) -> None:
    """Check that an eager consumer has given everything up before its JoinGroup arrives."""
    eager = request.protocol_type == "consumer" and request.protocols[0].name in _EAGER
    if eager and pod.running and pod.participant.reading():
        raise Violation("joins-with-nothing", f"{pod.name} joins and still reads")


_EAGER = ("range", "roundrobin", "sticky")
