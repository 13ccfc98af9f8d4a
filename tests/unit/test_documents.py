"""Decisions say what became of them, references lead to what exists, drawings are whole."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECISIONS = sorted((ROOT / "docs" / "adr").glob("*.md"))
_LINK = re.compile(r"\]\(([\w./-]+\.(?:md|py|svg))(?:#[^)]*)?\)")
_CODE_ROOTS = ("coterie", "compilation", "container", "documentation", "benchmarks", "tests")
_CODE = re.compile(r"`([^`]+)`")
_CAPITALS = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")
_DOTTED = re.compile(r"[a-z]+(?:\.[a-z][a-z0-9]*)+")
_SNAKE = re.compile(r"[a-z]\w*_\w+")
_FILE = re.compile(r"[\w./-]*\w\.(?:py|tsv|txt|js)")
# Names of Kafka and of Linux that our code has no use for, and two that it puts together.
_OTHERS = {
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "sync_file_range",
    "kafka_server_failed_authentication_total",
    "kafka_server_successful_authentication_total",
}
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


def test_rules_and_decisions_name_what_the_code_has() -> None:
    """Settings, error codes, fields and files. What a decision has rejected need not be there."""
    files = [path for each in _CODE_ROOTS for path in (ROOT / each).rglob("*")]
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for path in files
        if path.suffix in {".py", ".tsv", ".sh"} and not path.is_relative_to(ROOT / "tests")
    )
    names = {*re.findall(r"[\w.]+", code), *re.findall(r"\w+", code), *_OTHERS}
    names |= {path.stem for path in files}
    # Prometheus adds the end to the names of counters.
    names |= {f"{each}_total" for each in names if each.startswith(("kafka_", "coterie_"))}
    paths = {"/" + path.as_posix() for path in (*files, *ROOT.glob("*.txt"))}
    unknown = []
    for path in [*(ROOT / "docs" / "spec").glob("*.md"), *DECISIONS]:
        text = " ".join(path.read_text(encoding="utf-8").split())
        text = re.sub(r"\*\*Rejected\.\*\*.*?(?=\*\*How)", "", text)
        quoted = _CODE.findall(text)
        named = {each for each in quoted if _DOTTED.fullmatch(each) or _SNAKE.fullmatch(each)}
        named = {each for each in named if not _FILE.fullmatch(each)} | {*_CAPITALS.findall(text)}
        unknown += [(path.name, each) for each in named - names]
        unknown += [
            (path.name, each)
            for each in quoted
            if _FILE.fullmatch(each) and not any(file.endswith(f"/{each}") for file in paths)
        ]
    assert sorted(unknown) == [], sorted(unknown)


def test_the_drawing_has_every_package() -> None:
    packages = {path.parent.name for path in (ROOT / "coterie").glob("*/__init__.py")}
    architecture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = set(
        re.findall(r"<b>(?:coterie/)?(\w+)</b>", architecture.partition("## Beside the server")[0])
    )
    assert packages - drawn == set()
