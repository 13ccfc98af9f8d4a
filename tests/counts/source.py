"""Figures that follow from the text of the files alone."""

import ast
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

SMALL_FILE_LINES = 40
DUPLICATE_LINES = 8
# Where state machines and storage change state, and should state what always holds.
ASSERTING = ("coterie/coordinator", "coterie/storage", "coterie/server/logs")
OTHERS = (
    "benchmarks",
    "benchmarks_pipeline",
    "compilation",
    "documentation",
    "demo",
    "examples",
    "release",
    "tests",
)
_WORD = re.compile(r"\w+")
_PRIVATE = re.compile(r"_[a-z]\w*")
_PAIRS = re.compile(r"(\d+) pairs of places")


def python_files(tree: Path) -> list[Path]:
    """Return the Python files of a tree; the links at its top are not followed."""
    folders = [tree / "coterie", *(tree / name for name in OTHERS)]
    return sorted(
        path
        for folder in folders
        for path in folder.rglob("*.py")
        if "node_modules" not in path.parts and "golden" not in path.parts
    )


def room(path: Path, tree: Path) -> str:
    """Return the package of a file: `coterie/server`, or `tests`."""
    first, *rest = path.relative_to(tree).parts
    if first != "coterie":
        return first
    return f"coterie/{rest[0]}" if len(rest) > 1 else "coterie"


def lines_of(path: Path) -> int:
    """Return the number of lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def by_room(tree: Path) -> dict[str, dict[str, int]]:
    """Return files, lines and small files of each package."""
    found: dict[str, dict[str, int]] = {}
    for path in python_files(tree):
        row = found.setdefault(room(path, tree), {"files": 0, "lines": 0, "small": 0})
        lines = lines_of(path)
        row["files"] += 1
        row["lines"] += lines
        # The files that only make a folder a package have one line of text.
        row["small"] += lines < SMALL_FILE_LINES and path.name != "__init__.py"
    return found


def words(tree: Path) -> int:
    """Return the number of words in the documents."""
    documents = [*(tree / "docs").rglob("*.md"), *tree.glob("*.md")]
    return sum(len(_WORD.findall(path.read_text(encoding="utf-8"))) for path in documents)


def duplicates(tree: Path) -> int | None:
    """Return how many pairs of places share eight lines; None without the tool `duplicates`."""
    tool = shutil.which("duplicates")
    if tool is None:
        return None
    lines = f"--min-lines {DUPLICATE_LINES} --most 1 --seconds 300 --repo".split()
    answer = subprocess.run([tool, *lines, str(tree)], capture_output=True, text=True, check=False)
    counted = _PAIRS.match(answer.stdout)
    return int(counted[1]) if counted and "incomplete:" not in answer.stdout else None


def assertions(tree: Path) -> dict[str, float]:
    """Return the number of assertions a function, for each folder of `ASSERTING`."""
    found = {}
    for folder in ASSERTING:
        counted = Counter(
            type(node).__name__ for path in (tree / folder).rglob("*.py") for node in _nodes(path)
        )
        functions = counted["FunctionDef"] + counted["AsyncFunctionDef"]
        found[folder] = round(counted["Assert"] / functions, 3) if functions else 0.0
    return found


def private_accesses(tree: Path) -> int:
    """Return how often tests read or change a private attribute of the product.

    An access counts if the product defines an attribute of that name, and the file of the test does
    not.
    """
    defined = _private_names((tree / "coterie").rglob("*.py"))
    counted = 0
    for path in _tests(tree):
        foreign = defined - _private_names([path])
        counted += sum(
            isinstance(node, ast.Attribute) and node.attr in foreign and not _of_self(node)
            for node in _nodes(path)
        )
    return counted


def _tests(tree: Path) -> list[Path]:
    return [path for path in python_files(tree) if room(path, tree) == "tests"]


def _nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def _of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def _private_names(paths: Iterable[Path]) -> set[str]:
    """Return the private attributes, methods and functions that the files define."""
    found = set()
    for node in (node for path in paths for node in _nodes(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if _of_self(node):
                found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return {name for name in found if _PRIVATE.fullmatch(name)}
