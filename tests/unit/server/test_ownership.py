"""Who leads after random deaths, returns and moves, and what brokers take over and give up."""

from collections import Counter
from collections.abc import Callable
from random import Random

from coterie.server.cluster.elections import (
    leader_moved,
    leaders_moved_away,
    new_placement,
    node_joined,
    node_lost,
)
from coterie.server.cluster.image import NO_LEADER, ClusterImage, Node
from coterie.server.cluster.ownership import Claim, ownership
from coterie.server.cluster.replica_placer import place_replicas

CASES = 10_000
TOPIC = "__consumer_offsets"

# What each broker owns.
Held = dict[int, dict[int, int]]


def random_image(chance: Random) -> ClusterImage:
    """Return a cluster of some brokers, all live, with a topic."""
    brokers = list(range(1, chance.randint(2, 6)))
    factor = chance.randint(1, len(brokers))
    replicas = place_replicas(brokers, [], chance.randint(1, 8), factor, chance.randrange)
    placed = [new_placement(each, brokers, 0) for each in replicas]
    return ClusterImage("id", [Node(each, {}) for each in brokers], {TOPIC: placed})


def random_change(chance: Random, image: ClusterImage) -> ClusterImage:
    """Return the image after something has happened."""
    live = image.live_ids
    down = [each for each in image.nodes if each not in live]
    changes: list[Callable[[], ClusterImage]] = []
    if live:
        node_id, index = chance.choice(live), chance.randrange(len(image.placements[TOPIC]))
        changes += [
            lambda: node_lost(image, node_id),
            lambda: leaders_moved_away(image, node_id),
            lambda: leader_moved(image, TOPIC, index, node_id),
        ]
    if down:
        changes.append(lambda: node_joined(image, image.nodes[chance.choice(down)]))
    return chance.choice(changes)()


def follow(image: ClusterImage, held: Held) -> int:
    """Let every live broker do what it has to; return how much that was."""
    done = 0
    claimed: list[int] = []
    for node_id in image.live_ids:
        owned = held.setdefault(node_id, {})
        wanted = ownership(image, node_id, TOPIC, [Claim(*each) for each in owned.items()])
        for index in wanted.gives:
            del owned[index]
        for index, epoch in wanted.claims:
            assert epoch > owned.get(index, -1), "a claim is newer than what was owned"
            owned[index] = epoch
            claimed.append(index)
        done += len(wanted.gives) + len(wanted.claims)
    assert len(claimed) == len(set(claimed)), "nothing is claimed by two"
    return done


def check_change(before: ClusterImage, after: ClusterImage) -> None:
    """Check that leaders follow each other as in Kafka."""
    for old, new in zip(before.placements[TOPIC], after.placements[TOPIC], strict=True):
        changed = old.leader_id != new.leader_id
        assert new.leader_epoch - old.leader_epoch in ((1,) if changed else (0, 1))
        in_sync = [each for each in new.replicas if each in new.isr]
        assert (new.leader_id == NO_LEADER) == (not in_sync)
        assert set(new.isr) <= set(after.live_ids) or new.isr == [new.leader_id]
        is_lost = old.leader_id in before.live_ids and old.leader_id not in after.live_ids
        if is_lost and in_sync:
            assert new.leader_id == in_sync[0], "the next live replica leads"


def test_each_partition_has_one_owner_whatever_happens() -> None:
    chance = Random("ownership")
    done = 0
    for _ in range(CASES // 10):
        image, held = random_image(chance), Held()
        follow(image, held)
        for _ in range(10):
            before, image = image, random_change(chance, image)
            check_change(before, image)
            # The process of a broker that is down is dead, and owns nothing.
            held = {each: owned for each, owned in held.items() if each in image.live_ids}
            done += follow(image, held)
            assert not follow(image, held), "nothing goes to and fro"
            owners = {
                index: (node_id, epoch)
                for node_id, owned in held.items()
                for index, epoch in owned.items()
            }
            assert owners == {
                index: (where.leader_id, where.leader_epoch)
                for index, where in enumerate(image.placements[TOPIC])
                if where.leader_id != NO_LEADER
            }
    assert done > CASES / 10


def test_leaders_of_new_topics_are_spread_evenly() -> None:
    chance = Random("placing")
    for _ in range(CASES // 10):
        brokers = list(range(1, chance.randint(2, 10)))
        factor = chance.randint(1, len(brokers))
        placed = place_replicas(brokers, [], chance.randint(1, 40), factor, chance.randrange)
        leaders = Counter(dict.fromkeys(brokers, 0))
        leaders.update(replicas[0] for replicas in placed)
        assert max(leaders.values()) - min(leaders.values()) <= 1
