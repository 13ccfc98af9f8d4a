"""Data directories with random histories, for comparing the engines."""

import random
from pathlib import Path
from typing import Any

from coterie.coordinator.share_partition.states import ACKNOWLEDGED, ARCHIVED, AVAILABLE
from coterie.protocol.messages.share_facts import LOCK_TIMEOUT, FailedDelivery
from tests.pipeline.jobs.shared import SharedGroup
from tests.pipeline.jobs.written import NOW_MS, Directory
from tests.pipeline.timeline.facts import began, completed, join_done, joined, member_of

_STEP_MS = 20_000


class RandomLog:
    """A directory that grows by random commits, generations, transactions and facts."""

    def __init__(self, path: Path, seed: int, cluster: str) -> None:
        self.data = Directory(path, cluster, log_partitions=3)
        self._random = random.Random(seed)
        self._now_ms = NOW_MS + self._random.randrange(60_000)
        self._generations: dict[str, int] = {}
        self._offsets: dict[tuple[str, str], int] = {}
        self._shared = SharedGroup(self.data, "jobs")

    def grow(self, steps: int) -> None:
        """Append this many events, and write the directory."""
        for _ in range(steps):
            self._now_ms += self._random.randrange(_STEP_MS)
            event = self._random.choices(
                [
                    self._commit,
                    self._commit_in_transaction,
                    self._rebalance,
                    self._delete,
                    self._share,
                ],
                [12, 3, 4, 1, 4],
            )[0]
            event(self._random.choice(["orders", "bills", "größe", "spark-kafka-relation-1"]))
        self.data.write()

    def _commit(self, group: str, producer: int = -1) -> None:
        partition = f"{self._random.choice('ab')}-{self._random.randrange(4)}"
        before = self._offsets.get((group, partition), 0)
        offset: int | None = max(0, before + self._random.randrange(-3, 20))
        if self._random.random() < 0.1 and producer < 0:
            offset = None
        self._offsets[group, partition] = offset or 0
        self.data.commit(group, partition, offset, self._now_ms, producer)

    def _commit_in_transaction(self, group: str) -> None:
        producer = self._random.randrange(3)
        for _ in range(self._random.randrange(1, 4)):
            self._commit(group, producer)
        if self._random.random() < 0.7:
            commits = self._random.random() < 0.8
            self.data.marker(group, producer, self._now_ms, commit=commits)

    def _rebalance(self, group: str) -> None:
        number = self._generations[group] = self._generations.get(group, 0) + 1
        members = self._random.sample(["one", "two", "three"], self._random.randrange(0, 4))
        parts = [f"{topic}-{each}" for topic in "ab" for each in range(3)]
        given = {name: " ".join(parts[index :: len(members)]) for index, name in enumerate(members)}
        self.data.generation(group, number, self._now_ms, topics="a b", **given)
        if group != "orders" or not members:
            return
        name = members[0]
        started_ms = self._now_ms - self._random.randrange(3_000)
        facts: list[Any] = [
            joined(started_ms, name),
            began(started_ms, "join", name, number - 1),
            join_done(self._now_ms - 1, number, started_ms),
            completed(
                self._now_ms,
                number,
                started_ms,
                *(member_of(each, owned) for each, owned in given.items()),
            ),
        ]
        self.data.facts(group, *facts)

    def _share(self, _: str) -> None:
        """Let a share group end a delivery of its next records, or of some that came back."""
        if not self._shared.states:
            self._shared.members(self._now_ms, one=[])
            self._shared.begin(self._now_ms, 2)
        if self._random.random() < 0.2:
            names = self._random.sample(["one", "two"], self._random.randrange(0, 3))
            self._shared.members(self._now_ms, **{key: [0, 1] for key in names})
        number = self._random.randrange(2)
        first = self._random.randrange(30)
        last = first + self._random.randrange(4)
        became = self._random.choice([AVAILABLE, ACKNOWLEDGED, ARCHIVED])
        count = self._random.randrange(1, 6)
        if became is AVAILABLE:
            failed = FailedDelivery(
                member_id="one",
                first_offset=first,
                last_offset=last,
                delivery_count=count,
                given_up=False,
            )
            self._shared.failed(self._now_ms, number, LOCK_TIMEOUT, failed)
        self._shared.ended(self._now_ms, number, (first, last, became, count))

    def _delete(self, group: str) -> None:
        self.data.tombstone(group, self._now_ms)
