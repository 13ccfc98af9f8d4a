"""Settings that a group may have for itself, within bounds of the broker [settings/groups].

`group.KIND.X` is the broker's value of a setting `KIND.X` of groups, and `group.KIND.min.X` and
`group.KIND.max.X` are its bounds.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from coterie.server.config.keys import InvalidValue

SESSION, HEARTBEAT = "session.timeout.ms", "heartbeat.interval.ms"
ASSIGNMENT = "assignment.interval.ms"


class Settings(Protocol):
    """The settings of the broker that have an effect."""

    def get_int(self, name: str) -> int:
        """Return the value of a whole number."""

    def get_text(self, name: str) -> str | None:
        """Return a text; None if it is not set."""

    def get_list(self, name: str) -> tuple[str, ...]:
        """Return the elements of a list; none if the list is not set."""


def check_bounds(broker: Settings, kind: str, rests: Sequence[str]) -> None:
    """Check settings of the broker against its own bounds, as Kafka does when it starts.

    Args:
        broker: the settings of the broker.
        kind: the type of groups.
        rests: the ends of the names of the settings; sessions and heartbeats are among them.

    Raises:
        InvalidValue: a value is out of bounds, or a session is not longer than a heartbeat.
    """
    for rest in rests:
        name, low, high = (f"group.{kind}.{bound}{rest}" for bound in ("", "min.", "max."))
        value, lowest, highest = (broker.get_int(each) for each in (name, low, high))
        if not lowest <= value <= highest:
            raise InvalidValue(f"{name}={value} is not between {low}={lowest} and {high}={highest}")
    session, heartbeat = f"group.{kind}.{SESSION}", f"group.{kind}.{HEARTBEAT}"
    if broker.get_int(heartbeat) >= broker.get_int(session):
        raise InvalidValue(f"{heartbeat} must be less than {session}")


def bounded(
    broker: Settings, kind: str, rests: Sequence[str], values: Mapping[str, str]
) -> list[int]:
    """Return settings of a group; what is beyond the present bounds is cut.

    Args:
        broker: the settings of the broker.
        kind: the type of groups.
        rests: the ends of the names of the settings.
        values: those of the group.
    """
    found = []
    for rest in rests:
        text = values.get(f"{kind}.{rest}")
        value = broker.get_int(f"group.{kind}.{rest}") if text is None else int(text)
        lowest = broker.get_int(f"group.{kind}.min.{rest}")
        highest = broker.get_int(f"group.{kind}.max.{rest}")
        found.append(min(max(value, lowest), highest))
    return found
