"""Live runs in a directory and on the page; the command with wrong input. Nothing is started."""

from pathlib import Path

import pytest

from coterie.lab.errors import WrongInput
from coterie.lab.live.cells import CELLS, live_scenario
from coterie.lab.live.clients import LiveRun
from coterie.lab.live.drive import Drive
from coterie.lab.live.known import client_named
from coterie.lab.live.run import LiveResult, add_to_store, free_seed, live_store
from coterie.lab.live.settings import live_parameters
from coterie.lab.report.measured import measured_section
from coterie.lab.report.measured_grid import grid_rows, grid_table, is_inside
from coterie.lab.scenario import Scenario
from coterie.processes import Children
from tests.lab.live.test_measure import line, outcome, parts
from tests.lab.test_sweep import lab


def result() -> LiveResult:
    """Return the result of an invented run of the grid."""
    found = outcome(
        [
            line(12, "a.1", "revoked", partitions=parts(0, 1)),
            line(13, "a.1", "assigned", partitions=parts(0, 1)),
        ]
    )
    settings = {"rate": 20, "client": "aiokafka", "software": "aiokafka 1", "broker": "coterie"}
    return LiveResult(
        found._replace(scenario="one-joins", members=4, partitions=12, settings=settings), 30.0
    )


def test_live_runs_are_stored_as_measured_and_shown_on_a_page(tmp_path: Path) -> None:
    store = live_store(str(tmp_path / "live"))
    add_to_store(store, result())
    (row,) = store.runs()
    assert row["evidence"] == "measured"
    assert row["unowned"] == 2
    assert row["requests"] is None
    # The scenario of a file that is not here can't be simulated, which would take seconds.
    rows = [{**each, "scenario": "mine"} for each in store.runs()]
    section = measured_section(rows, store.timelines())
    assert "mine, aiokafka, eager-3, coterie" in section
    assert "aiokafka 1" in section
    assert section.count("<circle") == 1


def test_next_run_of_a_kind_has_another_seed(tmp_path: Path) -> None:
    store = live_store(str(tmp_path / "live"))
    scenario = live_scenario("one-joins")
    assert free_seed(store, scenario, "aiokafka", "") == 0
    add_to_store(store, result())
    assert free_seed(live_store(store.directory), scenario, "aiokafka", "") == 1
    assert free_seed(store, scenario, "aiokafka", "static") == 0


def live_run(scenario: Scenario, folder: Path) -> LiveRun:
    """Return the surroundings of a run that is not begun."""
    return LiveRun(scenario, "eager-3", live_parameters({}), folder, Children(folder), print)


def driven(scenario: Scenario, folder: Path) -> Drive:
    """Prepare a run with aiokafka."""
    return Drive(live_run(scenario, folder), client_named("aiokafka"), 0, 1, 10)


def test_script_that_real_processes_cannot_follow_is_refused(tmp_path: Path) -> None:
    step = {"at_s": 0, "do": "server_slow", "factor": 2, "s": 5}
    scenario = live_scenario("one-joins")._replace(script=[step])
    with pytest.raises(WrongInput, match="'server_slow', and a real server is as fast as it is"):
        driven(scenario, tmp_path)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("leader-lost", "only the journal of Coterie does"),
        ("coordinator-moves", "only a broker that the lab has started"),
    ],
)
def test_given_broker_is_not_killed(name: str, reason: str, tmp_path: Path) -> None:
    run = live_run(live_scenario(name), tmp_path)
    run.bootstrap = "127.0.0.1:9092"
    with pytest.raises(WrongInput, match=f"{reason}.* Leave out --bootstrap-server"):
        Drive(run, client_named("aiokafka"), 0, 1, 10)


@pytest.mark.parametrize(
    "name",
    [
        "rolling-deploy", "gc-pause", "slow-joiner", "flapping", "partitioned-member",
        "leader-lost", "coordinator-moves",
    ],
)  # fmt: skip
def test_script_for_processes_is_accepted(name: str, tmp_path: Path) -> None:
    assert driven(live_scenario(name), tmp_path).events


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["one-joins", "--client", "aiokaka"], "no client 'aiokaka' (did you mean 'aiokafka'?)"),
        (["one-joins", "--client", "aiokafka", "--machine", "zookeeper"], "can't run 'zookeeper'"),
        (["one-join", "--client", "aiokafka"], "did you mean"),
        (["one-joins", "--client", "aiokafka", "--set", "latency_ms=3"], "of the model"),
        (["leader-lost", "--client", "rocketmq"], "can't be run live"),
        (
            ["one-joins", "--client", "aiokafka", "--bootstrap-server", "127.0.0.1:1"],
            "No broker reached at 127.0.0.1:1",
        ),
    ],
)
def test_wrong_input_is_one_sentence(arguments: list[str], text: str, tmp_path: Path) -> None:
    ended = lab("live", *arguments, "--output", str(tmp_path / "live"))
    assert ended.exit_code == 1
    assert text in ended.stderr.replace("\n", " ")
    assert "Traceback" not in ended.stderr


def test_measured_grid_is_complete_and_mostly_what_the_model_says() -> None:
    rows = grid_rows()
    modelled = [row for row in rows if row["kept"]]
    assert {row["scenario"] for row in rows} == set(CELLS)
    assert sum(map(is_inside, modelled)) / len(modelled) > 0.75
    assert grid_table().count("<tr>") == len(rows) / len(CELLS) + 1
