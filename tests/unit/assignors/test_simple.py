"""The assignor of share groups: 240 cases of Kafka's own class, and what holds in every case.

tests/golden/assignors/README.md says how the cases were made.
"""

import gzip
import json
import random
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path

import pytest

from coterie.assignors.simple import MemberShares, Reader, share_simple

GOLDEN = Path(__file__).parents[2] / "golden" / "assignors" / "share_cases.jsonl.gz"
_TOPICS = [bytes([number]) * 16 for number in (1, 2, 3)]


def assign_simple(
    readers: Mapping[str, Reader], assignable: Mapping[bytes, Sequence[int]], *, homogeneous: bool
) -> MemberShares:
    """Return the partitions of each member."""
    shares: MemberShares = {}
    for _ in share_simple(readers, assignable, shares, homogeneous=homogeneous):
        pass
    return shares


def test_kafkas_class_assigns_the_same() -> None:
    count = 0
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as file:
        for line in file:
            case = json.loads(line)
            readers = {
                member: Reader(
                    [bytes.fromhex(topic) for topic in topics],
                    {bytes.fromhex(topic): indexes for topic, indexes in before.items()},
                )
                for member, topics, before in case["members"]
            }
            assignable = {bytes.fromhex(topic): each for topic, each in case["assignable"].items()}
            found = assign_simple(readers, assignable, homogeneous=case["same"])
            assert {
                member: {topic.hex(): sorted(each) for topic, each in share.items() if each}
                for member, share in found.items()
            } == case["simple"], line
            count += 1
    assert count == 240


@pytest.mark.parametrize("seed", range(40))
def test_shares_are_even_and_partitions_have_enough_readers(seed: int) -> None:
    chance = random.Random(seed)
    assignable = {topic: range(chance.randint(0, 9)) for topic in _TOPICS}
    total = sum(map(len, assignable.values()))
    targets: dict[str, dict[bytes, set[int]]] = {}
    for _ in range(4):
        for name in [*targets]:
            if chance.random() < 0.3:
                del targets[name]
        for _ in range(chance.randint(1, 6)):
            targets[f"m{chance.randrange(10**6)}"] = {}
        readers = {name: Reader(_TOPICS, before) for name, before in targets.items()}
        targets = assign_simple(readers, assignable, homogeneous=True)
        sharing = ceil(len(targets) / total) if total else 0
        sizes = [sum(map(len, share.values())) for share in targets.values()]
        assert sum(sizes) <= sharing * total
        assert max(sizes) <= ceil(sharing * total / len(targets))
        for topic, indexes in assignable.items():
            for index in indexes:
                holders = [name for name, share in targets.items() if index in share.get(topic, ())]
                # As in Kafka, the rest stays as it is after a turn without a result.
                assert 1 <= len(holders) <= sharing


def test_nobody_has_anything_without_topics() -> None:
    reader = Reader([], {_TOPICS[0]: [0, 1]})
    for homogeneous in (True, False):
        assert assign_simple({"m": reader}, {}, homogeneous=homogeneous) == {"m": {}}


def test_a_topic_of_which_all_is_lost_stays() -> None:
    readers = {
        "m1": Reader(_TOPICS[:2], {_TOPICS[0]: [0], _TOPICS[1]: [0]}),
        "m2": Reader(_TOPICS[:2], {}),
    }
    found = assign_simple(readers, {_TOPICS[0]: [0], _TOPICS[1]: [0]}, homogeneous=True)
    assert set(found["m1"]) == set(_TOPICS[:2])
    assert sorted(map(len, found["m1"].values())) == [0, 1]
