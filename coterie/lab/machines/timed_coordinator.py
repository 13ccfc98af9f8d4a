"""The coordinator of Coterie, driven by the time of a run.

Its clock is that of the run, its appends are durable some time later, and it wakes up at its next
deadline. What was appended in an earlier life is never acknowledged in a later one.
"""

from coterie.conformance.harness import Batch, CoordinatorHarness
from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.kernel.append import Append
from coterie.lab.kernel import MS, World
from coterie.lab.records import KeptRecords


class TimedCoordinator(CoordinatorHarness):
    """A coordinator whose time is that of a run.

    Attributes:
        world: the run.
        records: what its logs have; None if nobody reads them.
        life: is increased when the coordinator loses what it did not finish.
    """

    def __init__(
        self,
        world: World,
        config: GroupConfig,
        start_ms: int,
        records: KeptRecords | None,
        append_us: int,
    ) -> None:
        """Begin at the start of the run.

        Args:
            world: the run.
            config: the settings of the coordinator.
            start_ms: the epoch milliseconds at which the run starts.
            records: keeps what is appended.
            append_us: the time until an append is durable.
        """
        self.world = world
        self.records = records
        self.life = 0
        self._start_ms = start_ms
        self._append_us = append_us
        self._armed_ms: int | None = None
        super().__init__(config, start_ms)

    def append(self, append: Append) -> Batch:
        """Append a batch, which is durable after a while."""
        batch = super().append(append)
        if self.records is not None:
            self.records.append(self.now_ms, batch.pairs)
        self.world.after(self._append_us, self._durable, append.partition, self.life)
        return batch

    def set_clock(self) -> None:
        """Set the coordinator's clock to the time of the run."""
        self.now_ms = self._start_ms + self.world.now_us // MS

    def arm(self) -> None:
        """Wake up at the next deadline."""
        deadline_ms = self.coordinator.next_deadline_ms()
        if deadline_ms is not None and (self._armed_ms is None or deadline_ms < self._armed_ms):
            self._armed_ms = deadline_ms
            self.world.at((deadline_ms - self._start_ms) * MS, self._wake, deadline_ms)

    def disarm(self) -> None:
        """Forget the deadline, because the coordinator that had it is gone."""
        self._armed_ms = None

    def _durable(self, partition: int, life: int) -> None:
        if life == self.life:
            self.set_clock()
            self.acknowledge(partition, 1)
            self.arm()

    def _wake(self, deadline_ms: int) -> None:
        if deadline_ms != self._armed_ms:
            return
        self._armed_ms = None
        self.set_clock()
        self.fire_due_timers()
        self.arm()
