"""The turns that may be longer than the limit, each with its reason and a limit of its own.

The output of the hunt names them, and docs/limits.md explains them to users.
"""

from typing import NamedTuple


class Documented(NamedTuple):
    """One exception.

    Attributes:
        most_ms: how much of a processor such a turn may use.
        reason: why it cannot be divided.
    """

    most_ms: float
    reason: str


# By the name of the verb.
DOCUMENTED: dict[str, Documented] = {
    name: Documented(
        150.0,
        "a batch above 10 MiB, for which message.max.bytes must be raised, is checked, copied and"
        " written in one step",
    )
    for name in (
        "Produce of one large batch",
        "Produce of many records",
    )
}
