"""The sequences with which producers may begin transactions in a partition.

A batch that begins a transaction may be refused while the next ones of its producer are on their
way already. None of them may be appended before it [data-plane/first-sequence].
"""

# Producers that never get further than this are forgotten in time.
_MAX_PRODUCERS = 1000


class FirstSequences:
    """The lowest sequence of each producer that has tried to begin a transaction."""

    __slots__ = ("_lowest",)

    def __init__(self) -> None:
        """Know no producer."""
        # Epoch and sequence by producer id; the first one is the oldest.
        self._lowest: dict[int, tuple[int, int]] = {}

    def note(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Note what a producer tries to begin with; the lowest one of the highest epoch counts."""
        assert producer_id >= 0, "only producers with an id begin transactions"
        known = self._lowest.get(producer_id)
        if known is None and len(self._lowest) >= _MAX_PRODUCERS:
            del self._lowest[next(iter(self._lowest))]
        if known is None or known[0] < epoch or (known[0] == epoch and known[1] > sequence):
            self._lowest[producer_id] = (epoch, sequence)
        assert self._lowest[producer_id][0] >= epoch, "the highest epoch counts"
        assert len(self._lowest) <= _MAX_PRODUCERS, "the number of producers is limited"

    def is_passed_over(self, producer_id: int, sequence: int) -> bool:
        """Return whether a batch of a producer would be appended before its first one."""
        known = self._lowest.get(producer_id)
        return known is not None and sequence > known[1]

    def forget(self, producer_id: int) -> None:
        """Forget a producer, because its transaction has begun or has ended."""
        self._lowest.pop(producer_id, None)
