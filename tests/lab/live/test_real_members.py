"""Real processes: one short run with aiokafka, and what is left of processes afterwards."""

import sys
from pathlib import Path

from coterie.lab.live.run import LiveOptions, run_live
from coterie.lab.scenario import load_scenario
from coterie.lab.strips import strip_lines

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_third_member_joins_two_real_ones(tmp_path: Path) -> None:
    scenario = load_scenario("three-and-one")._replace(
        partitions=3, script=[{"at_s": 0, "jitter_s": 0, "do": "join"}]
    )
    settings = {"initial_delay_ms": 0, "heartbeat_ms": 500, "session_ms": 20_000}
    options = LiveOptions("aiokafka", form_s=6, calm_s=2, settings=settings)
    outcome = run_live(scenario, options, tmp_path / "run", print, lambda _: None).outcome
    assert outcome.evidence == "measured"
    assert outcome.settings["broker"] == "coterie"
    assert outcome.metrics["generations"]
    assert outcome.metrics["empty_members"] == 0
    assert outcome.metrics["double"] == 0
    assert outcome.metrics["lost"] == 0
    assert outcome.metrics["delivered"]
    last = {each.partition: each.owner for each in outcome.intervals if each.owner is not None}
    assert len(set(last.values())) == 3
    assert len(list(strip_lines(outcome))) == 5


def test_servers_of_a_run_do_what_the_script_says(tmp_path: Path) -> None:
    """The topic grows, the leader dies, a member is cut off, and the broker is killed."""
    steps = [
        {"at_s": 0, "do": "topic_grows", "to": 6}, {"at_s": 4, "do": "leader_dies"},
        {"at_s": 9, "do": "cut", "s": 1}, {"at_s": 11, "do": "broker_dies", "down_s": 1},
    ]  # fmt: skip
    scenario = load_scenario("three-and-one")._replace(
        members=3, partitions=4, script=[{"jitter_s": 0, **step} for step in steps]
    )
    settings = {
        "initial_delay_ms": 0, "heartbeat_ms": 500, "session_ms": 3_000, "metadata_age_ms": 1_000,
    }  # fmt: skip
    options = LiveOptions("aiokafka", form_s=5, calm_s=2, settings=settings)
    said: list[str] = []
    outcome = run_live(scenario, options, tmp_path / "run", said.append, lambda _: None).outcome
    assert {line.split(":")[0] for line in said} == {"cut", "broker_dies"}
    assert outcome.metrics["settle_s"] is not None
    assert {each.partition for each in outcome.intervals} == set(range(6))
    # New partitions and those of the dead leader wait, and then all are away with the broker.
    assert outcome.causes["undetected"] > 1
    assert outcome.causes["broker"] > 6
    owners = {each.owner for each in outcome.intervals if each.owner}
    last = {each.partition: each.owner for each in outcome.intervals if each.owner}
    assert (len(owners), len(set(last.values()))) == (3, 2)
