"""Steps of scripts: growing topics, dying brokers, pods that surge."""

from typing import Any

import pytest

from coterie.lab.errors import WrongInput
from coterie.lab.kernel import SECOND, stream
from coterie.lab.machines import MACHINES
from coterie.lab.run import Run, RunOptions, run
from coterie.lab.scenario import Scenario, load_scenario
from coterie.lab.script import Event, events_of


def scenario(*steps: dict[str, Any], members: int = 4, partitions: int = 8) -> Scenario:
    """Return a scenario of some steps."""
    return load_scenario("three-and-one")._replace(
        members=members,
        partitions=partitions,
        form_s=20,
        script=[{"at_s": 0, "jitter_s": 0, **step} for step in steps],
    )


def events(*steps: dict[str, Any], members: int = 4) -> list[Event]:
    """Return the events of some steps."""
    script = scenario(*steps).script
    return events_of(script, members, 8, stream(1, "script"))


@pytest.mark.parametrize("machine", MACHINES)
def test_new_partitions_are_read_once_members_know_of_them(machine: str) -> None:
    settings = {"metadata_age_ms": 20_000}
    made = Run(machine, scenario({"do": "topic_grows", "to": 12}), 1, RunOptions(settings))
    outcome = made.finish()
    assert outcome.metrics["settle_s"] is not None
    readers = made.environment.ledger.readers()
    assert {each.partition for owned in readers.values() for each in owned} == set(range(12))
    assert {each.partition for each in outcome.intervals} == set(range(12))


def test_classic_members_learn_of_partitions_by_their_metadata() -> None:
    grown = scenario({"do": "topic_grows", "to": 12})
    slow = run("eager-3", grown, 1, RunOptions({"metadata_age_ms": 200_000}))
    quick = run("eager-3", grown, 1, RunOptions({"metadata_age_ms": 1_000}))
    assert quick.causes["undetected"] < 4 * 1 < slow.causes["undetected"] < 4 * 200
    assert run("server-2015", grown, 1).causes["undetected"] < 1, "the coordinator watches topics"


@pytest.mark.parametrize("machine", MACHINES)
def test_partitions_of_a_dead_broker_wait_for_another_leader(machine: str) -> None:
    made = Run(machine, scenario({"do": "broker_dies", "down_s": 30}), 1, RunOptions())
    outcome = made.finish()
    # Every third of eight partitions; RocketMQ has no other master for them.
    wait_s = 30 if machine.startswith("rocketmq") else 9
    assert outcome.causes["broker"] == pytest.approx(3 * wait_s)
    assert outcome.metrics["lost"] == 0


def test_surging_pods_start_before_the_old_ones_stop() -> None:
    found = events({"do": "rolling", "every_s": 10, "down_s": 6, "max_surge": 2})
    assert [(each.at_us // SECOND, each.do, each.pod[-1]) for each in found] == [
        (0, "start", "4"), (0, "start", "5"), (6, "stop", "0"), (6, "stop", "1"),
        (10, "start", "6"), (10, "start", "7"), (16, "stop", "2"), (16, "stop", "3"),
    ]  # fmt: skip
    assert not any(each.keep for each in found if each.do == "start")


def test_pods_with_new_names_are_other_pods() -> None:
    found = events({"do": "rolling", "every_s": 10, "down_s": 6, "keep_ids": False})
    assert [each.pod[-1] for each in found if each.do == "start"] == ["4", "5", "6", "7"]


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ({"do": "topic_grows", "to": 8}, "there are 8 partitions already"),
        ({"do": "rolling", "every_s": 1, "down_s": 1, "max_surge": 1, "keep_ids": True},
         "can't surge"),
    ],
)  # fmt: skip
def test_impossible_steps(step: dict[str, Any], text: str) -> None:
    with pytest.raises(WrongInput, match=text):
        events(step)


def test_growth_scales_with_the_partitions() -> None:
    resized = scenario({"do": "topic_grows", "to": 12}).resized(None, 80)
    assert (resized.partitions, resized.script[0]["to"]) == (80, 120)
