"""Groups with epochs in the tables of both engines, on the terminal, on the page and in a replay,
from the logs of our coordinator: a consumer group (KIP-848), and a streams group of another input.

Rules: [report/epochs].
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.cli.main import main
from coterie.pipeline import part_files
from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.jobs.replay import replay_groups
from coterie.pipeline.jobs.run import run
from coterie.pipeline.replay_rows import summed
from coterie.pipeline.report.page import render
from coterie.pipeline.report.reading import read_content
from coterie.pipeline.store import Store
from tests.pipeline.report.browser import Browser
from tests.pipeline.test_engines import assert_equal_stores
from tests.pipeline.timeline import test_streams_stories
from tests.pipeline.timeline.test_epoch_stories import BUMPS, held_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PRINTED = """\
22:14:10.000  ▷ epoch 3 → 5               beat c c joined, client beat c at 127.0.0.1
              took 1 min 10 s, 1 epoch not reached before the next, recorded in the journal
              partitions without an owner: 1 min 22 s in total; 4 of 6 partitions moved
              + beat c c  - beat a a
              epoch 5 after 1 min 5 s: beat a a did not give partitions up in time
              orders 2: beat a a to beat c c, given up after 1 min 5 s (revocation timeout), taken
                over 4.00 s later
              orders 5: beat b b to beat c c, given up after 9.00 s, taken over 4.00 s later
              orders 0: beat a a to beat b b, free since a removal (revocation timeout), taken over
                1.00 s later
              orders 1: beat a a to beat c c, free since a removal (revocation timeout), taken over
                0 ms later
22:15:20.000  ■ epoch 5
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A data directory."""
    return held_back().write(tmp_path_factory.mktemp("epochs") / "data")


@pytest.fixture(scope="module")
def inputs(data: str) -> list[str]:
    """The data directory, and another one with a streams group."""
    return [data, test_streams_stories.held_back().write(Path(data).parent / "streams")]


@pytest.fixture(scope="module")
def output(inputs: list[str]) -> str:
    """What a run made of them."""
    path = str(Path(inputs[0]).parent / "out")
    run(LocalEngine(), inputs, path)
    return path


def test_terminal_says_how_long_members_took(data: str, output: str) -> None:
    shown = [CliRunner().invoke(main, ["pipeline", "show", path, "g"]) for path in (data, output)]
    assert [each.exit_code for each in shown] == [0, 0]
    assert PRINTED in shown[0].stdout
    assert shown[0].stdout == shown[1].stdout


@pytest.mark.xdist_group("spark")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_spark_writes_the_same_rows(inputs: list[str], output: str, spark: "SparkSession") -> None:
    """[pipeline/engines]"""
    from coterie.pipeline.spark_engine import SparkEngine

    other = output + "-spark"
    run(SparkEngine(spark), inputs, other)
    assert_equal_stores(output, other)
    bumps = part_files.read_table(Store.reading(other), "epoch_bumps").sort_by("epoch").to_pylist()
    names = "epoch", "cause", "member_key", "members", "moved_partitions", "stable_ms"
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in bumps:
        found.setdefault(row["group_id"], []).append(tuple(row[name] for name in names))
    assert found["g"] == BUMPS
    assert found["g@streams"] == test_streams_stories.BUMPS


def test_replay_of_epochs(output: str) -> None:
    """[pipeline/what-if]"""
    rows = {}
    for assignor in ("uniform", "range", "roundrobin"):
        found = replay_groups(LocalEngine(), Store.reading(output), assignor, groups=["g"])
        rows[assignor] = summed(found.to_pylist()[0])
    kept = rows["uniform"]
    assert (kept["recorded_protocols"], kept["rebalances"], kept["left_out"]) == (["uniform"], 4, 0)
    assert (kept["recorded_moved"], kept["recorded_unowned_ms"]) == (10, 124_000)
    assert kept["problem"] is None
    assert {name: row["moved"] for name, row in rows.items()} == {
        "uniform": 9, "range": 12, "roundrobin": 12,
    }  # fmt: skip
    # A classic group waits for its slowest member, and not for what that gives up.
    assert {name: row["unowned_ms"] for name, row in rows.items()} == {
        "uniform": 54_000, "range": 27_000, "roundrobin": 27_000,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_page_shows_epochs_where_a_group_has_them(output: str) -> None:
    page = Path(output).parent / "page.html"
    page.write_text(render(read_content(Store.reading(output))), encoding="utf-8")
    heads = """name => [...document.querySelectorAll('#groups details[data-group=g] table')]
      .filter(each => each.caption.textContent === name)
      .flatMap(each => [...each.querySelectorAll('th')].map(head => head.textContent))"""
    cells = """name => [...document.querySelectorAll('#groups details[data-group=g] table')]
      .filter(each => each.caption.textContent === name)
      .flatMap(each => [...each.tBodies[0].rows].map(row => row.textContent))"""
    with Browser() as browser:
        tab = browser.open(page)
        tab.value("document.querySelector('#groups details[data-group=g]').open = true")
        tab.wait("document.querySelector('#groups details[data-group=g] table')")
        assert "epoch" in tab.page.evaluate(heads, "Rebalances of g")
        epochs = tab.page.evaluate(cells, "Epochs of g")
        handovers = tab.page.evaluate(cells, "Slowest handovers of g")
        streams = "document.querySelector('#groups details[data-group=\"g@streams\"]')"
        tab.value(f"{streams}.open = true")
        tab.wait(f"{streams}.querySelector('table')")
        text = tab.value(f"{streams}.innerText")
        assert tab.errors == []
    assert "A lane is a task" in text
    assert "0_2" in text
    assert len(epochs) == len(BUMPS)
    assert "revocation timeout" in epochs[1]
    assert len(handovers) == 10
    assert "orders-2" in " ".join(handovers)
