"""docs/protocol.md agrees with the code, and every file that it names exists."""

import re
from pathlib import Path

import pytest

from coterie.protocol.api_keys import SERVED_VERSIONS

ROOT = Path(__file__).parents[2]
TRANSCRIPTS = ROOT / "coterie" / "conformance"
TEXT = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
SERVED = re.compile(r"(?:- |, )(\d+) (\w+) (\d+)-(\d+)")
# The last cell of a row of differences.
EVIDENCE = re.compile(r"^\| .* \| (`[^|]*`) \|$", re.MULTILINE)
SENTENCE = re.compile(r"Shown by (`[^`]+`)\.$", re.MULTILINE)


def evidence() -> list[str]:
    cells = [*EVIDENCE.findall(TEXT), *SENTENCE.findall(TEXT)]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_the_list_has_what_is_served() -> None:
    section = TEXT.partition("## APIs and versions")[2].partition("\n## ")[0]
    assert [
        (int(key), name, (int(first), int(last)))
        for key, name, first, last in SERVED.findall(section)
    ] == [(api.value, api.kafka_name, versions) for api, versions in SERVED_VERSIONS.items()]


def test_every_row_of_differences_names_evidence() -> None:
    differences = TEXT[TEXT.index("## Not there") :]
    rows = [line for line in differences.splitlines() if line.startswith("| ")]
    headings = [line for line in rows if line.endswith("| shown by |")]
    assert len(rows) - len(headings) == len(EVIDENCE.findall(differences)) > 30


@pytest.mark.parametrize("name", sorted(set(evidence())))
def test_evidence_exists(name: str) -> None:
    path = ROOT / name if name.startswith("tests/") else TRANSCRIPTS / f"{name}.txt"
    assert path.is_file()


def test_every_transcript_of_a_difference_is_listed() -> None:
    """A transcript that `needs: ours` pins a choice that Kafka makes otherwise or leaves open."""
    ours = {
        path.relative_to(TRANSCRIPTS).with_suffix("").as_posix()
        for path in TRANSCRIPTS.rglob("*.txt")
        if re.search(r"^needs:.*\bours\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert ours
    assert ours <= set(evidence())


def test_only_quotas_ask_a_client_to_wait() -> None:
    """Nothing else sets `throttle_time_ms`, which is 0 by default."""
    sources = [
        *(ROOT / "coterie" / "coordinator").rglob("*.py"),
        *(ROOT / "coterie" / "server").rglob("*.py"),
    ]
    assert {path.name for path in sources if "throttle_time_ms" in path.read_text("utf-8")} == {
        "create_partitions.py",
        "create_topics.py",
        "delete_topics.py",
        "routes.py",
    }
