"""The classic machines: consumers of several eras, on the coordinator of Coterie."""

from coterie.lab.environment import Environment
from coterie.lab.machines.consumer import COOPERATIVE, Consumer
from coterie.lab.machines.coordinator_host import INITIAL_DELAY_MS, HostedGroup
from coterie.lab.machines.group_member import MemberSettings, Versions
from coterie.lab.pods import Participant, Pod
from coterie.protocol.messages.journal_records import GenerationCompleted

_V09 = Versions(join=0, sync=0, heartbeat=0, leave=0, commit=2, fetch=1)
_V0_10 = Versions(join=2, sync=1, heartbeat=1, leave=1, commit=3, fetch=3)
_V3 = Versions(join=9, sync=5, heartbeat=4, leave=5, commit=8, fetch=8)

EAGER_09 = MemberSettings(
    "consumer", ("range",), _V09,
    session_ms=30_000, rebalance_ms=30_000, beats_in_poll=True,
)  # fmt: skip
EAGER_0_10_1 = MemberSettings("consumer", ("range",), _V0_10, session_ms=10_000)
EAGER_3 = MemberSettings("consumer", ("range", COOPERATIVE), _V3)
COOPERATIVE_3 = MemberSettings("consumer", (COOPERATIVE,), _V3)


class ClassicGroup(HostedGroup):
    """A group of consumers and its coordinator.

    Attributes:
        settings: the configuration of its members.
        generations: the completed generations.
    """

    def __init__(
        self,
        environment: Environment,
        settings: MemberSettings,
        *,
        initial_delay_ms: int = INITIAL_DELAY_MS,
        static: bool = False,
    ) -> None:
        super().__init__(environment, initial_delay_ms)
        parameters = environment.parameters
        self.keeps_identity = static
        self.generations: list[GenerationCompleted] = []
        self.host.on_generation = self.generations.append
        self.settings = settings._replace(
            heartbeat_ms=parameters.heartbeat_ms or settings.heartbeat_ms,
            session_ms=parameters.session_ms or settings.session_ms,
            rebalance_ms=parameters.rebalance_ms or settings.rebalance_ms,
            commit_ms=parameters.commit_ms or settings.commit_ms,
        )

        # A member that only sends heartbeats inside poll loses its place while it still reads, if
        # its application takes too long for a poll.
        rare_ms = 20 * parameters.poll_gap_ms
        self.may_double = self.settings.beats_in_poll and rare_ms > self.settings.session_ms
        self.restless = self.may_double

    def participant(self, pod: Pod) -> Participant:
        """Return a consumer; a static one has the name of its pod as instance id."""
        member = Consumer(self.host, pod, self.settings)
        if self.keeps_identity:
            member.instance_id = pod.name
        return member
