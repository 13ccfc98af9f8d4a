"""A few real kills; `make crash` does two hundred."""

import pytest

from tests.crash.kills import kill_many


@pytest.mark.timeout(120)
def test_a_killed_server_keeps_what_it_acknowledged() -> None:
    done = kill_many(4, servers=1, first_seed=3)
    assert done.failures == []
    assert done.kills >= 4
    assert done.commits > 0
    assert done.generations > 0
    assert done.epochs > 0
