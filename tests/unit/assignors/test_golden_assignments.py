"""Our assignments of 240 random groups equal those of the originals (tests/golden/assignors)."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from coterie.assignors.by_name import ASSIGNORS
from coterie.assignors.machine_room import assign_by_machine_room, assign_nearby
from coterie.assignors.model import Assignment, MemberSubscription, TopicPartition
from coterie.protocol.java_hash import java_hash

GOLDEN = Path(__file__).parents[2] / "golden" / "assignors" / "cases.jsonl.gz"
NAMES = [*ASSIGNORS, "nearby", "by-machine-room"]


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def members_of(case: dict[str, Any], *, one_owner: bool) -> list[MemberSubscription]:
    taken: set[TopicPartition] = set()
    members = []
    for member_id, instance, topics, owned, generation in case["members"]:
        claims = [TopicPartition(*each) for each in owned]
        if one_owner:
            claims = [each for each in claims if each not in taken]
            taken.update(claims)
        known = None if generation == -1 else generation
        members.append(MemberSubscription(member_id, tuple(topics), tuple(claims), known, instance))
    return members


def assign(name: str, case: dict[str, Any]) -> Assignment:
    counts = case["counts"]
    members = members_of(case, one_owner=name == "uniform")
    if name in ASSIGNORS:
        return ASSIGNORS[name](counts, members)
    rooms = {
        TopicPartition(topic, index): f"room{index % 4}"
        for topic, count in counts.items()
        for index in range(count)
    }
    if name == "by-machine-room":
        wanted = ("room1", "room2")
        return assign_by_machine_room(counts, members, rooms=rooms, consumer_rooms=wanted)
    places = {each.member_id: f"room{abs(java_hash(each.member_id)) % 3}" for each in members}
    return assign_nearby(counts, members, rooms=rooms, member_rooms=places)


@pytest.mark.parametrize("name", NAMES)
def test_the_original_assigns_the_same(name: str, cases: list[dict[str, Any]]) -> None:
    assert len(cases) == 240
    for number, case in enumerate(cases):
        expected = {
            member_id: [TopicPartition(*each) for each in given]
            for member_id, given in case[name].items()
        }
        found = assign(name, case)
        if name in ("range", "uniform"):
            # The original returns sets, so the order within a member is undefined.
            found = {member_id: sorted(given) for member_id, given in found.items()}
            expected = {member_id: sorted(given) for member_id, given in expected.items()}
        assert found == expected, f"case {number}"


def test_the_comparison_detects_other_assignments(cases: list[dict[str, Any]]) -> None:
    """Range and roundrobin differ for most groups."""
    differ = [case for case in cases if assign("range", case) != assign("roundrobin", case)]
    assert len(differ) > 100
