"""What a docstring says of its subject and of each name, for the document of the control port."""

import inspect
import re

_SECTIONS = ("Args:", "Attributes:", "Returns:", "Raises:")
# A name, or several names with the same meaning: "key, headers: of every record."
_ENTRY = re.compile(r"    (\w+(?:, \w+)*): (.*)")


def summary_of(documented: object) -> tuple[str, str]:
    """Return the first sentence of a docstring, and what follows it before its sections."""
    first, _, rest = (inspect.getdoc(documented) or "").partition("\n")
    text: list[str] = []
    for line in rest.splitlines():
        if line.strip() in _SECTIONS:
            break
        text.append(line)
    return first, " ".join(" ".join(text).split())


def names_in(documented: object) -> dict[str, str]:
    """Return what the sections Args and Attributes of a docstring say of each name."""
    return entries_in(documented, "Args", "Attributes")


def entries_in(documented: object, *sections: str) -> dict[str, str]:
    """Return what some sections of a docstring, such as "Args", say of each name."""
    found: dict[str, str] = {}
    names: list[str] = []
    is_inside = False
    for line in (inspect.getdoc(documented) or "").splitlines():
        if line.strip() in _SECTIONS:
            is_inside = line.strip()[:-1] in sections
            continue
        if not is_inside or not line.strip():
            continue
        entry = _ENTRY.fullmatch(line)
        if entry is not None:
            names = entry[1].split(", ")
            found |= dict.fromkeys(names, entry[2])
        else:
            for name in names:
                found[name] += " " + line.strip()
    return found
