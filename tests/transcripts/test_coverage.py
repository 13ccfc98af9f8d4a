"""scenarios.tsv accounts for every scenario and agrees with what the transcripts cite."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from coterie.conformance.checks.chapters import chapter_paths
from coterie.conformance.checks.registry import all_checks
from coterie.conformance.commands import CLIENT_COMMANDS, COMMANDS, INSPECTION_COMMANDS
from coterie.conformance.transcript import Transcript, all_paths, read
from coterie.conversation.syntax import parse_request_line
from tests.transcripts.test_transcripts import ROOT

REPOSITORY = ROOT.parents[1]

HERE = Path(__file__).parent

# By the first letter of their numbers: S of classic groups, offsets, the log and timers (120 to
# 126 are among X), T longer traces, X of transactions, K of consumer groups, Y of share groups,
# D of streams groups.
SCENARIOS: Mapping[str, Sequence[int]] = {
    "S": [*range(1, 120), *range(127, 155)],
    "T": range(1, 13),
    "X": range(1, 68),
    "K": range(1, 108),
    "Y": range(1, 86),
    "D": range(86, 101),
}
# Those that transcripts cite.
CITED = "DKST"
LINKS = re.compile(r"\]\(([^)]+)\)")
CITATION = re.compile(r"\b([DKST])(\d+)(?: to S(\d+))?\b")


class Scenario(NamedTuple):
    """A row of scenarios.tsv.

    Attributes:
        text: what the scenario is about, of S the names that other projects' tests have.
        shown_by: transcripts (.txt), tests (.py), and checks (without an end).
        remark: the reason if it is left out, or what holds for us only.
    """

    text: str
    shown_by: tuple[str, ...]
    remark: str


def scenarios() -> dict[str, Scenario]:
    """Return the rows of scenarios.tsv by their numbers, quirks by their rules."""
    lines = (HERE / "scenarios.tsv").read_text(encoding="utf-8").splitlines()
    rows = [(line.split("\t") + [""] * 3)[:4] for line in lines]
    return {
        number: Scenario(text, tuple(filter(None, shown_by.split(","))), remark)
        for number, text, shown_by, remark in rows
    }


ROWS = scenarios()


def of_kind(kind: str) -> list[str]:
    """Return the numbers of one kind, as the file has them."""
    return [number for number in ROWS if number.startswith(kind)]


def comment_of(path: Path) -> str:
    """Return the comment of a transcript as one line."""
    return read(path).comment.replace("\n", " ")


def name_of(path: Path) -> str:
    """Return how scenarios.tsv names a transcript."""
    return path.relative_to(ROOT).as_posix()


def situations() -> set[str]:
    """Return what checks are called, without their versions and rows."""
    names = {each.situation for each in all_checks()}
    return names | {each.rpartition("/")[0] for each in names}


def test_every_scenario_is_shown_or_left_out_with_a_reason() -> None:
    for kind, numbers in SCENARIOS.items():
        assert of_kind(kind) == [f"{kind}{number}" for number in numbers]
    for number, scenario in ROWS.items():
        if not scenario.shown_by:
            assert len(scenario.remark) > len("left out: because"), number


def test_what_shows_a_scenario_exists() -> None:
    checks = situations()
    for number, scenario in ROWS.items():
        for name in scenario.shown_by:
            if name.endswith(".txt"):
                assert (ROOT / name).is_file(), number
            elif name.endswith(".py"):
                assert (REPOSITORY / name).is_file(), number
            else:
                assert name in checks, number


def test_table_lists_exactly_the_scenarios_that_a_transcript_cites() -> None:
    for path in all_paths():
        cited = set()
        for kind, first, last in CITATION.findall(comment_of(path).rpartition("]")[2]):
            cited |= {f"{kind}{number}" for number in range(int(first), int(last or first) + 1)}
        name = name_of(path)
        listed = {number for number, row in ROWS.items() if name in row.shown_by}
        assert cited == {number for number in listed if number[0] in CITED}, name


def test_transcripts_cite_the_rules_of_the_quirks() -> None:
    quirks = of_kind("[")
    assert quirks
    for rule in quirks:
        for name in ROWS[rule].shown_by:
            assert rule in comment_of(ROOT / name), f"{name} does not cite {rule}"


def test_every_transcript_cites_a_rule_of_the_specification() -> None:
    for path in all_paths():
        assert re.search(r"\[[a-z-]+/[a-z0-9-]+\]", comment_of(path)), path


def test_transcripts_and_tests_named_in_the_specification_exist() -> None:
    directories = {path.parent.name for path in all_paths()}
    areas = {path.stem for path in chapter_paths()}
    known = situations()
    missing = []
    for page in sorted((REPOSITORY / "docs" / "spec").glob("*.md")):
        for name in re.findall(r"`([\w/]+(?:\.py)?)`", page.read_text(encoding="utf-8")):
            is_transcript = name.split("/")[0] in directories and name.count("/") == 1
            if name.split("/")[0] in areas and "/" in name and name not in known:
                missing.append(f"{page.name}: {name}")
            is_test = name.startswith("tests/") and name.endswith(".py")
            path = ROOT / f"{name}.txt" if is_transcript else REPOSITORY / name
            if (is_transcript or is_test) and not path.is_file():
                missing.append(f"{page.name}: {name}")
    assert not missing


def commands_of(transcript: Transcript) -> set[str]:
    """Return the names of the commands in a transcript that are not requests."""
    return {
        command.text.split()[0]
        for block in transcript.blocks
        for command in block.commands
        if parse_request_line(command.text) is None
    }


def test_files_with_commands_that_no_client_has_need_the_core() -> None:
    for path in all_paths():
        transcript = read(path)
        verbs = commands_of(transcript)
        assert verbs <= COMMANDS.keys() | {"given"}, path
        core_only = verbs - CLIENT_COMMANDS - INSPECTION_COMMANDS
        assert not core_only or "core" in transcript.needs, f"{path} uses {core_only}"


def test_every_transcript_has_a_comment_of_at_most_100_columns() -> None:
    for path in all_paths():
        transcript = read(path)
        assert len(transcript.comment) > 60, path
        wide = [line for line in transcript.lines if line.startswith("#") and len(line) > 100]
        assert not wide, path


def test_links_of_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for link in LINKS.findall(readme):
        assert Path(ROOT / link).exists(), link
