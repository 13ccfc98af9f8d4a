"""Each decision in docs/adr says what became of it; references and links lead to what exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECISIONS = sorted((ROOT / "docs" / "adr").glob("*.md"))
_LINK = re.compile(r"\]\(([\w./-]+\.(?:md|py|svg))(?:#[^)]*)?\)")
_STATUS = re.compile(r"Status: (accepted|replaced by ADR \d+),? 2\d{3}-\d\d-\d\d[.;]")


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.name[:4])
def test_a_decision_begins_with_its_number_and_its_status(path: Path) -> None:
    title, _, rest = path.read_text(encoding="utf-8").partition("\n\n")
    assert title.startswith(f"# {int(path.name[:4])}. ")
    assert _STATUS.match(rest), "below the title: `Status: accepted 2026-11-24.`"


def test_a_reference_to_a_decision_leads_to_one_that_exists() -> None:
    numbers = {int(path.name[:4]) for path in DECISIONS}
    assert len(numbers) == len(DECISIONS)
    files = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "coterie").rglob("*.py"), ROOT / "README.md"]
    missing = [
        (path.name, number)
        for path in files
        for number in re.findall(r"\bADR (\d+)|adr/(?:0*)(\d+)-", path.read_text(encoding="utf-8"))
        if int("".join(number)) not in numbers
    ]
    assert missing == []


def test_links_of_documents_lead_to_files() -> None:
    documents = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    broken = [
        (path.name, link)
        for path in documents
        for link in _LINK.findall(path.read_text(encoding="utf-8"))
        if not (path.parent / link).exists()
    ]
    assert broken == []
