"""Every bug planted into the product is found, and nothing is found without one."""

from typing import Any

import pytest

from coterie.storage.log import Log
from coterie.storage.log_write_ahead import LogWriteAhead
from tests.crash.campaign import Runner, Task, length_of
from tests.crash.disk import RecordingFileSystem, syncs_nothing
from tests.crash.plants import CANARY, PLANTS, find
from tests.faults import Fault, answers, does_nothing
from tests.planting import Plant, planted

# Searches that take more than ten seconds each: `make crash` has them, and all others.
_LONG = {
    "the only durable snapshot is removed by the next start",
    "a frame follows one that could not be written",
    "a write-ahead file is removed although the sync of a log failed",
    "a failed attempt to replace a file is written over",
    "the oldest record of a key survives a cleaning",
    "the name of a write-ahead file is not synced",
    "an append goes to the old segment after a roll that failed halfway",
    "a cleaned segment takes its place without a sync",
    "the transaction index of a recovered segment is never synced",
    "old segments are removed before the cleaned one's name is synced",
}
_SEARCHED = [plant for plant in PLANTS if plant.name not in _LONG]


def test_the_long_searches_are_those_of_bugs_that_are_there() -> None:
    assert len(_SEARCHED) + len(_LONG) == len(PLANTS)


# A search is computing alone; on a machine with much other work one of them took two minutes.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("plant", _SEARCHED, ids=lambda plant: plant.name.replace(" ", "-"))
def test_a_planted_bug_is_found(plant: Plant) -> None:
    assert find(plant)


def test_the_canary_is_found_and_nothing_without_it() -> None:
    kind, scenario, mode = CANARY.kinds[0].split(":")
    flush = mode == "commit"
    before = Log.sync.__code__
    assert find(CANARY) == kind
    assert Log.sync.__code__ is before
    end = length_of(kind, scenario, flush=flush)
    assert Runner(Task(kind, scenario, flush, 0, end)).run().failures == []


def test_a_plant_whose_text_is_missing_is_an_error() -> None:
    missing = next(each for each in PLANTS if each.old)._replace(old="nothing")
    with pytest.raises(AssertionError, match="is not in"), planted(missing):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("target", "fault", "answer"),
    [
        ("coterie.storage.log_write_ahead:LogWriteAhead.replaceable_end", answers(7), 7),
        ("coterie.storage.log_write_ahead:LogWriteAhead.missing_bytes", does_nothing, None),
    ],
)
def test_a_function_has_a_fault_only_within_the_statement(
    target: str, fault: Fault, answer: object
) -> None:
    found = vars(LogWriteAhead)[target.rpartition(".")[2]]
    function: Any = found.fget if isinstance(found, property) else found
    before = function.__code__
    with planted(Plant("a fault", target, fault=fault)):
        assert function(None) == answer
    assert function.__code__ is before


def test_a_fault_leaves_out_syncs_of_one_function() -> None:
    filesystem = RecordingFileSystem()
    file = filesystem.create("/file")

    def write_and_sync() -> str:
        file.write(0, b"x")
        file.sync()
        filesystem.sync_directory("/")
        return "done"

    assert syncs_nothing(write_and_sync)() == "done"
    file.sync()
    assert [each.kind for each in filesystem.operations] == ["names", "write", "sync"]
