"""The packages of the product and their modules, by the first lines of their docstrings."""

import re
from pathlib import Path

from documentation import ROOT
from documentation.reference.tables import code, prose, table

_PRODUCT = ROOT / "coterie"
# The first paragraph; `make lint` sees to it that each module begins with one.
_DOCSTRING = re.compile(r'"""(.+?)(?:\n\n|""")', re.DOTALL)
_HEAD = """# Packages

Every package below `coterie`, with its modules, from their docstrings. `make lint` checks what may
import what ([architecture](../architecture.md)).

"""


def packages_page() -> str:
    """Return the page: a heading for each package, a line for each module."""
    parts = [_HEAD]
    for path in _packages(_PRODUCT):
        name = path.relative_to(ROOT).as_posix()
        rows = [
            (code(module.name), prose(_first_line(module)))
            for module in sorted(path.glob("*.py"))
            if module.name != "__init__.py"
        ]
        about = prose(_first_line(path / "__init__.py"))
        parts.append(f"## {name}\n\n{about}\n\n" + table(("module", "what it is"), rows))
    return "".join(parts)


def _packages(path: Path) -> list[Path]:
    """Return a package and those in it; rglob would not follow the links to the pure ones."""
    inside = sorted(each.parent for each in path.glob("*/__init__.py"))
    return [path, *(package for each in inside for package in _packages(each))]


def _first_line(path: Path) -> str:
    found = _DOCSTRING.match(path.read_text(encoding="utf-8"))
    return " ".join(found[1].split()) if found else ""
