"""The producers of an open log: noting what is appended, and writing snapshots."""

from collections.abc import Iterable, Sequence

from coterie.storage.aborted_transactions import TransactionIndex
from coterie.storage.errors import CorruptLog
from coterie.storage.producer_loading import ProducerLoading, note_batch
from coterie.storage.producer_snapshots import ProducerSnapshots
from coterie.storage.producer_state import ProducerState
from coterie.storage.segment import Segment


class LogProducers:
    """The producers of one log.

    Attributes:
        snapshots: their snapshots.
    """

    __slots__ = ("_damage", "_state", "snapshots")

    def __init__(self, snapshots: ProducerSnapshots) -> None:
        """No producer is known yet."""
        self.snapshots = snapshots
        self._state = ProducerState()
        # The damage that kept them from being read.
        self._damage: CorruptLog | None = None

    @property
    def state(self) -> ProducerState:
        """The producers.

        Raises:
            CorruptLog: the log is damaged where they had to be read.
        """
        if self._damage is not None:
            raise self._damage
        return self._state

    @property
    def has_open_transaction(self) -> bool:
        """Whether a transaction is open, as far as is known of a damaged log."""
        return self._state.first_unstable_offset is not None

    def take(self, loading: ProducerLoading) -> None:
        """Take over the producers that were read when the log was opened."""
        assert not len(self._state), "the producers of a log are loaded once"
        self._state, self._damage = loading.state, loading.damage

    def note(
        self, data: bytes, positions: Sequence[int], transactions: TransactionIndex, now_ms: int
    ) -> None:
        """Note the batches of producers that were appended.

        Args:
            data: what was appended.
            positions: where the batches of producers begin in it.
            transactions: the aborted transactions of the segment.
            now_ms: epoch milliseconds.

        Raises:
            OSError: the end of an aborted transaction could not be written.
        """
        for position in positions:
            aborted = note_batch(self._state, data, position, now_ms)
            if aborted is not None:
                transactions.add(aborted)

    def write_snapshot(self, end_offset: int) -> None:
        """Write a snapshot, unless it could not be used.

        Args:
            end_offset: the end of the log.
        """
        if self._damage is None:
            self.snapshots.write(end_offset, self._state)

    def keep_snapshot(self, first: int, last: int, *, durable: bool) -> bool:
        """Return whether a start finds a snapshot between two offsets.

        Args:
            first, last: the offsets.
            durable: whether it must find one after a loss of power, too.

        Raises:
            OSError: it could not be synced.
        """
        assert first <= last, "the range of a snapshot begins before it ends"
        if self._damage is not None:
            # No snapshot can be written, and the next start finds the damage again.
            return True
        if durable:
            return self.snapshots.keep_durable(first, last)
        return any(first <= each <= last for each in self.snapshots.offsets)

    def require_snapshot(self, end_offset: int) -> None:
        """Write a snapshot whose first write has failed.

        Args:
            end_offset: the end of the log, which is synced.

        Raises:
            OSError: it could not be written.
        """
        assert self._damage is None, "a snapshot is written of producers that are known"
        self.snapshots.write_now(end_offset, self._state)
        newest = self.snapshots.offsets[-1]
        assert newest >= end_offset, "a snapshot stands at the end of the log or behind it"

    def prune_snapshots(self, segments: Iterable[Segment], *, durable: bool) -> None:
        """Remove snapshots that belong to none of the log's segments; see `prune`."""
        bases = {segment.base_offset for segment in segments}
        self.snapshots.prune(bases, durable=durable)
