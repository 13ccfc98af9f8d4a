"""Every transcript holds for the core; and the runner would notice if one did not."""

from pathlib import Path

import pytest

from coterie.conformance.driver import CoreDriver, differences
from coterie.conformance.transcript import TranscriptError, all_paths, parse, read

ROOT = Path(__file__).parents[2] / "coterie" / "conformance"
PATHS = all_paths()


def seen_differences(path: Path) -> str:
    transcript = read(path)
    return differences(transcript, CoreDriver().run(transcript))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.relative_to(ROOT).as_posix()[:-4])
def test_transcript(path: Path, rewrite: bool) -> None:
    transcript = read(path)
    actual = CoreDriver().run(transcript)
    if rewrite:
        path.write_text(transcript.rewritten(actual), encoding="utf-8")
        return
    wrong = differences(transcript, actual)
    assert not wrong, f"\n{wrong}"


CANARY = """\
# A wrong expectation.

c1> Heartbeat v4 group=nobody member=x generation=1
----
c1< Heartbeat v4 ok
"""


def test_a_wrong_expectation_is_noticed() -> None:
    transcript = parse(CANARY, Path("canary.txt"))
    wrong = differences(transcript, CoreDriver().run(transcript))
    assert "- c1< Heartbeat v4 ok" in wrong
    assert "+ c1< Heartbeat v4 error=UNKNOWN_MEMBER_ID" in wrong


def test_a_missing_expectation_is_noticed() -> None:
    transcript = parse(CANARY.replace("c1< Heartbeat v4 ok\n", ""), Path("canary.txt"))
    assert differences(transcript, CoreDriver().run(transcript))


def test_an_answer_that_never_comes_is_noticed() -> None:
    text = CANARY.replace("----\n", "----\nc1< Heartbeat v4 error=UNKNOWN_MEMBER_ID\n")
    transcript = parse(text, Path("canary.txt"))
    assert differences(transcript, CoreDriver().run(transcript))


def test_rewriting_makes_it_hold_and_changes_nothing_else() -> None:
    transcript = parse(CANARY, Path("canary.txt"))
    text = transcript.rewritten(CoreDriver().run(transcript))
    assert text == CANARY.replace(" ok", " error=UNKNOWN_MEMBER_ID")
    again = parse(text, Path("canary.txt"))
    assert not differences(again, CoreDriver().run(again))


def test_rewriting_what_holds_gives_the_same_bytes() -> None:
    path = ROOT / "traces" / "t01_two_members_form_a_group.txt"
    transcript = read(path)
    assert transcript.rewritten(CoreDriver().run(transcript)) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "line",
    [
        "c1> Heartbeat v4 group=orders mumber=x",  # a misspelt field
        "c1> Heartbeat v2 member=x generation=1 instance=i1",  # v2 cannot carry it
        "c1> Heartbeet v4 member=x",  # no such request
        "c1> JoinGroup v9 session=ten",  # no duration
        "c1> OffsetCommit v8 offsets={sales: 1}",  # no partition
        "tick",
        "jump 3s",
        "config group.max.sice=2",
    ],
)
def test_a_command_that_makes_no_sense_is_an_error(line: str) -> None:
    transcript = parse(f"# Nonsense.\n\n{line}\n----\n", Path("nonsense.txt"))
    with pytest.raises(TranscriptError, match=r"nonsense\.txt:3"):
        CoreDriver().run(transcript)


@pytest.mark.parametrize(
    "text",
    [
        "c1> Heartbeat v4\n----\n",  # no comment
        "# Nothing happens.\n",
        "# Needs what nobody has.\nneeds: luck\n\ntick 1s\n----\n",
        "# No ruler.\n\ntick 1s\n",
        "# Two rulers.\n\ntick 1s\n----\ntick 1s\n----\n",
        "# No command.\n\n----\nsomething\n",
    ],
)
def test_a_file_that_is_no_transcript_is_an_error(text: str) -> None:
    with pytest.raises(TranscriptError):
        parse(text, Path("nonsense.txt"))
