"""Recorded histories: the records of a run, and runs by the script of a record."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coterie.cli.main import main
from coterie.lab.errors import WrongInput
from coterie.lab.kernel import SECOND
from coterie.lab.machines import MACHINES, WITH_RECORDS, machine_named
from coterie.lab.machines.coordinator_host import HostedGroup
from coterie.lab.recorded import recorded_of
from coterie.lab.run import Run, RunOptions, run
from coterie.lab.scenario import load_scenario
from coterie.pipeline.report.content import group_content
from coterie.pipeline.report.history import Story
from coterie.pipeline.show import read_story

# One worker prepares what its tests share.
pytestmark = pytest.mark.xdist_group("lab recorded")

_SCRIPT = """
title = "x"
members = 3
partitions = 6
form_s = 20
[[script]]
at_s = 0
do = "join"
[[script]]
at_s = 30
do = "crash"
pod = 1
[[script]]
at_s = 120
do = "restart"
pod = 0
down_s = 3
"""


def lab(*arguments: object) -> Result:
    """Run a command of the lab."""
    return CliRunner().invoke(main, ["lab", "run", *map(str, arguments)])


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the records of a run of static members."""
    directory = tmp_path_factory.mktemp("recorded")
    (directory / "own.toml").write_text(_SCRIPT)
    path = directory / "records"
    result = lab(directory / "own.toml", "--machine", "static", "--records", path)
    assert result.exit_code == 0, result.output
    return path


def test_records_are_a_history_of_the_group(records: Path) -> None:
    story = read_story(str(records), "group")
    assert story is not None
    sessions = story.group.tables["member_sessions"]
    exits = {(row["member_key"], row["exit_kind"]) for row in sessions if row["exit_kind"]}
    assert exits == {("pod-0000", "replaced"), ("pod-0001", "session expiry")}
    assert {row["trigger"] for row in story.group.rebalances} >= {"join", "session expiry"}
    assert {row["client_host"] for row in sessions} >= {"/pod-0000"}


def test_recorded_history_is_replayed_under_other_machines(records: Path) -> None:
    result = lab("--script-from", records, "group", "--machine", "static", "--machine", "zookeeper",
                 "--json")  # fmt: skip
    static, zookeeper = json.loads(result.stdout)
    assert (static["members"], static["partitions"]) == (3, 6)
    assert static["script"] == zookeeper["script"]
    # One joins and one dies; the restart of a static member is no rebalance.
    assert static["metrics"]["generations"] == 2
    assert static["causes"]["undetected"] > 2 * zookeeper["causes"]["undetected"] > 0
    assert "Recorded: 2 rebalances" in lab("--script-from", records, "group").output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--script-from", "RECORDS", "orders"), "has no group 'orders'. Its groups: group."),
        (("--script-from", "EMPTY", "group"), "is neither the output of"),
        (("--script-from", "MISSING", "group"), "There is no directory"),
        (("--script-from", "RECORDS", "group", "--members", "3"), "has the sizes of the recorded"),
        (("herd", "--script-from", "RECORDS", "group"), "either a SCENARIO or --script-from"),
        ((), "either a SCENARIO or --script-from"),
        (("herd", "--records", "EMPTY"), "--records needs exactly one --machine"),
        (("herd", "--machine", "zookeeper", "--records", "EMPTY"), "writes no records of Kafka"),
        (("three-and-one", "--machine", "static", "--records", "RECORDS"), "is not empty"),
    ],
)  # fmt: skip
def test_one_sentence(records: Path, tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    (tmp_path / "empty").mkdir()
    places = {"RECORDS": records, "EMPTY": tmp_path / "empty", "MISSING": tmp_path / "missing"}
    result = lab(*(places.get(each, each) for each in arguments))
    assert result.exit_code in (1, 2)
    assert text in result.output
    assert "Traceback" not in result.output


def test_machines_with_records_are_those_at_our_coordinator() -> None:
    scenario = load_scenario("three-and-one")
    hosted = {
        name
        for name in MACHINES
        if isinstance(Run(name, scenario, 1, RunOptions()).machine, HostedGroup)
    }
    assert hosted == set(WITH_RECORDS)
    assert machine_named("static").summary


def session(key: str, first_s: int, last_s: int | None, kind: str = "leave") -> dict[str, Any]:
    """Return a row of `member_sessions`; times count from a moment."""
    return {
        "group_id": "g", "member_key": key, "identity": key.rstrip("'"),
        "first_seen_ts": first_s * 1_000,
        "last_seen_ts": None if last_s is None else last_s * 1_000,
        "exit_kind": None if last_s is None else kind,
        "session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000,
    }  # fmt: skip


def story(*sessions: dict[str, Any]) -> Story:
    """Return a story whose group had formed after 5 s."""
    rebalance = {
        "completed_ts": 5_000, "unowned_partition_ms": 0, "moved": 0, "started_ts": 0,
        "first_seen_ts": 0,
    }  # fmt: skip
    owned = [
        {"topic": "t", "partition": number, "from_ts": 5_000, "to_ts": None} for number in range(4)
    ]
    tables: dict[str, list[dict[str, Any]]]
    tables = {"rebalances": [rebalance], "ownership": owned, "member_sessions": list(sessions)}
    return Story(group_content("g", tables), [], [])


def test_members_are_pods_that_come_back() -> None:
    found = recorded_of("g", story(
        session("a", 1, 20, "session expiry"), session("b", 1, None),
        session("a'", 30, 40), session("b'", 50, None),
    ))  # fmt: skip
    scenario = found.scenario
    assert scenario.recording is not None
    assert [each.pod for each in scenario.recording.forming] == ["pod-0000", "pod-0001"]
    assert [(each.at_us // SECOND, each.do, each.pod) for each in scenario.recording.events] == [
        # It died when it was last heard, and comes back as the same pod.
        (5, "kill", "pod-0000"), (25, "start", "pod-0000"), (35, "stop", "pod-0000"),
        # Its client is still there, so this is another pod.
        (45, "start", "pod-0002"),
    ]  # fmt: skip
    assert (scenario.members, scenario.partitions, found.session_ms) == (2, 4, [10_000])


def test_times_in_which_nothing_happens_are_shortened() -> None:
    found = recorded_of("g", story(session("a", 1, None), session("b", 90_000, 90_001)))
    assert found.scenario.recording is not None
    assert [each.at_us // SECOND for each in found.scenario.recording.events] == [180, 181]


def rebalance(join_ms: int, generations: int = 1, **fields: Any) -> dict[str, Any]:
    """Return a row of `rebalances` with the time that its join phases took."""
    return {
        "completed_ts": 9_000, "unowned_partition_ms": 0, "moved": 0, "started_ts": 8_000,
        "join_ms": join_ms, "generations": generations, "initial_delay_ms": 0, "members": 3,
        **fields,
    }  # fmt: skip


def test_members_have_the_recorded_session_and_heartbeat_interval() -> None:
    """The interval is the longest answer to a rebalance in which nobody had died."""
    told = story(session("a", 1, 20), session("b", 1, None))
    told.group.tables["rebalances"][:] = [
        rebalance(2_900, initial_delay_ms=3_000), rebalance(1_200), rebalance(3_000, 2),
        rebalance(2_000, members=1), rebalance(9_000),
    ]  # fmt: skip
    found = recorded_of("g", told)
    assert found.heartbeat_ms == 1_500
    assert found.scenario.settings == {"session_ms": 10_000, "heartbeat_ms": 1_500}


def test_time_after_everybody_has_gone_is_not_counted() -> None:
    found = recorded_of("g", story(session("a", 1, 20), session("b", 1, 40)))
    for machine in ("eager-3", "cooperative", "zookeeper", "rocketmq-5"):
        outcome = run(machine, found.scenario, 1)
        # From the first one's end to the second one's, and until that has said goodbye.
        assert 20 <= outcome.window_s < 22
        assert (outcome.metrics["unowned"] or 0.0) < 4 * 15


def test_history_in_which_nothing_happened() -> None:
    with pytest.raises(WrongInput, match="nothing to replay"):
        recorded_of("g", story(session("a", 1, None)))
