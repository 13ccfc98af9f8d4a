"""Which of the brokers of a test is in charge of a group or a partition now.

Views ask each time, so they follow what moves. Everything here is for the thread of the brokers.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from coterie.server.broker import Broker
from coterie.server.cluster.image import CoordinatorType
from coterie.testing.errors import WrongUse
from coterie.testing.runner import Runner

# A partition of a test is loaded within milliseconds.
_MOST_LOAD_S = 10.0
_PAUSE_S = 0.001


class Running(Protocol):
    """The brokers of a test, as views need them."""

    @property
    def thread(self) -> Runner:
        """Where they run."""

    @property
    def servers(self) -> Sequence[Broker]:
        """Those that run; others after a restart."""


class NobodyInCharge(WrongUse):
    """No broker that runs coordinates the group, or leads the partition."""


def any_server(running: Running) -> Broker:
    """Return a broker that runs; the first one.

    Raises:
        NobodyInCharge: none does.
    """
    for server in running.servers:
        return server
    raise NobodyInCharge("no broker runs")


def leader(running: Running, topic: str, index: int) -> Broker:
    """Return the broker that leads a partition, or any for one that does not exist.

    Raises:
        NobodyInCharge: the leader does not run, or there is none.
    """
    first = any_server(running)
    where = None if first.leadership is None else first.leadership.image.placed(topic, index)
    if where is None:
        return first
    for server in running.servers:
        if server.node_id == where.leader_id:
            return server
    raise NobodyInCharge(f"no broker that runs leads {topic}-{index}")


def coordinator(running: Running, group_id: str) -> Broker:
    """Return the broker that coordinates a group and has loaded it.

    Raises:
        NobodyInCharge: the coordinator does not run or is loading the group, or there is none.
    """
    server = _coordinator(running, group_id)
    if _is_loading(server, group_id):
        raise NobodyInCharge(f"broker {server.node_id} is still loading group '{group_id}'")
    return server


async def loaded_coordinator(running: Running, group_id: str) -> Broker:
    """Return the broker that coordinates a group, after it has loaded it.

    Raises:
        NobodyInCharge: the coordinator does not run, or there is none; or a load does not end.
    """
    left = int(_MOST_LOAD_S / _PAUSE_S)
    while left and _is_loading(_coordinator(running, group_id), group_id):
        left -= 1
        await asyncio.sleep(_PAUSE_S)
    return coordinator(running, group_id)


def node_of(server: Broker) -> int | None:
    """Return the id of a broker of several; None for the only one."""
    return None if server.leadership is None else server.node_id


def _coordinator(running: Running, group_id: str) -> Broker:
    first = any_server(running)
    if first.leadership is None:
        return first
    node_id = first.leadership.image.coordinator(CoordinatorType.GROUP, group_id)
    for server in running.servers:
        if server.node_id == node_id:
            return server
    what = "has no coordinator" if node_id is None else f"is at broker {node_id}, which is down"
    raise NobodyInCharge(f"group '{group_id}' {what}: wait_coordinator() waits for another one")


def _is_loading(server: Broker, group_id: str) -> bool:
    groups = server.groups
    return groups.is_loading(groups.coordinator.partition_for(group_id))
