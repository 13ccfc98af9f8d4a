"""Check that no file imports itself through others: `python -m tests.import_circles`.

Every import counts, also those under TYPE_CHECKING and inside functions: a circle of types is still
a circle for the reader. The check covers the packages of `PACKAGES`.
"""

import ast
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("coterie",)

Graph = dict[str, set[str]]


def import_graph(root: Path, packages: Iterable[str]) -> Graph:
    """Return which module imports which, by dotted names.

    Args:
        root: the directory of the packages.
        packages: directories below it.
    """
    files = {
        _module_name(path.relative_to(root)): path
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
    }
    return {name: _imported(path, files) - {name} for name, path in files.items()}


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)


def _imported(path: Path, files: Mapping[str, Path]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                found.add(submodule if submodule in files else node.module)
    return found & files.keys()


def circles(graph: Graph) -> list[list[str]]:
    """Return the sets of modules that import each other, each sorted (Tarjan's components)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], index[other])
        if lowest[name] == index[name]:
            component = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(component) > 1:
                found.append(sorted(component))

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return found


def main(packages: Iterable[str] = PACKAGES) -> int:
    """Print every circle; return the exit status."""
    count = 0
    modules = 0
    for package in packages:
        graph = import_graph(ROOT, [package])
        modules += len(graph)
        for circle in circles(graph):
            count += 1
            print(f"{package}: these files import each other: {', '.join(circle)}")
    print(f"import circles: {modules} modules, {count} circles")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or PACKAGES))
