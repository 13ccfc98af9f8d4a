"""A process in virtual time: what it does when it is killed, paused or busy, and how it commits."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from coterie.assignors.model import TopicPartition
from coterie.conversation.member import Member
from coterie.coordinator.kernel.request import ClientContext
from coterie.lab.kernel import MS, SECOND
from tests.story.drawn.broker import Broker

COMMIT_US = 5 * SECOND


class Settings(NamedTuple):
    """What all processes of a group have in common.

    Attributes:
        group: its id, which is also the name of its topic.
        partitions: of the topic.
        assignor: eager or cooperative.
        session_ms, max_poll_ms: the timeouts.
        gives_reasons: whether a process says why it leaves (KIP-800).
    """

    group: str
    partitions: int
    assignor: str
    session_ms: int
    max_poll_ms: int
    gives_reasons: bool


class TimedProcess(Member):
    """A process that is a member of a group, whatever protocol it speaks.

    Attributes:
        settings: what all processes of its group have in common.
        client, host: its names.
        is_running: whether it has been started and neither stopped nor killed.
        owned: its partitions.
        rejoins_anew: whether it takes a new member id after the broker was away for longer than the
            session timeout.
        COMMIT_VERSION: the version of its OffsetCommit.
    """

    COMMIT_VERSION: ClassVar[int]

    def begin(self, broker: Broker, settings: Settings, client: str, host: str) -> None:
        """Describe a process that has not started."""
        self.broker = broker
        self.settings = settings
        self.client = client
        self.host = host
        self.rejoins_anew = False
        self.is_running = False
        self.owned: frozenset[int] = frozenset()
        self._context = ClientContext(client_host=f"/{host}", client_id=client)
        self._phase = "down"
        # What was scheduled in an earlier phase is not carried out.
        self._number = 0
        self._paused_until_us = self._busy_until_us = 0

    @property
    def identity(self) -> str:
        """The identity that findings name."""
        return self.instance_id or f"{self.client} at {self.host}"

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start as a new process."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop in order."""
        raise NotImplementedError

    def kill(self) -> None:
        """Die without a word."""
        self._down()

    def pause(self, duration_us: int) -> None:
        """Do nothing for some time, as with SIGSTOP or on a suspended machine."""
        self._paused_until_us = self._now_us + duration_us

    def hang(self, duration_us: int) -> None:
        """Process a batch for some time, without a poll; heartbeats go on."""
        self._busy_until_us = self._now_us + duration_us
        self._act_at(self._now_us + self.settings.max_poll_ms * MS, self._number, self._poll_is_due)

    def _poll_is_due(self) -> None:
        """Leave, because max.poll.interval.ms is over."""
        raise NotImplementedError

    def _unreachable(self) -> None:
        """Try again: the broker did not answer."""
        raise NotImplementedError

    def _down(self) -> None:
        self.is_running = False
        self._enter("down")
        self.owned = frozenset()

    # -- time --------------------------------------------------------------------------------------

    @property
    def _now_us(self) -> int:
        return self.broker.world.now_us

    @property
    def _is_busy(self) -> bool:
        return self._busy_until_us > self._now_us

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._number += 1

    def _after(self, delay_us: int, call: Callable[..., None], *arguments: Any) -> None:
        self._act_at(self._now_us + delay_us, self._number, call, *arguments)

    def _act_at(self, at_us: int, number: int, call: Callable[..., None], *arguments: Any) -> None:
        self.broker.world.at(at_us, self._act, number, call, arguments)

    def _act(self, number: int, call: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if number != self._number:
            return
        if self._paused_until_us > self._now_us:
            self._act_at(self._paused_until_us + 5 * MS, number, call, *arguments)
            return
        call(*arguments)

    def _send(self, request: Any, version: int, then: Callable[[Any], None]) -> None:
        number = self._number

        def answered(response: Any) -> None:
            self._act(number, self._unreachable if response is None else then,
                      () if response is None else (response,))  # fmt: skip

        self.broker.submit(self._context, request, version, answered)

    # -- commits -----------------------------------------------------------------------------------

    def _commit(self) -> None:
        if not self._is_busy:
            self._commit_once()
        self._after(COMMIT_US, self._commit)

    def _commit_once(self) -> None:
        if not self.owned:
            return
        offset = self._now_us // 10_000
        offsets = {TopicPartition(self.group_id, number): offset for number in sorted(self.owned)}
        request = self.commit_request(offsets, self.COMMIT_VERSION)
        self.broker.submit(self._context, request, self.COMMIT_VERSION, lambda _: None)
