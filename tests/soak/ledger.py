"""What the server acknowledged, and every answer that contradicts it."""

from collections import defaultdict

TopicPartition = tuple[str, int]

# More than this many violations are one story; the rest is only counted.
_VIOLATIONS_KEPT = 20


class Ledger:
    """The acknowledgements of one run.

    Attributes:
        counts: how often each thing happened, for the table.
        violations: contradictions, in words.
    """

    def __init__(self) -> None:
        self.counts: defaultdict[str, int] = defaultdict(int)
        self.violations: list[str] = []
        self._values: defaultdict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
        # By group and partition: the last acknowledged commit, and the greatest that was sent.
        self._acknowledged: dict[tuple[str, TopicPartition], int] = {}
        self._sent: dict[tuple[str, TopicPartition], int] = {}

    def violated(self, text: str) -> None:
        """Note a contradiction."""
        self.counts["violations"] += 1
        if len(self.violations) < _VIOLATIONS_KEPT:
            self.violations.append(text)

    # -- records -----------------------------------------------------------------------------------

    def produced(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """A record was acknowledged with an offset."""
        known = self._values[partition].setdefault(offset, value)
        if known != value:
            self.violated(f"{partition} offset {offset} was given to {known!r} and to {value!r}")
        self.counts["records produced"] += 1

    def consumed(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """A consumer read a record."""
        known = self._values[partition].get(offset)
        if known is not None and known != value:
            self.violated(f"{partition} offset {offset} holds {value!r} instead of {known!r}")
        self.counts["records consumed"] += 1

    def read_back(self, partition: TopicPartition, records: dict[int, bytes]) -> None:
        """A partition was read from its beginning to its end, after all producers stopped."""
        acknowledged = self._values[partition]
        for offset, value in acknowledged.items():
            if records.get(offset) != value:
                self.violated(f"{partition} lost offset {offset}, acknowledged as {value!r}")
        values = [value for _, value in sorted(records.items())]
        if len(set(values)) != len(values):
            self.violated(f"{partition} has a record twice")
        if sorted(records) != list(range(len(records))):
            self.violated(f"the offsets of {partition} have gaps")
        self.counts["records read back"] += len(records)

    def partitions(self) -> list[TopicPartition]:
        """Every partition with an acknowledged record."""
        return sorted(self._values)

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted."""
        for partition in [each for each in self._values if each[0] == topic]:
            del self._values[partition]

    # -- commits -----------------------------------------------------------------------------------

    def committing(self, group: str, partition: TopicPartition, offset: int) -> None:
        """A commit is about to be sent."""
        self._sent[group, partition] = offset

    def committed(self, group: str, partition: TopicPartition, offset: int) -> None:
        """A commit was acknowledged."""
        self._acknowledged[group, partition] = offset
        self.counts["commits"] += 1

    def fetched(self, group: str, partition: TopicPartition, offset: int) -> None:
        """An OffsetFetch answered; no commit of this partition was sent meanwhile."""
        key = group, partition
        if key in self._sent and offset not in (self._acknowledged.get(key, -1), self._sent[key]):
            self.violated(
                f"{group} {partition} is committed at {offset}; {self._sent[key]} was sent last and"
                f" {self._acknowledged.get(key)} acknowledged last"
            )
        self.counts["commits read back"] += 1
