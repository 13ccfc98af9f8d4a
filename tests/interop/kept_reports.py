"""Reports of JUnit, one directory for each class of tests, which an interrupted run leaves behind.

A directory is complete: JUnit writes it under another name, and it is renamed when the class has
come to an end.
"""

import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.interop.suites import Outcome


def outcomes_of(
    name: str, folder: Path, execute: Callable[[Path], str], is_explained: Callable[[Outcome], bool]
) -> tuple[list[Outcome], bool]:
    """Return what the tests of a class reported, and whether an earlier run had the report.

    Args:
        name: the name of the class.
        folder: where reports stay.
        execute: runs the class with its report in a directory, and returns the last lines of its
            output.
        is_explained: whether a failure has a reason that is known. A class with another one runs
            again.
    """
    report = folder / name
    known = list(_outcomes(report))
    if known and all(each.result != "fail" or is_explained(each) for each in known):
        return known, True
    new = folder / f"{name}.new"
    shutil.rmtree(new, ignore_errors=True)
    said = execute(new)
    found = list(_outcomes(new))
    if not found:
        return [Outcome(name, "fail", f"JUnit has not come to an end: {said}")], False
    shutil.rmtree(report, ignore_errors=True)
    new.rename(report)
    return found, False


def _outcomes(report: Path) -> Iterator[Outcome]:
    """Yield what the tests of a report have come to."""
    for file in sorted(report.glob("TEST-*.xml")):
        for case in ElementTree.parse(file).iter("testcase"):
            yield _outcome(case)


def _outcome(case: ElementTree.Element) -> Outcome:
    name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name', '')}"
    if case.find("skipped") is not None:
        return Outcome(name, "skip")
    found = next((each for each in case if each.tag in ("failure", "error")), None)
    if found is None:
        return Outcome(name, "pass")
    text = re.sub(r"\s+", " ", f"{found.get('message', '')} {found.text or ''}")
    return Outcome(name, "fail", text)
