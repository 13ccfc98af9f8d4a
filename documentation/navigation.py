"""What is where in the navigation: one way in for each use, then guides, reference, explanation."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from documentation.pages import Page

# Tabs with their pages. A page without a text of its own here has its heading's.
START = (
    ("Test your services", "start/tests.md"),
    ("A local broker", "start/broker.md"),
    ("Check a broker or a client", "start/check.md"),
    ("Rebalance forensics", "start/forensics.md"),
    ("Overview", "overview.md"),
)
GUIDES = (
    ("Testing", "testing.md"),
    ("Several brokers", "cluster.md"),
    ("The control port", "control.md"),
    ("The console", "console.md"),
    ("Configuration", "configuration.md"),
    ("Security", "security.md"),
    ("Commands", "command-line.md"),
    ("Checking a broker", "conformance.md"),
    ("Checking a client", "clients.md"),
    ("The pipeline", "pipeline.md"),
    ("Containers", "containers.md"),
    ("Operating systems", "platforms.md"),
)
REFERENCE = (
    ("Commands", "reference/commands"),
    ("Settings", "reference/settings.md"),
    ("Control API", "reference/control.md"),
    ("Python API", "reference/python.md"),
    ("Protocol", "protocol.md"),
    ("APIs", "reference/apis.md"),
    ("Differences from Kafka", "reference/differences.md"),
    ("Limits", "reference/limits.md"),
    ("Long turns", "limits.md"),
    ("Checks and findings", "reference/findings.md"),
    ("What clients do", "reference/client-findings.md"),
    ("The lab", "reference/lab.md"),
    ("Tables of the pipeline", "reference/pipeline-tables.md"),
    ("Transcripts", "transcripts.md"),
    ("Commands of transcripts", "reference/transcripts.md"),
    ("Glossary", "glossary.md"),
    ("Specification", "spec"),
)
EXPLANATION = (
    ("Theory of operation", "theory-of-operation.md"),
    ("Rebalancing, a history", "rebalancing.md"),
    ("Comparison", "comparison.md"),
    ("Benchmarks", "benchmarks.md"),
    ("Architecture", "architecture.md"),
)
PROJECT = (
    ("Development", "development.md"),
    ("Packages", "reference/packages.md"),
    ("Decisions", "adr"),
    ("Crashes", "crashes.md"),
    ("Size of the code", "size.md"),
    ("Contributing", "contributing.md"),
    ("Security policy", "security-policy.md"),
    ("Changelog", "changelog.md"),
    ("Files", "files"),
)
TABS = {
    "Start": START,
    "Guides": GUIDES,
    "Reference": REFERENCE,
    "Explanation": EXPLANATION,
    "Project": PROJECT,
}


def navigation(pages: "list[Page]") -> list[Any]:
    """Return the navigation; an entry that names a directory has all of its pages.

    Raises:
        SystemExit: a page has no place in it.
    """
    tree: list[Any] = [{"Home": "index.md"}]
    for tab, entries in TABS.items():
        tree.append({tab: [{name: _entry(target, pages)} for name, target in entries]})
    missing = {page.place for page in pages} - set(_places(tree))
    if missing:
        raise SystemExit(f"no place in documentation/navigation.py: {', '.join(sorted(missing))}")
    return tree


def _entry(target: str, pages: "list[Page]") -> Any:
    if target.endswith(".md"):
        return target
    inside = [page for page in pages if page.place.startswith(f"{target}/")]
    index = [page.place for page in inside if page.place == f"{target}/index.md"]
    return [*index, *({page.title: page.place} for page in inside if page.place not in index)]


def _places(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    children = entry.values() if isinstance(entry, dict) else entry
    return [place for child in children for place in _places(child)]
