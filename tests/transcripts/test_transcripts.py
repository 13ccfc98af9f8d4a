"""Every transcript holds for the core, and the runner reports a transcript that does not."""

from pathlib import Path

import pytest

from coterie.conformance.core_driver import CoreDriver, differences
from coterie.conformance.transcript import all_paths, parse, read
from coterie.conversation.syntax import TranscriptError

ROOT = Path(__file__).parents[2] / "coterie" / "conformance"
PATHS = all_paths()


def core_differences(path: Path) -> str:
    """Run a transcript against the core and return how the output differs from the file."""
    transcript = read(path)
    return differences(transcript, CoreDriver().run(transcript))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.relative_to(ROOT).as_posix()[:-4])
def test_transcript(path: Path, rewrite: bool) -> None:
    transcript = read(path)
    actual = CoreDriver().run(transcript)
    if rewrite:
        path.write_text(transcript.rewritten(actual), encoding="utf-8")
        return
    found = differences(transcript, actual)
    assert not found, f"\n{found}"


CANARY = """\
# A wrong expectation.

c1> Heartbeat v4 group=unknown member=x generation=1
----
c1< Heartbeat v4 ok
"""


def test_wrong_expectation_is_reported() -> None:
    transcript = parse(CANARY, Path("canary.txt"))
    found = differences(transcript, CoreDriver().run(transcript))
    assert "- c1< Heartbeat v4 ok" in found
    assert "+ c1< Heartbeat v4 error=UNKNOWN_MEMBER_ID" in found


def test_output_without_expectation_is_reported() -> None:
    transcript = parse(CANARY.replace("c1< Heartbeat v4 ok\n", ""), Path("canary.txt"))
    assert differences(transcript, CoreDriver().run(transcript))


def test_expectation_without_output_is_reported() -> None:
    text = CANARY.replace("----\n", "----\nc1< Heartbeat v4 error=UNKNOWN_MEMBER_ID\n")
    transcript = parse(text, Path("canary.txt"))
    assert differences(transcript, CoreDriver().run(transcript))


def test_rewriting_changes_only_the_wrong_expectation() -> None:
    transcript = parse(CANARY, Path("canary.txt"))
    text = transcript.rewritten(CoreDriver().run(transcript))
    assert text == CANARY.replace(" ok", " error=UNKNOWN_MEMBER_ID")
    again = parse(text, Path("canary.txt"))
    assert not differences(again, CoreDriver().run(again))


def test_rewriting_a_transcript_that_holds_gives_the_same_bytes() -> None:
    path = ROOT / "traces" / "t01_two_members_form_a_group.txt"
    transcript = read(path)
    assert transcript.rewritten(CoreDriver().run(transcript)) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "line",
    [
        "c1> Heartbeat v4 group=orders mumber=x",  # a misspelt field
        "c1> Heartbeat v2 member=x generation=1 instance=i1",  # v2 cannot carry it
        "c1> Heartbeet v4 member=x",  # an unknown API
        "c1> JoinGroup v9 session=ten",  # not a duration
        "c1> OffsetCommit v8 offsets={sales: 1}",  # not a partition
        "tick",
        "jump 3s",
        "config group.max.sice=2",
    ],
)
def test_malformed_command_is_an_error(line: str) -> None:
    transcript = parse(f"# Malformed.\n\n{line}\n----\n", Path("malformed.txt"))
    with pytest.raises(TranscriptError, match=r"malformed\.txt:3"):
        CoreDriver().run(transcript)


@pytest.mark.parametrize(
    "text",
    [
        "c1> Heartbeat v4\n----\n",  # no comment
        "# There is no block.\n",
        "# An unknown requirement.\nneeds: luck\n\ntick 1s\n----\n",
        "# There is no separator.\n\ntick 1s\n",
        "# Two separators.\n\ntick 1s\n----\ntick 1s\n----\n",
        "# There is no command.\n\n----\nsomething\n",
    ],
)
def test_malformed_file_is_an_error(text: str) -> None:
    with pytest.raises(TranscriptError):
        parse(text, Path("malformed.txt"))
