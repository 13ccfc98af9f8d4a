"""Traces with details: what the documents about rebalancing draw."""

import re
from typing import Any

import pytest

from coterie.lab.machines import MACHINES
from coterie.lab.run import Run, RunOptions
from coterie.lab.scenario import load_scenario


def traced(machine: str, members: int, partitions: int, **settings: Any) -> tuple[list[str], str]:
    """Return the lines of the trace of a run in which one joins, without times, and its digest."""
    scenario = load_scenario("three-and-one").resized(members, partitions)
    made = Run(machine, scenario, 0, RunOptions(settings, keep_trace=True, keep_details=True))
    digest = made.finish().digest
    return [line.split(" ", 1)[1].rstrip() for line in made.environment.world.trace or []], digest


@pytest.mark.parametrize("machine", MACHINES)
def test_details_do_not_change_a_run(machine: str) -> None:
    scenario = load_scenario("three-and-one")
    _, digest = traced(machine, 2, 6)
    assert digest == Run(machine, scenario, 0, RunOptions()).finish().digest


def test_member_of_the_consumer_protocol_gives_up_and_says_so_before_the_other_takes() -> None:
    lines, _ = traced("consumer", 1, 3)
    begin = lines.index("event start pod-0001 0")
    shown = ("pod-", "coordinator raises", "stops", "reads pod-0001.1")
    assert [line.rsplit(" 6", 1)[0] for line in lines[begin:] if line.startswith(shown)] == [
        "pod-0001.1 Heartbeat epoch=0 owned=-",
        "coordinator raises the epoch epoch=3 because=join",
        "pod-0001.1 Heartbeat answered epoch=3 assigned=-",
        "pod-0000.1 Heartbeat answered epoch=2 assigned=t-0,t-1",
        "stops pod-0000.1 t-2",
        "pod-0000.1 Heartbeat epoch=2 owned=t-0,t-1",
        "pod-0001.1 Heartbeat answered epoch=3 assigned=t-2",
        "pod-0001.1 Heartbeat epoch=3 owned=t-2",
        "reads pod-0001.1 t-2",
    ]


def test_member_of_a_streams_group_confirms_what_it_gave_up_before_the_other_takes() -> None:
    lines, _ = traced("streams", 1, 3)
    begin = lines.index("event start pod-0001 0")
    shown = ("pod-", "coordinator raises", "stops", "reads pod-0001.1")
    found = [line.rsplit(" 6", 1)[0] for line in lines[begin:] if line.startswith(shown)]
    (taken,) = [line.rsplit(" ", 1)[1] for line in found if line.startswith("stops")]
    kept = ",".join(sorted({"t-0", "t-1", "t-2"} - {taken}))
    assert found == [
        "pod-0001.1 Heartbeat epoch=0 owned=-",
        "coordinator raises the epoch epoch=3 because=join",
        "pod-0001.1 Heartbeat answered epoch=3 assigned=-",
        f"pod-0000.1 Heartbeat answered epoch=2 assigned={kept}",
        f"stops pod-0000.1 {taken}",
        f"pod-0000.1 Heartbeat epoch=2 owned={kept}",
        f"pod-0001.1 Heartbeat answered epoch=3 assigned={taken}",
        f"pod-0001.1 Heartbeat epoch=3 owned={taken}",
        f"reads pod-0001.1 {taken}",
    ]


def test_nodes_and_watches_of_the_zookeeper_era() -> None:
    lines, _ = traced("zookeeper", 1, 2)
    ids, owners = "/consumers/group/ids", "/consumers/group/owners/t"
    newcomer = lines.index(f"create {ids}/pod-0001.1 ephemeral")
    assert f"pod-0000.1 watches {ids}" in lines[:newcomer]
    assert "pod-0000.1 watches /brokers/topics/t" in lines[:newcomer]
    assert not any(line.endswith("watches /brokers/ids") for line in lines)
    after = lines[newcomer:]
    expected = [
        f"pod-0000.1 is woken by {ids}", "stops pod-0000.1 t-0", f"delete {owners}/0",
        f"create {owners}/0 pod-0000.1 ephemeral",
    ]  # fmt: skip
    places = [after.index(line) for line in expected]
    assert places == sorted(places)
    assert any(re.fullmatch(r"set /consumers/group/offsets/t/0 [1-9]\d*", line) for line in after)


def test_cooperative_rebalance_shows_what_is_owned_assigned_and_revoked() -> None:
    """The log of two clients: generation 2 revokes, generation 3 hands over."""
    lines, _ = traced("cooperative", 1, 3)
    begin = lines.index("event start pod-0001 0")
    old = [line for line in lines[begin:] if line.startswith("pod-0000.1 ")]
    assert [each.partition(" ")[2] for each in old] == [
        "Heartbeat refused generation=1 REBALANCE_IN_PROGRESS",
        "JoinGroup generation=1 owned=t-0,t-1,t-2",
        "JoinGroup answered generation=2 leader of 2",
        "SyncGroup generation=2 assignments=2",
        "SyncGroup answered generation=2 assigned=t-0,t-1 added=- revoked=t-2",
        "JoinGroup generation=2 owned=t-0,t-1",
        "JoinGroup answered generation=3 leader of 2",
        "SyncGroup generation=3 assignments=2",
        "SyncGroup answered generation=3 assigned=t-0,t-1 added=- revoked=-",
    ]
    taken = "pod-0001.1 SyncGroup answered generation=3 assigned=t-2 added=t-2 revoked=-"
    assert taken in lines
    completed = [line for line in lines if line.startswith("coordinator completes")]
    assert completed == [f"coordinator completes generation={number}" for number in (1, 2, 3)]


def test_older_draft_tells_of_a_rebalance_by_illegal_generation() -> None:
    for draft, error in (("2015-08", "ILLEGAL_GENERATION"), ("2015-10", "REBALANCE_IN_PROGRESS")):
        lines, _ = traced("server-2015", 1, 2, draft=draft)
        refused = [line for line in lines if "Heartbeat refused" in line]
        assert refused == [f"pod-0000.1-1 Heartbeat refused generation=1 {error}"]


def test_strategy_that_is_not_in_the_broker_is_refused() -> None:
    lines, _ = traced("server-2015", 1, 2, strategy="sticky")
    refusal = "JoinGroup refused UNKNOWN_PARTITION_ASSIGNMENT_STRATEGY"
    assert [line for line in lines if "refused" in line] == [
        f"pod-0000.1 {refusal}", f"pod-0001.1 {refusal}"
    ]  # fmt: skip
    assert not any(line.startswith("reads") for line in lines)
    known, _ = traced("server-2015", 1, 2, strategy="roundrobin")
    assert any(line.startswith("reads pod-0001.1") for line in known)
