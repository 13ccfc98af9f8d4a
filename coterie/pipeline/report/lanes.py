"""The lanes of a group's page: one for each partition, task and copy of a task.

Invariant: the bars of a lane do not overlap.
"""

from collections.abc import Iterable
from typing import NamedTuple

from coterie.client.names import cut
from coterie.pipeline.records.streams import ROLES
from coterie.pipeline.report.content import Place, Row
from coterie.protocol.messages.connect_protocol import CONNECTOR_TASK

_FOREVER_MS = 1 << 62


class Lane(NamedTuple):
    """A lane; lanes are ordered by these fields.

    Attributes:
        topic: the topic, the connector, or the subtopology, which is a number in Kafka Streams.
        number: of the partition or task.
        role: the place of the task's role in `ROLES`; -1 for a partition.
        copy: a task may have several copies of one role at a time; they are numbered.
    """

    topic: tuple[int, str]
    number: int
    role: int
    copy: int

    @property
    def text(self) -> str:
        """Its name, such as orders-1, 0_1, 0_1 standby, or 0_1 standby 2."""
        name = place_text((self.topic[1], self.number), is_task=self.role >= 0)
        if self.role <= 0:
            return name
        more = f" {self.copy + 1}" if self.copy else ""
        return f"{name} {ROLES[self.role]}{more}"


def in_lanes(rows: Iterable[Row]) -> dict[Lane, list[Row]]:
    """Sort ownership into lanes.

    Args:
        rows: rows of `ownership`, in order of their beginnings.
    """
    lanes: dict[Lane, list[Row]] = {}
    ends: dict[Lane, int] = {}
    for row in rows:
        # An earlier version had no column for it.
        role = row.get("role")
        lane = Lane(_ordered(row["topic"], role), row["partition"], _number(role), 0)
        # Only copies overlap; ownership that does is drawn in one lane.
        while lane.role > 0 and ends.get(lane, 0) > row["from_ts"]:
            lane = lane._replace(copy=lane.copy + 1)
        ends[lane] = _FOREVER_MS if row["to_ts"] is None else row["to_ts"]
        lanes.setdefault(lane, []).append(row)
    return lanes


def place_text(place: Place, *, is_task: bool = False) -> str:
    """Return the name of a partition, of a Connect task or a connector itself.

    Args:
        place: the topic or connector and a number; of a task of a streams group the subtopology.
        is_task: whether it is one, which Kafka names as 0_1.
    """
    name, number = place
    if is_task:
        return cut(f"{name}_{number}")
    return cut(f"{name} (connector)" if number == CONNECTOR_TASK else f"{name}-{number}")


def _number(role: str | None) -> int:
    return ROLES.index(role) if role in ROLES else -1


def _ordered(topic: str, role: str | None) -> tuple[int, str]:
    return (int(topic) if role is not None and topic.isdecimal() else 0, topic)
