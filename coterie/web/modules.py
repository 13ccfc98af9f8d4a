"""ES modules as they are served, and joined into one script.

Invariants: a module imports by the address under which the console serves it, or from its own
folder; it renames nothing that it imports, and names that are at the top of a module are used by
one module only. So their text without imports and exports, one after the other, means the same.
"""

import re
from importlib.resources import files
from importlib.resources.abc import Traversable

COMPONENTS = "/shared/"
_IMPORT = re.compile(r"^import\b[^;]*?\bfrom '([^']+)';\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def components() -> Traversable:
    """Return the folder of the shared components."""
    return files("coterie.web") / "components"


def joined(folder: Traversable, entry: str) -> str:
    """Return a module and all that it imports as one script, which defines no global name.

    Args:
        folder: that of the entry.
        entry: its file name.
    """
    parts: list[str] = []
    seen: set[tuple[str, str]] = set()

    def add(folder: Traversable, name: str) -> None:
        if (str(folder), name) in seen:
            return
        seen.add((str(folder), name))
        text = (folder / name).read_text(encoding="utf-8")
        for address in _IMPORT.findall(text):
            place = components() if address.startswith(COMPONENTS) else folder
            add(place, address.rpartition("/")[2])
        parts.append(_EXPORT.sub("", _IMPORT.sub("", text)))

    add(folder, entry)
    script = "\n".join(parts)
    return f"(() => {{\n'use strict';\n{script}}})();\n"
