"""COVERAGE.md accounts for every scenario and agrees with what the transcripts cite."""

import re
from pathlib import Path

from coterie.conformance.checks.chapters import chapter_paths
from coterie.conformance.checks.registry import all_checks
from coterie.conformance.commands import CLIENT_COMMANDS, COMMANDS, INSPECTION_COMMANDS
from coterie.conformance.transcript import Transcript, all_paths, read
from coterie.conversation.requests import REQUEST_APIS
from coterie.conversation.syntax import parse_request_line
from tests.transcripts.test_transcripts import ROOT

REPOSITORY = ROOT.parents[1]

# The scenarios of classic groups, offsets, the log and timers. 120 to 126 are about transactions,
# those from 155 on about other group types and whole clusters.
SCENARIOS = [*range(1, 120), *range(127, 155)]
# Those of consumer groups.
CONSUMER_SCENARIOS = range(1, 108)
# Those of streams groups, numbered behind those of share groups.
STREAMS_SCENARIOS = range(86, 101)
TEXT = (ROOT / "COVERAGE.md").read_text(encoding="utf-8")
# A scenario is followed by its text and, behind a colon, by links, names of checks or a reason.
_ROW = r"^- ([%s]\d+)(?: .*?)??: ((?:\[|`\w+/|left out:).*)$"
ROWS = dict(re.findall(_ROW % "DKST", TEXT, re.MULTILINE))
# Those that checks show: of transactions, and of share groups.
CHECKED_ROWS = dict(re.findall(_ROW % "XY", TEXT, re.MULTILINE))
LINKS = re.compile(r"\]\(([^)]+)\)")
CITATION = re.compile(r"\b([DKST])(\d+)(?: to S(\d+))?\b")


def section(heading: str) -> str:
    """Return the text of COVERAGE.md from a heading to the next one."""
    return TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def comment_of(path: Path) -> str:
    """Return the comment of a transcript as one line."""
    return read(path).comment.replace("\n", " ")


def name_of(path: Path) -> str:
    """Return how COVERAGE.md links to a transcript."""
    return path.relative_to(ROOT).as_posix()


def situations() -> set[str]:
    """Return what checks are called, without their versions and rows."""
    names = {each.situation for each in all_checks()}
    return names | {each.rpartition("/")[0] for each in names}


def test_every_scenario_is_shown_or_left_out_with_a_reason() -> None:
    assert [f"S{number}" for number in SCENARIOS] == [row for row in ROWS if row[0] == "S"]
    assert [f"K{number}" for number in CONSUMER_SCENARIOS] == [row for row in ROWS if row[0] == "K"]
    assert [f"D{number}" for number in STREAMS_SCENARIOS] == [row for row in ROWS if row[0] == "D"]
    for row, cell in ROWS.items():
        if cell.startswith("left out:"):
            assert len(cell) > len("left out: because"), row
        else:
            assert LINKS.findall(cell), row


def test_every_trace_is_shown() -> None:
    assert [row for row in ROWS if row[0] == "T"] == [f"T{number}" for number in range(1, 13)]


def test_every_scenario_of_transactions_and_share_groups_is_shown_by_checks_that_exist() -> None:
    expected = [f"X{number}" for number in range(1, 68)]
    assert list(CHECKED_ROWS) == expected + [f"Y{number}" for number in range(1, 86)]
    for row, cell in CHECKED_ROWS.items():
        names = set(re.findall(r"`(\w+/\w+)`", cell))
        assert names <= situations(), row
        assert names or LINKS.findall(cell), row


def test_every_linked_file_exists_and_every_transcript_is_linked() -> None:
    linked = {(ROOT / link).resolve() for link in LINKS.findall(TEXT)}
    missing = [str(path) for path in linked if not path.exists()]
    assert not missing
    not_linked = [str(path) for path in all_paths() if path.resolve() not in linked]
    assert not not_linked


def test_table_lists_exactly_the_scenarios_that_a_transcript_cites() -> None:
    for path in all_paths():
        cited = set()
        for kind, first, last in CITATION.findall(comment_of(path).rpartition("]")[2]):
            cited |= {f"{kind}{number}" for number in range(int(first), int(last or first) + 1)}
        name = name_of(path)
        listed = {row for row, cell in ROWS.items() if f"({name})" in cell}
        assert cited == listed, name


def test_transcripts_cite_the_rules_of_the_quirks() -> None:
    text = section("Quirks of Kafka that are kept")
    quirks = re.findall(r"^- (\[[\w/-]+\]): (.*)$", text, re.MULTILINE)
    assert quirks
    for rule, cell in quirks:
        for name in LINKS.findall(cell):
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


def test_documentation_describes_every_command_and_every_api() -> None:
    page = (REPOSITORY / "docs" / "transcripts.md").read_text(encoding="utf-8")
    for name in [*COMMANDS, *CLIENT_COMMANDS, *REQUEST_APIS]:
        assert re.search(rf"`{name}\b|^\| {name} \|", page, re.MULTILINE), name
