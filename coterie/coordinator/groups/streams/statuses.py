"""What the answer to a heartbeat says of the group besides tasks [streams-groups/statuses].

| code | name                           | when                                                     |
|------|--------------------------------|----------------------------------------------------------|
| 0    | STALE_TOPOLOGY                 | the member has an older topology than the group          |
| 5    | ASSIGNMENT_DELAYED             | the initial delay or the assignment interval runs        |
| 1    | MISSING_SOURCE_TOPICS          | as the topology says with the topics that exist          |
| 2    | INCORRECTLY_PARTITIONED_TOPICS | likewise                                                 |
| 3    | MISSING_INTERNAL_TOPICS        | likewise; the server creates them after the answer       |
| 4    | SHUTDOWN_APPLICATION           | a member asked for it, until the group is without members|

They are in this order.
"""

from enum import IntEnum

from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.coordinator.groups.streams.member import StreamsMember
from coterie.coordinator.streams_topology.model import ConfiguredTopology
from coterie.protocol.messages.streams_group_heartbeat import StreamsHeartbeatStatus

INITIAL_DELAY = "Assignment delayed due to the configured initial rebalance delay."
INTERVAL = "Assignment delayed due to the configured assignment interval."


class Status(IntEnum):
    """The codes that do not come from the topology; those are `StatusCode`."""

    STALE_TOPOLOGY = 0
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


def statuses_of(
    group: StreamsGroup,
    member: StreamsMember,
    configured: ConfiguredTopology,
    delayed: str | None,
    shutdown_by: str | None,
) -> list[StreamsHeartbeatStatus]:
    """Return the statuses for a member.

    Args:
        group: its group.
        member: the member.
        configured: the topology of the group, with its tasks.
        delayed: why no target was computed; None if it was, or none was due.
        shutdown_by: the member that asked the application to shut down; None if none did.
    """
    found: list[tuple[int, str]] = []
    topology = group.topology
    if topology is not None and member.topology_epoch < topology.epoch:
        text = (
            f"The member's topology epoch {member.topology_epoch} is behind the group's topology "
            f"epoch {topology.epoch}."
        )
        found.append((Status.STALE_TOPOLOGY, text))
    if delayed is not None:
        found.append((Status.ASSIGNMENT_DELAYED, delayed))
    if configured.status is not None:
        found.append(configured.status)
    if shutdown_by is not None:
        text = (
            f"Streams group member {shutdown_by} encountered a fatal error and requested a "
            "shutdown for the entire application."
        )
        found.append((Status.SHUTDOWN_APPLICATION, text))
    return [StreamsHeartbeatStatus(status_code=code, status_detail=text) for code, text in found]
