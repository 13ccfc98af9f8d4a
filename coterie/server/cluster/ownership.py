"""Which partitions of a coordinator's topic a broker takes over, and which it gives up.

A broker owns what the image says that it leads, and nothing else. Pure: the same code decides for
brokers of one process and in a simulation.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coterie.server.cluster.image import ClusterImage, Placement


class Claim(NamedTuple):
    """A partition to take over, in an epoch."""

    partition: int
    epoch: int


class Ownership(NamedTuple):
    """What a broker has to do.

    Attributes:
        gives: the partitions to give up, which comes first.
        claims: the partitions to take over.
    """

    gives: list[int]
    claims: list[Claim]


def ownership(image: ClusterImage, node_id: int, topic: str, held: Iterable[Claim]) -> Ownership:
    """Compare what a broker owns of a topic with what it leads.

    Args:
        image: the cluster.
        node_id: the broker.
        topic: the topic of a coordinator.
        held: the partitions that the broker owns, with their epochs.
    """
    placed: Sequence[Placement] = image.placements.get(topic, ())
    led = {
        index: where.leader_epoch
        for index, where in enumerate(placed)
        if where.leader_id == node_id
    }
    owned = {each.partition: each.epoch for each in held}
    gives = [index for index in owned if index not in led]
    claims = [Claim(*each) for each in led.items() if owned.get(each[0], -1) < each[1]]
    return Ownership(gives, claims)
