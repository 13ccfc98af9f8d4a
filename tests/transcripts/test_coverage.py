"""COVERAGE.md says what is shown where: completely, and what the transcripts say themselves."""

import re
from pathlib import Path

from coterie.conformance.stage import LOOKS, SHARED, STAGE
from coterie.conformance.transcript import all_paths, read, request_parts
from tests.transcripts.test_transcripts import ROOT

# The classic-group, offset, log and timer scenarios; 120 to 126 are transactions, from 155 on
# other group types and whole clusters.
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


def test_every_file_named_exists_and_every_transcript_is_named() -> None:
    named = {(ROOT / link).resolve() for link in LINKS.findall(TEXT)}
    missing = [str(path) for path in named if not path.is_file()]
    assert not missing
    forgotten = [str(path) for path in all_paths() if path.resolve() not in named]
    assert not forgotten


def test_the_table_says_what_the_transcripts_cite() -> None:
    for path in all_paths():
        name = path.relative_to(ROOT).as_posix()
        for first, last in CITATION.findall(read(path).comment):
            for number in range(int(first), int(last or first) + 1):
                assert f"({name})" in ROWS[f"S{number}"], f"{name} cites S{number}"


def test_files_that_use_what_no_client_can_do_say_so() -> None:
    for path in all_paths():
        transcript = read(path)
        verbs = {
            command.text.split()[0]
            for block in transcript.blocks
            for command in block.commands
            if request_parts(command.text) is None
        }
        assert verbs <= STAGE.keys() | {"given"}, path
        beyond = verbs - SHARED - LOOKS
        assert not beyond or "core" in transcript.needs, f"{path} uses {beyond}"


def test_comments_say_what_and_fit_the_screen() -> None:
    for path in all_paths():
        transcript = read(path)
        assert len(transcript.comment) > 60, path
        wide = [line for line in transcript.lines if line.startswith("#") and len(line) > 100]
        assert not wide, path


def test_the_links_of_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for link in LINKS.findall(readme):
        assert Path(ROOT / link).exists(), link
