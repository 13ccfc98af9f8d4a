"""Random deaths, stops, starts and moves of brokers, with invariants after each of them.

The numbers are those of the design: K1 one owner of a partition and epochs that only grow, K3 what
was acknowledged stays, K7 members keep their generation, K10 nothing is left of what was given up,
K12 all epochs agree.
"""

import random

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.server.cluster.image import CoordinatorType
from tests.unit.server.cluster import ManualCluster
from tests.unit.server.cluster_requests import (
    commit,
    committed,
    committing,
    coordinator,
    create,
    form,
    heartbeat,
    latest_offset,
    produced,
)

STEPS = 50
GROUPS = ("g", "h", "i")


class Story:
    """A cluster with a topic and three groups, and what was acknowledged."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = ManualCluster(self.settings)
        create(self.cluster.client(1))
        self.members = {
            name: form(self.cluster.client(coordinator(self.cluster, name)), name)
            for name in GROUPS
        }
        self.commits = dict.fromkeys(GROUPS, -1)
        self.records = 0
        self.epochs: dict[tuple[str, int], int] = {}

    @property
    def settings(self) -> dict[str, str]:
        return {}

    @property
    def live(self) -> list[int]:
        return list(self.cluster.cluster.brokers)

    def step(self) -> None:
        """Do something at random, and let the brokers come to rest."""
        choice, cluster = self.random.random(), self.cluster.cluster
        dead = [each for each in (1, 2, 3) if each not in self.live]
        if dead and (choice < 0.3 or len(self.live) == 1):
            self.cluster.complete(cluster.start_broker(self.random.choice(dead)))
        elif choice < 0.4:
            cluster.kill(self.random.choice(self.live), self.random.choice([0, 0, 50]))
        elif choice < 0.5:
            self.cluster.complete(cluster.stop_broker(self.random.choice(self.live)))
        elif choice < 0.75:
            cluster.move("t", 0, self.random.choice(self.live))
        else:
            group = self.random.choice(GROUPS)
            cluster.move_coordinator(CoordinatorType.GROUP, group, self.random.choice(self.live))
        self.acted()
        if self.random.random() < 0.5:
            # Several things happen while partitions are being loaded.
            return
        self.cluster.loop.advance(60)
        self.cluster.loop.turn()
        self.check()
        self.work()

    def acted(self) -> None:
        """Note that something was done."""

    def check(self) -> None:
        image = self.cluster.leadership.image
        for name, placed in image.placements.items():
            topic = self.cluster.cluster.shared.topics.find(name)
            assert topic is not None
            for partition, where in zip(topic.partitions, placed, strict=True):
                assert where.leader_epoch >= self.epochs.get((name, partition.index), 0)
                self.epochs[name, partition.index] = where.leader_epoch
                assert partition.leader_epoch == where.leader_epoch
                assert where.leader_id in where.isr
        for node_id, broker in self.cluster.cluster.brokers.items():
            owned = {each.partition: each.epoch for each in broker.groups.owned()}
            assert owned == {
                index: where.leader_epoch
                for index, where in enumerate(image.placements["__consumer_offsets"])
                if where.leader_id == node_id
            }
            for index, shard in enumerate(broker.coordinator.shards):
                assert index in owned or shard.is_blank

    def work(self) -> None:
        """Produce, commit and send heartbeats where the image says, and look at what was kept."""
        leader, _ = self.cluster.leads("t")
        client = self.cluster.client(leader)
        assert latest_offset(client) == (ErrorCode.NONE, self.records)
        assert produced(client, acks=-1) == ErrorCode.NONE
        self.records += 1
        for group, member_id in self.members.items():
            client = self.cluster.client(coordinator(self.cluster, group))
            assert committed(client, group) == [(ErrorCode.NONE, self.commits[group])]
            assert heartbeat(client, member_id, group) == ErrorCode.NONE
            self.commits[group] += 1
            number = self.commits[group]
            assert commit(client, number, group, member_id=member_id) == [ErrorCode.NONE]


class StoryOfTwo(Story):
    """Two replicas must be in sync; what fewer have is not seen, and is not lost."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.unseen = 0
        # The commits that were not acknowledged, by group.
        self.waiting: dict[str, int] = {}

    @property
    def settings(self) -> dict[str, str]:
        return {"min.insync.replicas": "2"}

    def acted(self) -> None:
        """Expect what has waited as soon as two replicas are in sync."""
        if len(self.cluster.leadership.image.placements["t"][0].isr) > 1:
            self.records += self.unseen
            self.commits.update(self.waiting)
            self.unseen = 0
            self.waiting.clear()

    def work(self) -> None:
        if len(self.live) > 1:
            super().work()
            return
        leader, _ = self.cluster.leads("t")
        client = self.cluster.client(leader)
        assert produced(client, acks=-1) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert produced(client) == ErrorCode.NONE
        self.unseen += 1
        assert latest_offset(client) == (ErrorCode.NONE, self.records)
        for group, member_id in self.members.items():
            client = self.cluster.client(coordinator(self.cluster, group))
            assert heartbeat(client, member_id, group) == ErrorCode.NONE
            seen = self.commits[group]
            latest = self.waiting.get(group, seen)
            # A coordinator that has taken over has read all of the log.
            assert committed(client, group)[0] in ((ErrorCode.NONE, seen), (ErrorCode.NONE, latest))
            self.waiting[group] = latest + 1
            client.send(committing(latest + 1, group, member_id=member_id), 7)
            self.cluster.loop.turn()
            assert client.answers() == []


@pytest.mark.parametrize("story", [Story, StoryOfTwo])
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_whatever_happens_to_brokers(seed: int, story: type[Story]) -> None:
    told = story(seed)
    for _ in range(STEPS):
        told.step()
    assert told.records > STEPS / 5
