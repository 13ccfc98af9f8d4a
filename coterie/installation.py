"""What is installed, compared with what the distribution asks for.

Nothing outside the standard library is imported here, because a check is most useful where packages
are missing.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import NamedTuple

DISTRIBUTION = "coterie"
# Packages that are imported under another name than they are installed under.
_IMPORTED_AS = {"google-re2": "re2", "kafka-python": "kafka"}

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_CLAUSE = re.compile(r"(>=|<=|==|!=|<|>)\s*([0-9]+(?:\.[0-9]+)*)")
_EXTRA = re.compile(r"extra == ['\"]([\w-]+)['\"]")
_NOT_ON = re.compile(r"sys_platform != ['\"](\w+)['\"]")


def form() -> str:
    """Return which form is installed: `pure`, or `compiled` (ADR 19)."""
    # A module of the compiled form is looked up and not imported, which would take longer.
    spec = find_spec("coterie.protocol.primitives")
    is_pure = spec is None or spec.origin is None or spec.origin.endswith(".py")
    return "pure" if is_pure else "compiled"


class Check(NamedTuple):
    """The result of one check.

    Attributes:
        what: the thing that was checked.
        found: what was found.
        is_good: whether that is enough.
        remedy: a command or a sentence; empty if there is nothing to do.
        is_needed: whether the use that was checked is impossible without it.
    """

    what: str
    found: str
    is_good: bool
    remedy: str = ""
    is_needed: bool = True

    @property
    def state(self) -> str:
        """The result in one word: `ok`, `missing`, or `low` if one can do without it."""
        return "ok" if self.is_good else "missing" if self.is_needed else "low"


class Requirement(NamedTuple):
    """A package and the versions that are allowed, as (operator, version)."""

    name: str
    clauses: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def fits(self, version: str) -> bool:
        """Return whether a version is allowed."""
        number = numbers_of(version)
        return all(_holds(number, operator, bound) for operator, bound in self.clauses)

    @property
    def text(self) -> str:
        """The allowed versions in pip's notation."""
        return ",".join(f"{sign}{'.'.join(map(str, bound))}" for sign, bound in self.clauses)


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version: 2.2.3rc1 is (2, 2, 3)."""
    return tuple(int(part) for part in re.match(r"[0-9.]*", version)[0].split(".") if part)  # type: ignore[index]


def _holds(number: tuple[int, ...], operator: str, bound: tuple[int, ...]) -> bool:
    width = max(len(number), len(bound))
    one = number + (0,) * (width - len(number))
    other = bound + (0,) * (width - len(bound))
    return {
        ">=": one >= other,
        "<=": one <= other,
        "==": one == other,
        "!=": one != other,
        "<": one < other,
        ">": one > other,
    }[operator]


def requirements(extra: str | None) -> list[Requirement]:
    """Return what the distribution requires, from its metadata.

    Args:
        extra: the name of an extra; None for what is always required.

    Returns:
        The requirements in their order; none if Coterie runs from its sources and is not installed.
    """
    try:
        listed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    found = []
    for each in listed:
        matched = _REQUIREMENT.match(each)
        assert matched is not None, each
        not_on = _NOT_ON.search(matched[3] or "")
        if not_on and not_on[1] == sys.platform:
            continue
        asked = _EXTRA.search(matched[3] or "")
        if (asked[1] if asked else None) == extra:
            clauses = tuple(
                (sign, numbers_of(bound)) for sign, bound in _CLAUSE.findall(matched[2])
            )
            found.append(Requirement(matched[1], clauses))
    return found


def install_command(extra: str | None) -> str:
    """Return the command that installs what an extra needs."""
    return f"pip install {DISTRIBUTION}" if extra is None else f"pip install 'coterie[{extra}]'"


def extra_checks(extra: str | None, optional: Mapping[str, str] | None = None) -> list[Check]:
    """Check each package that an extra requires.

    Args:
        extra: the name of the extra; None for what is always required.
        optional: packages that one can do without, with the reason.
    """
    found = requirements(extra)
    install = install_command(extra)
    if not found:
        text = f"{DISTRIBUTION} is not installed, so its requirements are unknown"
        return [Check("packages", text, is_good=False, remedy=install)]
    spare = optional or {}
    return [package_check(each, install, spare.get(each.name, "")) for each in found]


def package_check(required: Requirement, install: str, optional: str = "") -> Check:
    """Check that a package is installed in an allowed version and can be imported.

    Args:
        required: the package.
        install: the command that installs it.
        optional: why one can do without it; empty if one cannot.
    """
    name = required.name
    is_needed = not optional
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        if is_needed:
            return Check(name, "not installed", is_good=False, remedy=install)
        return Check(name, f"not installed; {optional}", is_good=True, is_needed=False)
    if not required.fits(version):
        found = f"{version}, but {required.text} is needed"
        return Check(name, found, is_good=False, remedy=install, is_needed=is_needed)
    try:
        import_module(_IMPORTED_AS.get(name, name.replace("-", "_")))
    except Exception as error:  # noqa: BLE001 - a broken package can raise anything
        found = f"{version} is installed but cannot be imported: {error}"
        remedy = f"pip install --force-reinstall '{name}{required.text}'"
        return Check(name, found, is_good=False, remedy=remedy, is_needed=is_needed)
    return Check(name, version, is_good=True)


def missing(found: Sequence[Check]) -> list[Check]:
    """Return the failed checks of what is needed."""
    return [check for check in found if check.is_needed and not check.is_good]


def gibibytes(size_bytes: int) -> str:
    """Return a size for people."""
    return f"{size_bytes / (1 << 30):.1f} GiB"
