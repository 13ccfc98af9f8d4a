"""What faults change in decoded responses."""

from typing import Any

from coterie.address import Address
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from coterie.server.services import Services
from coterie.testing.detours import Edit


def throttle(milliseconds: int) -> Edit:
    """Return what puts a `throttle_time_ms` into a response."""

    def edit(response: Any) -> None:
        response.throttle_time_ms = milliseconds

    return edit


def node_elsewhere(broker: Services, where: Address) -> MetadataResponseBroker:
    """Return the broker that serves groups at the second listener, as Metadata lists it."""
    return MetadataResponseBroker(
        node_id=broker.node_id + 1, host=where.host, port=where.port, rack=None
    )


def add_node(node: MetadataResponseBroker) -> Edit:
    """Return what adds a broker to a Metadata response."""

    def edit(response: MetadataResponse) -> None:
        response.brokers.append(node)

    return edit


def name_coordinator(broker: Services, where: Address, group: str | None) -> Edit:
    """Return what names another coordinator in a FindCoordinator response.

    Args:
        broker: the broker; the other one has the next node id.
        where: the address of the other one.
        group: the group that has moved; None for all.
    """

    def edit(response: Any) -> None:
        # Older versions have one coordinator, in the response itself.
        for found in response.coordinators or [response]:
            if not found.error_code and group in (None, getattr(found, "key", group)):
                found.node_id, found.host, found.port = broker.node_id + 1, where.host, where.port

    return edit


def take_leaders_away(topic: str | None) -> Edit:
    """Return what takes the leaders of a topic, or of all, out of a Metadata response."""

    def edit(response: MetadataResponse) -> None:
        for each in response.topics:
            if topic in (None, each.name):
                for partition in each.partitions:
                    partition.error_code = ErrorCode.LEADER_NOT_AVAILABLE
                    partition.leader_id = -1

    return edit
