"""Which brokers get the replicas of new partitions: the way in which Kafka deals them out.

The brokers stand in a circle, which begins with a random one and is turned by one for each
partition. When each of them has been first, their order is shuffled. Brokers that are down come
last, so that they lead nothing. Kafka's name of it is StripedReplicaPlacer.
"""

from collections.abc import Callable, Sequence

# Returns a random number below another one.
Below = Callable[[int], int]


def place_replicas(
    live: Sequence[int], fenced: Sequence[int], partitions: int, factor: int, below: Below
) -> list[list[int]]:
    """Return the replicas of new partitions.

    Args:
        live, fenced: the brokers that are up, of which there is one at least, and the others.
        partitions: the number of new partitions.
        factor: how many replicas each gets; at most as many as there are brokers.
        below: decides where it begins.
    """
    assert 0 < factor <= len(live) + len(fenced), "a broker has one replica of a partition"
    circle, down = sorted(live), sorted(fenced)
    first = below(len(circle))
    placed = []
    for number in range(partitions):
        if number and number % len(circle) == 0:
            circle, down = _shuffled(circle, below), _shuffled(down, below)
        turn = (first + number) % len(circle)
        placed.append([*circle[turn:], *circle[:turn], *down][:factor])
    return placed


def _shuffled(brokers: Sequence[int], below: Below) -> list[int]:
    left = list(brokers)
    return [left.pop(below(len(left))) for _ in brokers]
