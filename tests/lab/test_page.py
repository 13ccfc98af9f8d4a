"""The page about a sweep, and the claims on it."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from coterie.cli.lab.run import command
from coterie.lab.claims import CLAIMS
from coterie.lab.grid import plan_of
from coterie.lab.machines import MACHINES, machine_named
from coterie.lab.parameters import Parameters, with_settings
from coterie.lab.report.page import render
from coterie.lab.scenario import load_scenario, scenario_names
from coterie.lab.store import Store
from tests.lab.planted import PLANTS
from tests.lab.test_sweep import lab, stored
from tests.pipeline.report.browser import Browser

# One worker prepares what its tests share.
pytestmark = pytest.mark.xdist_group("lab page")

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a sweep with two sizes."""
    plan = plan_of(("three-and-one", "flapping"), ("static", "zookeeper"), "3,6", "0,1", ())
    return stored(tmp_path_factory.mktemp("page") / "sweep", plan)


@pytest.fixture(scope="module")
def page(store: Store) -> str:
    """Return the page."""
    return render(store.plan_text(), store.runs(), store.timelines())


def test_page_is_one_small_file(page: str) -> None:
    assert len(page) < 2_000_000
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=|url\(", page), "it loads nothing"


def test_page_has_every_section(page: str) -> None:
    for text in ("Time without a reader", "Who reads what", "p05" and "band",
                 "Over the number of members", "Duplicates", "Requests", "measured"):  # fmt: skip
        assert text in page, text
    assert page.count("<tr class=") == len(CLAIMS)


def test_command_writes_the_page(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "lab.html"
    result = lab("report", store.directory, "--html", path)
    assert result.exit_code == 0, result.output
    assert path.stat().st_size > 10_000


def test_duplicates_are_drawn_over_the_commit_interval(page: str, tmp_path: Path) -> None:
    assert "commit_ms=200,1000,5000,20000" in page, "without such a sweep the page says how"
    plan = plan_of(("flapping",), ("eager-3",), "4", "0", ("commit_ms=200,20000",))
    store = stored(tmp_path / "sweep", plan)
    drawn = render(store.plan_text(), store.runs(), store.timelines())
    assert "over the commit interval in seconds" in drawn
    assert ">0.2</text>" in drawn
    assert ">20</text>" in drawn


def test_requests_of_every_scenario_are_drawn(page: str) -> None:
    requests = page[page.index("<h2>Requests") :]
    for name in ("three-and-one", "flapping"):
        assert f"<summary><b>{name}</b>" in requests


def test_picture_of_the_readme_is_what_its_command_writes(tmp_path: Path) -> None:
    (command,) = re.findall(r"coterie (lab run .* --svg \S+)", (ROOT / "README.md").read_text())
    *words, path = shlex.split(command)[1:]
    result = lab(*words, tmp_path / "picture.svg")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "picture.svg").read_text() == (ROOT / path).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 390])
def test_page_fits_the_window(page: str, tmp_path: Path, width: int) -> None:
    path = tmp_path / "lab.html"
    path.write_text(page)
    with Browser() as browser:
        tab = browser.open(path, width=width)
        assert tab.value("document.documentElement.scrollWidth") <= width
        assert tab.errors == []


def test_claims_are_numbered_and_judged() -> None:
    assert [claim.number for claim in CLAIMS] == list(range(1, 33))
    assert {claim.verdict for claim in CLAIMS} == {"shown", "partly", "refuted"}


@pytest.mark.parametrize("claim", [each for each in CLAIMS if each.command], ids=str)
def test_command_of_a_claim_is_possible(claim: object) -> None:
    words = shlex.split(claim.command)  # type: ignore[attr-defined]
    if words[:3] == ["python", "-m", "tests.lab.planted"]:
        assert words.pop(3) in PLANTS
    else:
        assert words[:3] == ["coterie", "lab", "run"]
    load_scenario(words[3])
    rest = [each for each in words[4:] if each != "--verbose"]
    for option, value in zip(rest[::2], rest[1::2], strict=True):
        if option == "--machine":
            machine_named(value)
        elif option == "--set":
            with_settings(Parameters(), dict([value.split("=")]))
        else:
            assert option in ("--members", "--partitions", "--trace", "--seed")


def test_scenarios_name_claims_that_exist() -> None:
    named = {number for name in scenario_names() for number in load_scenario(name).claims}
    assert named <= {claim.number for claim in CLAIMS}


def test_every_claim_has_a_command() -> None:
    assert [claim.number for claim in CLAIMS if not claim.command] == []


PICTURES = {
    "rebalance": (
        "three-and-one", "--members", "4", "--partitions", "12", "--machine", "eager-3",
        "--machine", "cooperative",
    ),
    "eager": ("slow-joiner", "--machine", "eager-3", "--machine", "cooperative"),
    "connect": (
        "bounce-one", "--members", "4", "--partitions", "8", "--machine", "connect-eager",
        "--machine", "connect", "--set", "connect_delay_ms=10000",
    ),
    "consumer": (
        "three-and-one", "--members", "4", "--partitions", "12", "--machine", "cooperative",
        "--machine", "consumer",
    ),
    "rocketmq": (
        "rolling-deploy", "--members", "4", "--partitions", "8", "--machine", "eager-3",
        "--machine", "rocketmq-4", "--machine", "rocketmq-5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_of_the_story_are_what_the_lab_draws(
    name: str, tmp_path: Path, rewrite: bool
) -> None:
    """`--rewrite` draws them anew."""
    drawn, kept = tmp_path / "drawn.svg", ROOT / "docs" / "images" / f"{name}.svg"
    result = CliRunner().invoke(command, [*PICTURES[name], "--svg", str(drawn)])
    assert result.exit_code == 0
    if rewrite:
        kept.write_text(drawn.read_text())
    assert kept.read_text() == drawn.read_text()


def test_picture_of_many_partitions_has_some_of_all(tmp_path: Path) -> None:
    """Thirty-two partitions of eight members: the twelve first belong to three of them."""
    drawn = tmp_path / "drawn.svg"
    assert CliRunner().invoke(command, [*PICTURES["eager"], "--svg", str(drawn)]).exit_code == 0
    text = drawn.read_text()
    assert "One slow poll: 8 members, 32 partitions" in text
    assert "A line is a partition (11 of 32 are drawn)" in text
    eager, cooperative = text.split("partition-seconds without a reader")[1:]
    colours = {line.rpartition("=")[2] for line in eager.splitlines() if line.startswith("<rect")}
    assert len(colours) == 1 + 8
    marks = re.findall(r">(\d+\.?\d*) s<", cooperative)
    assert marks == ["0", "50", "100", "150", "200"]


def test_gap_with_several_causes_is_one_bar(tmp_path: Path) -> None:
    """Bars that meet have a pale line between them."""
    drawn = tmp_path / "drawn.svg"
    assert CliRunner().invoke(command, [*PICTURES["connect"], "--svg", str(drawn)]).exit_code == 0
    text = drawn.read_text().split("connect: ")[1]
    gaps = [line for line in text.splitlines() if "#c8362c" in line]
    # Two tasks of the worker that was away.
    assert len(gaps) == 2
    assert "A line is a task, a colour is the member that has it" in text


def test_story_has_every_picture_and_machine() -> None:
    story = (ROOT / "docs" / "rebalancing.md").read_text()
    assert all(f"](images/{name}.svg)" in story for name in PICTURES)
    assert story.index("## What is best?") < story.index("## 2012")
    verdicts = [claim.verdict for claim in CLAIMS]
    shown, partly, refuted = map(verdicts.count, ("shown", "partly", "refuted"))
    assert f"({shown} shown, {partly} true under a condition, {refuted} refuted)" in story
    for machine in MACHINES:
        assert f"`{machine}`" in story
