"""What is shared by the tests of a group is started by one worker of pytest-xdist only."""

import pytest

GROUP = "one worker"


@pytest.mark.xdist_group(GROUP)
def test_group_is_in_the_id_by_which_workers_get_tests(request: pytest.FixtureRequest) -> None:
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("runs without pytest-xdist and --dist loadgroup")
    assert request.node.nodeid.endswith(f"@{GROUP}")
