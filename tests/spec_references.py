"""Check that every reference to a rule leads to docs/spec: `python -m tests.spec_references`.

A rule is a level-3 heading of docs/spec/SUBJECT.md that holds only the rule's name. Code, tests and
transcripts refer to it as `[SUBJECT/NAME]`. The check fails on a reference without a rule, on a
rule that is defined twice, and on references to documents outside the repository. It lists the
rules that nothing refers to.

`python -m tests.spec_references SUBJECT/NAME ...` lists what refers to these rules instead: the
code that follows them, and the tests and transcripts that show them.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
SPECIFICATION = ROOT / "docs" / "spec"
SOURCES = (
    "coterie",
    "benchmarks",
    "benchmarks_pipeline",
    "compilation",
    "demo",
    "tests",
    "docs",
)
SUFFIXES = {".py", ".txt", ".md", ".checks"}
# These files contain the patterns that the check looks for.
EXCLUDED = {"tests/spec_references.py", "tests/unit/test_spec_references.py"}

HEADING = re.compile(r"^### ([a-z0-9][a-z0-9-]*)$", re.MULTILINE)
# Markdown links have the same brackets, followed by the target.
REFERENCE = re.compile(r"\[([a-z][a-z-]*/[a-z0-9][a-z0-9-]*)\](?!\()")
# References of earlier times, to documents that were never part of the repository.
UNRESOLVABLE = re.compile(
    r"\bspec(?:ification)? (?:section )?(?:\d+(?:\.\d+)*|[ST]\d+)\b"
    r"|\bspec section\b"
    r"|\bSpec (?:\d|[ST]\d)"
    r"|\bquirk \d+"
    r"|\b(?:design|reliability|scenarios|style|pipeline|lab|cluster|spec-[a-z-]+)\.md section"
    r"|\b(?:Design|design|reliability|scenarios|style)\.md\b",
)


def rules(directory: Path = SPECIFICATION) -> Counter[str]:
    """Return the names of all rules as `SUBJECT/NAME`, with the number of their definitions."""
    return Counter(
        f"{path.stem}/{name}"
        for path in sorted(directory.glob("*.md"))
        for name in HEADING.findall(path.read_text(encoding="utf-8"))
    )


def source_files() -> list[Path]:
    """Return every file that may refer to a rule."""
    return [
        path
        for source in SOURCES
        for path in sorted((ROOT / source).rglob("*"))
        if path.suffix in SUFFIXES and path.relative_to(ROOT).as_posix() not in EXCLUDED
    ]


def references(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and the name of every reference in a text."""
    for number, line in enumerate(text.splitlines(), 1):
        for name in REFERENCE.findall(line):
            yield number, name


def unresolvable(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and the words of every reference to a document that is not here."""
    for number, line in enumerate(text.splitlines(), 1):
        for match in UNRESOLVABLE.finditer(line):
            yield number, match[0]


def places(wanted: Iterable[str], paths: Iterable[Path]) -> list[str]:
    """Return where files refer to any of some rules, as PATH:LINE [RULE]."""
    names = set(wanted)
    return [
        f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{number} [{rule}]"
        for path in paths
        for number, rule in references(path.read_text(encoding="utf-8"))
        if rule in names
    ]


def main(wanted: Sequence[str] = ()) -> int:
    """Print every finding and the unused rules; return the exit status.

    Args:
        wanted: rules whose references are listed instead.
    """
    defined = rules()
    if wanted:
        unknown = [name for name in wanted if name not in defined]
        for line in [*places(wanted, source_files()), *(f"no rule [{name}]" for name in unknown)]:
            print(line)
        return 1 if unknown else 0
    used: set[str] = set()
    found = [
        f"docs/spec: {name} is defined {count} times"
        for name, count in defined.items()
        if count > 1
    ]
    for path in source_files():
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        for number, rule in references(text):
            used.add(rule)
            if rule not in defined:
                found.append(f"{name}:{number}: no rule [{rule}] in docs/spec")
        found += [
            f"{name}:{number}: {words!r} refers to a document outside the repository"
            for number, words in unresolvable(text)
        ]
    for finding in found:
        print(finding)
    unused = sorted(set(defined) - used)
    for rule in unused:
        print(f"note: nothing refers to [{rule}]")
    print(
        f"spec references: {len(defined)} rules, {len(used)} referred to, {len(unused)} unused,"
        f" {len(found)} findings"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
