"""Recovery points that are written in steps: what happens between two of them."""

import pytest

from tests.unit.storage.conftest import Place
from tests.unit.storage.test_directory import OTHER_ID, opened
from tests.unit.storage.test_directory_stops import KEY, RECOVERY_POINTS, filled, killed


@pytest.mark.parametrize("steps_before", range(1, 4))
def test_topic_that_is_deleted_between_two_steps_gets_no_recovery_point(
    memory: Place, monkeypatch: pytest.MonkeyPatch, steps_before: int
) -> None:
    """A new topic of its name would be believed to be synced up to there."""
    monkeypatch.setattr("coterie.storage.directory.OFFSETS_A_STEP", 1)
    monkeypatch.setattr("coterie.storage.offset_checkpoints.OFFSETS_A_STEP", 1)
    directory = filled(memory)
    for partition in (0, 1):
        directory.open_log("orders", partition).sync()
    steps = directory.recovery_points_in_steps()
    for _ in range(steps_before):
        next(steps)
    directory.delete_topic("orders")
    directory.create_partitions("orders", [0], OTHER_ID)
    directory.open_log("orders", 0)
    for _ in steps:
        pass
    assert directory.recovery_point(*KEY) == 0
    killed(memory, directory)
    assert opened(memory).recovery_point(*KEY) == 0


def test_change_between_two_steps_is_written(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.storage.offset_checkpoints.OFFSETS_A_STEP", 1)
    directory = filled(memory)
    directory.open_log("orders", 0).sync()
    steps = directory.recovery_points_in_steps()
    next(steps)
    directory.open_log("orders", 1).sync()
    directory.write_recovery_points()
    written = memory.read_plain(RECOVERY_POINTS)
    assert written == b"0\n2\norders 0 10\norders 1 10\n"
    for _ in steps:
        pass
    assert memory.read_plain(RECOVERY_POINTS) == written
    directory.close()
