"""What the answers of the originals (`test_golden_assignments.py`) do not show."""

import pytest

from coterie.assignors.by_name import ASSIGNORS
from coterie.assignors.machine_room import assign_by_config, assign_nearby
from tests.unit.assignors.members import member, partitions, table


def test_by_config_gives_the_configured_queues() -> None:
    members = [member("c1", "q"), member("c2", "q")]
    given = assign_by_config(members, {"c1": partitions("q-0 q-7")})
    assert table(given) == {"c1": "q-0 q-7", "c2": ""}


def test_nearby_requires_the_room_of_every_member() -> None:
    with pytest.raises(ValueError, match="the machine room of c1 is not known"):
        assign_nearby({"q": 1}, [member("c1", "q")], rooms={}, member_rooms={})


@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_no_members_or_no_topics_give_empty_assignments(name: str) -> None:
    assert ASSIGNORS[name]({"a": 3}, []) == {}
    assert table(ASSIGNORS[name]({}, [member("c1", "gone")])) == {"c1": ""}
