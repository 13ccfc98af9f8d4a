"""The bounds of the numbers that tests and the control port give.

Every number of the public API has a row here, by the name of its parameter; nothing else checks a
number. Kafka's own checks, such as that of the partitions of a topic, follow after these.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from coterie.server.network.json_values import shortened
from coterie.testing.errors import WrongUse

_INT16 = 2**15 - 1
_INT32 = 2**31 - 1
_INT64 = 2**63 - 1
# Ten years: longer than every retention that a test waits for, and short enough for the clock of an
# event loop, which counts seconds as a float and would stand still at 1e300.
_LONGEST_S = 315_576_000.0


class Bounds(NamedTuple):
    """From where to where a number may be.

    Attributes:
        lowest, highest: both are allowed.
        kind: int for a whole number, float for any.
        is_open: whether the lowest is not allowed itself.
    """

    lowest: float
    highest: float
    kind: type = int
    is_open: bool = False

    def __str__(self) -> str:
        kind = "a whole number" if self.kind is int else "a number"
        low, high = _text(self.lowest), _text(self.highest)
        if self.is_open:
            return f"{kind} above {low} and at most {high}"
        return f"{kind} from {low} to {high}"

    @property
    def schema(self) -> dict[str, float]:
        """The bounds in JSON Schema."""
        lowest = "exclusiveMinimum" if self.is_open else "minimum"
        return {lowest: self.lowest, "maximum": self.highest}

    def has(self, value: Any) -> bool:
        """Return whether a value is such a number."""
        kinds = int if self.kind is int else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            return False
        # Not a number is neither above nor below.
        above = value > self.lowest if self.is_open else value >= self.lowest
        return bool(above and value <= self.highest)


BOUNDS: dict[str, Bounds] = {
    # Time.
    "seconds": Bounds(0, _LONGEST_S, float),
    "for_seconds": Bounds(0, _LONGEST_S, float, is_open=True),
    "timeout_s": Bounds(0, _LONGEST_S, float),
    # `throttle_time_ms` has 32 bits.
    "milliseconds": Bounds(0, _INT32),
    "detect_ms": Bounds(0, _INT32),
    "timestamp_ms": Bounds(-1, _INT64),
    # What Kafka counts in 16, 32 and 64 bits. -1 are the default partitions of a topic.
    "partitions": Bounds(-1, _INT32),
    "partition": Bounds(0, _INT32),
    "since_generation": Bounds(-1, _INT32),
    "offset": Bounds(-1, _INT64),
    "to_offset": Bounds(0, _INT64),
    "node_id": Bounds(0, _INT32),
    "to": Bounds(0, _INT32),
    "replicas": Bounds(-1, _INT16),
    "version": Bounds(0, _INT16),
    "port": Bounds(0, 2**16 - 1),
    # What a test counts.
    "members": Bounds(0, _INT32),
    "at_least": Bounds(1, _INT32),
    "standbys": Bounds(0, _INT32),
    "times": Bounds(1, _INT64),
    "skip": Bounds(0, _INT64),
    "connection_id": Bounds(0, _INT64),
    "fault_id": Bounds(1, _INT64),
    "sent_bytes": Bounds(0, _INT32),
    "probability": Bounds(0, 1, float, is_open=True),
    "seed": Bounds(-_INT64, _INT64),
}


def check(**numbers: Any) -> None:
    """Check numbers by the names of their parameters; None is a number that was left out.

    Raises:
        WrongUse: one is out of its bounds; the text says them.
    """
    for name, value in numbers.items():
        if value is not None and not BOUNDS[name].has(value):
            raise WrongUse(f"{name} is {BOUNDS[name]}, not {shortened(value)}")


def check_all(name: str, numbers: Iterable[Any]) -> None:
    """Check numbers that all are of one kind; see `check`."""
    for number in numbers:
        check(**{name: number})


def _text(number: float) -> str:
    return f"{int(number):,}" if number == int(number) else f"{number:g}"
