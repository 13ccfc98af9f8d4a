"""Sweeps: stored, continued, compared, and refused in a wrong directory."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coterie.cli.main import main
from coterie.lab.compare import compare_machines, compare_sweeps
from coterie.lab.errors import WrongInput
from coterie.lab.grid import plan_of
from coterie.lab.store import Store
from coterie.lab.summary import summary_rows
from coterie.lab.sweep import Plan, run_sweep

# One worker prepares what its tests share.
pytestmark = pytest.mark.xdist_group("lab sweep")

PLAN = plan_of(("three-and-one",), ("eager-3", "cooperative"), None, "0..2", ())


def nothing(_done: int, _total: int, _left_s: float) -> None:
    """Show no progress."""


def stored(directory: Path, plan: Plan = PLAN, processes: int = 1) -> Store:
    """Run a sweep."""
    store = Store(str(directory))
    store.begin(plan.text())
    assert run_sweep(plan, store, processes, nothing) == []
    return store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a sweep that is read only."""
    return stored(tmp_path_factory.mktemp("sweep") / "one")


def lab(*arguments: object) -> Result:
    """Run a command of the lab."""
    return CliRunner().invoke(main, ["lab", *map(str, arguments)])


def metrics(store: Store) -> list[dict[str, Any]]:
    """Return the rows of a sweep without what depends on the machine that ran it."""
    rows = [{**row, "wall_ms": None} for row in store.runs()]
    return sorted(rows, key=lambda row: (row["machine"], row["seed"]))


def test_a_row_for_each_run(store: Store) -> None:
    rows = store.runs()
    assert {(row["machine"], row["seed"]) for row in rows} == {
        (machine, seed) for machine in ("eager-3", "cooperative") for seed in (0, 1, 2)
    }
    assert sum(rows[0]["causes"].values()) == pytest.approx(rows[0]["unowned"])
    assert {row["seed"] for row in store.timelines()} == {0}


def test_interrupted_sweep_goes_on(store: Store, tmp_path: Path) -> None:
    half = Store(str(tmp_path / "half"))
    half.begin(PLAN.text())

    def interrupt(done: int, _total: int, _left_s: float) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(PLAN, half, 1, interrupt)
    assert len(half.keys()) == 2
    half.begin(PLAN.text())
    run_sweep(PLAN, half, 1, nothing)
    assert metrics(half) == metrics(store)
    parts = len(list((tmp_path / "half" / "runs").iterdir()))
    run_sweep(PLAN, half, 1, nothing)
    assert len(list((tmp_path / "half" / "runs").iterdir())) == parts, "nothing was missing"


@pytest.mark.slow
def test_processes_give_the_same(store: Store, tmp_path: Path) -> None:
    assert metrics(stored(tmp_path / "two", processes=2)) == metrics(store)


def test_directory_of_another_sweep(store: Store, tmp_path: Path) -> None:
    other = lab("sweep", "--scenario", "herd", "--seeds", "1", "--output", store.directory)
    assert (other.exit_code, "has another sweep" in other.output) == (1, True)
    (tmp_path / "file").write_text("mine")
    for arguments in (
        ("sweep", "--scenario", "herd", "--output", tmp_path),
        ("report", tmp_path, "--html", tmp_path / "page.html"),
        ("compare", tmp_path, "--baseline", "eager-3"),
    ):
        result = lab(*arguments)
        assert (result.exit_code, "is not the directory of a sweep" in result.output) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--seeds", "a"), "takes numbers like"),
        (("--seeds", "5..1"), "has no number"),
        (("--seeds", "0..99999999"), "or too many"),
        (("--members", "0,x"), "takes numbers like"),
        (("--members", "5000"), "members must be between"),
        (("--machine", "zokeeper"), "did you mean 'zookeeper'?"),
        (("--set", "rate=1,x"), "rate must be a number"),
        (("--set", "rate="), "KEY=VALUE"),
    ],
)
def test_wrong_plan(arguments: tuple[str, ...], text: str, tmp_path: Path) -> None:
    result = lab("sweep", "--output", tmp_path / "new", *arguments)
    assert (result.exit_code, text in result.output) == (1, True), result.output
    assert not (tmp_path / "new").exists()


def test_sizes_and_settings_make_cells() -> None:
    plan = plan_of(
        ("rolling-deploy", "scale-out"), ("static",), "5,20", "0", ("commit_ms=100,200",)
    )
    cells = {(key.scenario, key.members, key.partitions, key.settings) for key in plan.runs()}
    assert len(cells) == 8
    assert ("rolling-deploy", 20, 80, (("commit_ms", "100"),)) in cells
    assert ("scale-out", 5, 10, (("commit_ms", "200"),)) in cells


def test_settings_of_a_sweep_are_stored(tmp_path: Path) -> None:
    plan = plan_of(("three-and-one",), ("static",), None, "0", ("commit_ms=100,200", "rate=5"))
    rows = stored(tmp_path / "set", plan).runs()
    assert {tuple(row["settings"]) for row in rows} == {
        (("commit_ms", "100"), ("rate", "5")),
        (("commit_ms", "200"), ("rate", "5")),
    }


def test_machines_are_compared_pair_by_pair(store: Store) -> None:
    (found,) = compare_machines(store.runs(), "eager-3", "moves")
    assert (found.machine, found.pairs, found.value) == ("cooperative", 3, 2.0)
    with pytest.raises(WrongInput, match="did you mean 'moves'"):
        compare_machines(store.runs(), "eager-3", "mvoes")
    with pytest.raises(WrongInput, match="no run of 'static'"):
        compare_machines(store.runs(), "static", "moves")


def test_runs_with_other_scripts_are_no_pairs(store: Store) -> None:
    changed = [{**row, "script": "other"} for row in store.runs()]
    with pytest.raises(WrongInput, match="are no pairs"):
        compare_sweeps(store.runs(), changed, "unowned")


def test_a_sweep_equals_itself(store: Store) -> None:
    result = lab("compare", store.directory, store.directory, "--json")
    assert {row["ratio"] for row in json.loads(result.output)} == {1.0}


def test_fail_over_ends_with_failure(store: Store) -> None:
    arguments = ("compare", store.directory, "--baseline", "cooperative", "--metric", "moves")
    assert lab(*arguments, "--fail-over", 10).exit_code == 0
    result = lab(*arguments, "--fail-over", 1.2)
    assert (result.exit_code, "above 1.2" in result.output) == (1, True)


def test_summary_has_the_median_of_the_seeds(store: Store) -> None:
    rows = summary_rows(store.runs())
    (moves,) = (row for row in rows if (row["machine"], row["metric"]) == ("cooperative", "moves"))
    assert (moves["median"], moves["runs"]) == (2.0, 3)
