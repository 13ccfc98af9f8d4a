"""The limits: their values from the constants and settings that they are.

A line of `limits.tsv` says what is limited, the limit, the file that has it (below `coterie/`), and
what happens above it. `{NAME}` is a constant of that file, or a setting of the broker.
"""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from coterie.server.config.broker_keys import BROKER
from documentation.reference.tables import code, lines_of

_FILE = Path(__file__).parent / "limits.tsv"
_HEAD = """# Every limit

Limits that are no setting are constants of the named file, with the reason for their value. Behind
a limit stands what happens above it (closed: the connection). [Long turns](../limits.md) has what
takes the event loop longer than it should.

"""
_PLACE = re.compile(r"\{([\w.]+)\}")
# Units by the last part of a name, the largest first.
_UNITS = {
    "bytes": ((1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes")),
    "ms": ((3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")),
    "size": ((1 << 20, "MiB"), (1 << 10, "KiB")),
}


class Limit(NamedTuple):
    """A limit: what it bounds, its text with names of constants, its file, and what is above it."""

    what: str
    text: str
    file: str
    above: str

    def names(self) -> list[str]:
        """Return the constants and settings that the limit is."""
        return _PLACE.findall(self.text + self.above)

    def line(self) -> str:
        """Return the limit as a line of the page, with values.

        Raises:
            AttributeError: the file has no such constant.
        """
        where = f" ({code(self.file)})" if self.file else ""
        line = f"* {self.what}: {self.text}{where}; {self.above}\n"
        return _PLACE.sub(lambda found: self._value(found[1]), line)

    def _value(self, name: str) -> str:
        if name in BROKER:
            default = BROKER[name].default
            assert default is not None, name
            return f"{code(name)}, {_with_unit(name, float(default))}"
        module = import_module(f"coterie.{self.file.removesuffix('.py').replace('/', '.')}")
        return _with_unit(name, _constant(module, name))


def limits() -> Iterator[Limit]:
    """Yield the limits, in the order of the page."""
    for columns in lines_of(_FILE, 4):
        yield Limit(*columns)


def limits_page() -> str:
    """Return the page, a line for each limit."""
    return _HEAD + "".join(each.line() for each in limits())


def _constant(module: Any, name: str) -> float:
    """Return a constant, or a part of one: the default of a field, or an attribute."""
    found = module
    for part in name.split("."):
        defaults = getattr(found, "_field_defaults", {}) if isinstance(found, type) else {}
        found = defaults[part] if part in defaults else getattr(found, part)
    assert isinstance(found, int | float), name
    return found


def _with_unit(name: str, value: float) -> str:
    """Return a value in the largest unit in which it is whole."""
    unit = name.lower().replace(".", "_").rpartition("_")[2]
    if unit == "s":
        unit, value = "ms", value * 1000
    for size, text in _UNITS.get(unit, ()):
        if value and value % size == 0:
            return f"{value / size:,.0f} {text}"
    return f"{value:g} ms" if unit == "ms" else f"{value:,.0f}"
