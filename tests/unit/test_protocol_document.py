"""Pages about the protocol: each difference has its evidence, or a rule that marks it."""

import re
from pathlib import Path

import pytest

from documentation.reference.differences import differences_page, marked

ROOT = Path(__file__).parents[2]
TRANSCRIPTS = ROOT / "coterie" / "conformance"
TEXT = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
# The last cell of a row of differences.
EVIDENCE = re.compile(r"^\| .* \| `([^|`]*)` \|$", re.MULTILINE)


def test_every_row_of_differences_names_evidence() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| ")]
    assert len(rows) - 1 == len(EVIDENCE.findall(TEXT)) > 5


@pytest.mark.parametrize("name", sorted(set(EVIDENCE.findall(TEXT))))
def test_evidence_exists(name: str) -> None:
    path = ROOT / name if name.startswith("tests/") else TRANSCRIPTS / f"{name}.txt"
    assert path.is_file()


def test_marks_of_rules_are_found() -> None:
    text = """# Topics. **Ours** here is none.

### first
As in Kafka. **Ours**: one thing.

A limit (of **ours**) is high. More of it.

### second
**Ours**:

* two
* things

## Other

### third
As in Kafka.
"""
    assert list(marked(text)) == [
        ("first", "one thing."),
        ("first", "A limit (of **ours**) is high."),
        ("second", "two things"),
    ]


def test_every_transcript_of_a_difference_is_on_the_page() -> None:
    """A transcript that `needs: ours` pins a choice that Kafka makes otherwise or leaves open."""
    ours = {
        path.relative_to(TRANSCRIPTS).with_suffix("").as_posix()
        for path in TRANSCRIPTS.rglob("*.txt")
        if re.search(r"^needs:.*\bours\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    page = differences_page()
    assert ours
    assert {each for each in ours if f"* `{each}`: " not in page} == set()


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
