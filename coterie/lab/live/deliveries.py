"""What members of a live run have delivered and committed, record by record."""

from coterie.lab.kernel import SECOND
from coterie.processes.lines import Line, Partition

_METRICS = ("delivered", "duplicates", "rewinds", "lost", "peak_backlog", "drain_s")


class _Log:
    """One partition.

    Attributes:
        delivered: the offsets that were handed over, by any member.
        next: the offset after the highest of them.
        end: of the log.
        committed: the last commit.
        highest_commit: the highest one.
    """

    __slots__ = ("committed", "delivered", "end", "highest_commit", "next")

    def __init__(self) -> None:
        self.delivered: set[int] = set()
        self.next = 0
        self.end = 0
        self.committed = 0
        self.highest_commit = 0


class Deliveries:
    """Counts records and commits.

    Args:
        rate: records a second in a partition.
        begin_us: from when on things count, in microseconds since 1970.
        last_us: the last event, from which the time to drain is counted.
    """

    def __init__(self, rate: int, begin_us: int, last_us: int) -> None:
        self._rate = rate
        self._begin_us = begin_us
        self._last_us = last_us
        self._logs: dict[Partition, _Log] = {}
        self._delivered = 0
        self._duplicates = 0
        self._rewinds = 0
        self._peak = 0
        self._drained_us = last_us

    def apply(self, line: Line) -> None:
        """Apply a line; those of other kinds do nothing."""
        counts = line.at_us >= self._begin_us
        if line.event == "delivered":
            for topic, number, first, last in line.fields["batches"]:
                self._deliver(self._log(topic, number), first, last, counts=counts)
        elif line.event == "committed":
            for topic, number, offset in line.fields["offsets"]:
                self._commit(self._log(topic, number), offset, counts=counts)
        elif line.event == "produced":
            for topic, number, end in line.fields["ends"]:
                self._produce(self._log(topic, number), end, line.at_us)

    def _log(self, topic: str, number: int) -> _Log:
        return self._logs.setdefault((topic, number), _Log())

    def _deliver(self, log: _Log, first: int, last: int, *, counts: bool) -> None:
        offsets = range(first, last + 1)
        if counts:
            self._delivered += len(offsets)
            self._duplicates += sum(offset in log.delivered for offset in offsets)
        log.delivered.update(offsets)
        log.next = max(log.next, last + 1)

    def _commit(self, log: _Log, offset: int, *, counts: bool) -> None:
        if counts and offset < log.committed:
            self._rewinds += 1
        log.committed = offset
        log.highest_commit = max(log.highest_commit, offset)

    def _produce(self, log: _Log, end: int, at_us: int) -> None:
        log.end = max(log.end, end)
        behind = log.end - log.next
        if at_us >= self._begin_us:
            self._peak = max(self._peak, behind)
            if behind > self._rate:
                self._drained_us = max(self._drained_us, at_us)

    def metrics(self) -> dict[str, float | None]:
        """Return the metrics of an outcome that are about records; None if none were seen."""
        if not self._logs:
            return dict.fromkeys(_METRICS)
        lost = 0
        for log in self._logs.values():
            if log.delivered:
                wanted = range(min(log.delivered), log.highest_commit)
                lost += sum(offset not in log.delivered for offset in wanted)
        return {
            "delivered": self._delivered,
            "duplicates": self._duplicates,
            "rewinds": self._rewinds,
            "lost": lost,
            "peak_backlog": self._peak,
            "drain_s": round((self._drained_us - self._last_us) / SECOND, 6),
        }
