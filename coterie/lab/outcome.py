"""The outcome of a run: one row, the same for every machine."""

from typing import Any, NamedTuple

from coterie.lab.entries import Interval

# The metrics of a row that tables show and sweeps compare, with their units.
METRICS = {
    "unowned": "partition-seconds without a reader",
    "unavailability": "the share of partition time without a reader",
    "double": "partition-seconds with two readers",
    "split_s": "seconds in which two members believe in one partition or act on different lists",
    "moves": "changes of a partition's owner",
    "fewest_moves": "moves that were necessary",
    "needless": "moves that were not",
    "settle_s": "seconds from the last event until all is read by one member each",
    "generations": "completed rebalances of the group",
    "attempts": "rebalances of single members",
    "give_ups": "members that stopped trying",
    "empty_members": "members that read nothing at the end",
    "delivered": "records handed over",
    "duplicates": "records handed over once more",
    "rewinds": "commits lower than the one before",
    "lost": "records that were skipped",
    "peak_backlog": "the largest lag of a partition, in records",
    "drain_s": "seconds from the last event until the lag is below a second",
    "requests": "messages to servers and from them unasked",
    "load_max_ms": "the longest wait of a request at a server",
}


class RunOutcome(NamedTuple):
    """What a run came to.

    Attributes:
        machine, scenario, members, partitions, seed: what was run.
        settings: settings that were changed.
        metrics: the metrics by name; None for one that does not exist.
        causes: partition-seconds without a reader, by cause.
        apis, api_bytes: messages and bytes by API.
        estimated: the APIs whose bytes are a guess.
        window_s: the length of the window.
        evidence: "simulated".
        digest: the hash of everything that happened.
        script: the hash of the script.
        intervals: the ownership over time, in microseconds from the beginning of the window.
    """

    machine: str
    scenario: str
    members: int
    partitions: int
    seed: int
    settings: dict[str, Any]
    metrics: dict[str, float | None]
    causes: dict[str, float]
    apis: dict[str, int]
    api_bytes: dict[str, int]
    estimated: list[str]
    window_s: float
    evidence: str
    digest: str
    script: str
    intervals: list[Interval]

    def row(self) -> dict[str, Any]:
        """Return the outcome as JSON, without the intervals."""
        row = self._asdict()
        del row["intervals"]
        return row
