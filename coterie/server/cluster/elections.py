"""What happens to leaders and in-sync replicas when brokers come, go and are asked to lead.

Every function takes an image and returns the next one. The rules are those of a Kafka with three
brokers:

* A partition whose leader goes is led by the next live replica in the order of its replicas. Its
  leader epoch grows by one, also when no replica is left and nothing leads it.
* The broker that goes leaves the in-sync replicas; that does not change the epoch.
* A broker that comes back is in sync at once, because all brokers of a process have the same logs.
  It leads what nothing leads, and nothing else.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from coterie.server.cluster.image import NO_LEADER, ClusterImage, Node, Placement

# The epoch of the first leader.
FIRST_EPOCH = 0


def new_placement(replicas: Sequence[int], live: Iterable[int], epoch: int) -> Placement:
    """Return where a partition is that gets these replicas; the first live one leads it."""
    up = set(live)
    isr = [each for each in replicas if each in up]
    offline = [each for each in replicas if each not in up]
    leader_id = isr[0] if isr else NO_LEADER
    return Placement(leader_id, epoch, list(replicas), isr, offline)


def node_lost(image: ClusterImage, node_id: int) -> ClusterImage:
    """Return the image without a live broker: its partitions are led by others, or by none."""
    node = image.nodes[node_id]._replace(is_live=False)

    def without(where: Placement) -> Placement:
        if node_id not in where.replicas:
            return where
        left = _stepped_down(where, node_id)
        return left._replace(offline=sorted({*left.offline, node_id}))

    return _changed(image, without).with_node(node)


def leaders_moved_away(image: ClusterImage, node_id: int) -> ClusterImage:
    """Return the image in which a broker leads nothing that another one can lead.

    It is about to stop. What only it has stays with it until then.
    """

    def without(where: Placement) -> Placement:
        return _stepped_down(where, node_id) if len(where.isr) > 1 else where

    return _changed(image, without)


def node_joined(image: ClusterImage, node: Node) -> ClusterImage:
    """Return the image with a broker that is up again; it leads what nothing has led."""
    node_id = node.node_id

    def joined(where: Placement) -> Placement:
        if node_id not in where.replicas:
            return where
        isr = sorted({*where.isr, node_id})
        offline = [each for each in where.offline if each != node_id]
        if where.leader_id == NO_LEADER:
            return Placement(node_id, where.leader_epoch + 1, where.replicas, isr, offline)
        return where._replace(isr=isr, offline=offline)

    return _changed(image, joined).with_node(node._replace(is_live=True))


def leader_moved(image: ClusterImage, topic: str, index: int, node_id: int) -> ClusterImage:
    """Return the image in which a live broker leads a partition, in the next epoch.

    A broker that has no replica gets that of the present leader, or of the first replica.
    """
    where = image.placements[topic][index]
    assert image.nodes[node_id].is_live, "a broker that is down leads nothing"
    replicas = where.replicas
    if node_id not in replicas:
        leaves = where.leader_id if where.leader_id != NO_LEADER else replicas[0]
        replicas = [node_id if each == leaves else each for each in replicas]
    moved = new_placement(replicas, image.live_ids, where.leader_epoch + 1)
    return _placed(image, topic, index, moved._replace(leader_id=node_id))


def led_uncleanly(image: ClusterImage, topic: str, index: int) -> ClusterImage:
    """Return the image after an unclean election: another live replica leads, if there is one.

    The old leader follows it at once, and is in sync [cluster/unclean-election].
    """
    where = image.placements[topic][index]
    others = (each for each in where.isr if each != where.leader_id)
    return leader_moved(image, topic, index, next(others, where.leader_id))


def reassigned(
    image: ClusterImage, topic: str, index: int, replicas: Sequence[int]
) -> ClusterImage:
    """Return the image in which other brokers have a partition; its leader stays if it is one."""
    where = image.placements[topic][index]
    moved = new_placement(replicas, image.live_ids, where.leader_epoch)
    if where.leader_id in moved.isr:
        moved = moved._replace(leader_id=where.leader_id)
    else:
        moved = moved._replace(leader_epoch=where.leader_epoch + 1)
    return _placed(image, topic, index, moved)


def without_leaders(image: ClusterImage, partitions: Collection[tuple[str, int]]) -> ClusterImage:
    """Return the image in which nothing leads these partitions, as if all replicas were down."""
    changed = {
        name: [
            Placement(NO_LEADER, where.leader_epoch + 1, where.replicas, [], where.replicas)
            if (name, index) in partitions
            else where
            for index, where in enumerate(placed)
        ]
        for name, placed in image.placements.items()
    }
    return image.with_placements(changed)


def _stepped_down(where: Placement, node_id: int) -> Placement:
    """Return a placement without a broker in sync, which leads no longer."""
    isr = [each for each in where.isr if each != node_id]
    if where.leader_id != node_id:
        return where._replace(isr=isr)
    successor = next((each for each in where.replicas if each in isr), NO_LEADER)
    return where._replace(leader_id=successor, leader_epoch=where.leader_epoch + 1, isr=isr)


def _changed(image: ClusterImage, change: Callable[[Placement], Placement]) -> ClusterImage:
    changed = {name: list(map(change, placed)) for name, placed in image.placements.items()}
    return image.with_placements(changed)


def _placed(image: ClusterImage, topic: str, index: int, where: Placement) -> ClusterImage:
    placed = list(image.placements[topic])
    placed[index] = where
    return image.with_placements({**image.placements, topic: placed})
