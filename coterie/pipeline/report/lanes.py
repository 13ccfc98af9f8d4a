"""The lanes of a group's page: one for each partition, reader of a partition, task and copy of it.

Invariant: the bars of a lane do not overlap, but for those of a partition that has one owner.
"""

from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

from coterie.client.names import cut
from coterie.pipeline.records.streams import ROLES
from coterie.pipeline.report.content import Place, Row
from coterie.protocol.messages.connect_protocol import CONNECTOR_TASK


class Lane(NamedTuple):
    """A lane; lanes are ordered by these fields.

    Attributes:
        topic: the topic, the connector, or the subtopology, which is a number in Kafka Streams.
        number: of the partition or task.
        role: the place of the task's role in `ROLES`; -1 for a partition.
        copy: a task may have several copies of one role at a time, a partition of a share group
            several readers; they are numbered.
    """

    topic: tuple[int, str]
    number: int
    role: int
    copy: int

    @property
    def text(self) -> str:
        """Its name, such as orders-1, orders-1 reader 2, 0_1, 0_1 standby, or 0_1 standby 2."""
        name = place_text((self.topic[1], self.number), is_task=self.role >= 0)
        if self.role < 0 and self.copy:
            return f"{name} reader {self.copy + 1}"
        if self.role <= 0:
            return name
        more = f" {self.copy + 1}" if self.copy else ""
        return f"{name} {ROLES[self.role]}{more}"


def in_lanes(rows: Iterable[Row], *, are_shared: bool = False) -> dict[Lane, list[Row]]:
    """Sort ownership into lanes.

    Args:
        rows: rows of `ownership`, in order of their beginnings.
        are_shared: whether several members may have a partition at a time.
    """
    lanes: dict[Lane, list[Row]] = {}
    for row in rows:
        # An earlier version had no column for it.
        role = row.get("role")
        lane = Lane(_ordered(row["topic"], role), row["partition"], _number(role), 0)
        # Only copies and readers overlap; other ownership that does is drawn in one lane.
        if are_shared or lane.role > 0:
            lane = _free(lanes, lane, row)
        lanes.setdefault(lane, []).append(row)
    return lanes


def _free(lanes: dict[Lane, list[Row]], lane: Lane, row: Row) -> Lane:
    """Return a lane that is free when a row begins, the one that its member had before if it is."""
    free = None
    for copy in count():
        candidate = lane._replace(copy=copy)
        if candidate not in lanes:
            return free or candidate
        last = lanes[candidate][-1]
        if last["to_ts"] is not None and last["to_ts"] <= row["from_ts"]:
            if last["member_key"] == row["member_key"]:
                return candidate
            free = free or candidate
    raise AssertionError("there is always one more lane")


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
