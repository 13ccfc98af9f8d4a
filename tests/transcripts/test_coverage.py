"""COVERAGE.md accounts for every scenario and agrees with what the transcripts cite."""

import re
from pathlib import Path

from coterie.conformance.commands import CLIENT_COMMANDS, COMMANDS, INSPECTION_COMMANDS
from coterie.conformance.transcript import all_paths, parse_request_line, read
from tests.transcripts.test_transcripts import ROOT

# The scenarios of classic groups, offsets, the log and timers. 120 to 126 are about transactions,
# those from 155 on about other group types and whole clusters.
SCENARIOS = [*range(1, 120), *range(127, 155)]
TEXT = (ROOT / "COVERAGE.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| (\w\d+) \|[^|]*\| (.*) \|$", TEXT, re.MULTILINE))
LINKS = re.compile(r"\]\(([^)]+)\)")
CITATION = re.compile(r"(?<![(\w])S(\d+)(?: to S(\d+))?")


def test_every_scenario_is_shown_or_left_out_with_a_reason() -> None:
    assert [f"S{number}" for number in SCENARIOS] == [row for row in ROWS if row[0] == "S"]
    for row, cell in ROWS.items():
        if cell.startswith("left out:"):
            assert len(cell) > len("left out: because"), row
        else:
            assert LINKS.findall(cell), row


def test_every_trace_and_quirk_is_shown() -> None:
    traces = re.findall(r"^\| (T\d+) \| \[", TEXT, re.MULTILINE)
    assert traces == [f"T{number}" for number in range(1, 13)]
    quirks = re.findall(r"^\| (\d+) \| [^|]+ \| \[", TEXT, re.MULTILINE)
    assert quirks == [str(number) for number in range(1, 16)]


def test_every_linked_file_exists_and_every_transcript_is_linked() -> None:
    linked = {(ROOT / link).resolve() for link in LINKS.findall(TEXT)}
    missing = [str(path) for path in linked if not path.is_file()]
    assert not missing
    not_linked = [str(path) for path in all_paths() if path.resolve() not in linked]
    assert not not_linked


def test_table_lists_every_scenario_that_a_transcript_cites() -> None:
    for path in all_paths():
        name = path.relative_to(ROOT).as_posix()
        for first, last in CITATION.findall(read(path).comment):
            for number in range(int(first), int(last or first) + 1):
                assert f"({name})" in ROWS[f"S{number}"], f"{name} cites S{number}"


def test_files_with_commands_that_no_client_has_need_the_core() -> None:
    for path in all_paths():
        transcript = read(path)
        verbs = {
            command.text.split()[0]
            for block in transcript.blocks
            for command in block.commands
            if parse_request_line(command.text) is None
        }
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


def test_transcripts_and_tests_named_in_the_specification_exist() -> None:
    repository = ROOT.parents[1]
    directories = {path.parent.name for path in all_paths()}
    missing = []
    for page in sorted((repository / "docs" / "spec").glob("*.md")):
        for name in re.findall(r"`([\w/]+(?:\.py)?)`", page.read_text(encoding="utf-8")):
            is_transcript = name.split("/")[0] in directories and name.count("/") == 1
            is_test = name.startswith("tests/") and name.endswith(".py")
            path = ROOT / f"{name}.txt" if is_transcript else repository / name
            if (is_transcript or is_test) and not path.is_file():
                missing.append(f"{page.name}: {name}")
    assert not missing
