"""`coterie pipeline show` reads a data directory without numpy and pyarrow, with equal results."""

import subprocess
import sys
from pathlib import Path

import pytest

from coterie.pipeline import show
from coterie.pipeline.show import known_groups, read_story
from tests.pipeline.random_logs import RandomLog

# Shows a group as the plain install does, and prints the packages of the extra that were imported.
_PROGRAM = """
import sys
from coterie.cli.main import main
from coterie.pipeline import show
show.find_spec = lambda _: None
sys.argv = ["coterie", "pipeline", "show", sys.argv[1], "orders"]
try:
    main()
finally:
    print(sorted({"numpy", "pyarrow", "pyspark"} & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("seed", range(4))
def test_story_is_that_of_the_codec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")
    log = RandomLog(tmp_path / "data", seed, "x")
    log.grow(80)
    groups = known_groups(log.data.path)
    stories = [read_story(log.data.path, group) for group in groups]
    assert any(story is not None and story.moves for story in stories)
    monkeypatch.setattr(show, "find_spec", lambda _: None)
    assert known_groups(log.data.path) == groups
    assert [read_story(log.data.path, group) for group in groups] == stories


def test_end_of_a_log_that_is_being_written_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RandomLog(tmp_path / "data", 3, "x")
    log.grow(80)
    monkeypatch.setattr(show, "find_spec", lambda _: None)
    story = read_story(log.data.path, "orders")
    for path in Path(log.data.path).glob("*/*.log"):
        path.write_bytes(path.read_bytes() + bytes([0] * 8 + [0, 0, 0, 99, 1]))
    assert story is not None
    assert read_story(log.data.path, "orders") == story


def test_show_imports_no_package_of_the_extra(tmp_path: Path) -> None:
    log = RandomLog(tmp_path / "data", 3, "x")
    log.grow(80)
    shown = subprocess.run(
        [sys.executable, "-c", _PROGRAM, log.data.path],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert shown.returncode == 0, shown.stderr
    assert "generation" in shown.stdout
    assert shown.stderr.splitlines()[-1] == "[]"
