"""Results of checks: their statuses, and the forms for programs, JSON and JUnit's XML.

`coterie check` and `coterie check-client` share them, each with statuses of its own. A result is
one behaviour: what was checked, where the rule comes from, and what was seen.

Invariant: the statuses of both commands have "skipped" and "error", with the same meaning. A check
that has itself failed is an error: it says nothing of what is checked.
"""

import traceback
from collections.abc import Container, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

# Control characters that XML 1.0 cannot carry.
_NOT_IN_XML = {code: None for code in range(32) if code not in (9, 10, 13)}


class Status(StrEnum):
    """What came of a check of a broker."""

    PASS = "pass"  # noqa: S105 - no password
    """Every response is as expected."""
    DEVIATES = "deviates"
    """A response differs."""
    FAILS = "fails"
    """The broker closed the connection, or did not answer."""
    SKIPPED = "skipped"
    """The check does not apply; the reason says why."""
    ERROR = "error"
    """The check itself has failed, which says nothing of the broker."""


# Exit codes of both commands.
FOUND_NOTHING, FOUND_FAILURES, CANNOT_CHECK = 0, 1, 2


class Result(NamedTuple):
    """The result of one check.

    Attributes:
        name: stable, with its area before the slash: "joining/uses-given-id".
        status: what came of it, a `Status` or what check-client has for it.
        sentence: the behaviour, in one sentence.
        source: where the rule comes from: a KIP, a release of Kafka, a rule in docs/spec.
        reason: why it is no pass; "" for a pass.
        conversation: the lines that show it.
        seconds: how long it took.
    """

    name: str
    status: StrEnum
    sentence: str
    source: str
    reason: str = ""
    conversation: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def area(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]


def exit_code(results: Iterable[Result], failing: Container[StrEnum]) -> int:
    """Return 2 if a check itself has failed, 1 if a result is among `failing`, otherwise 0."""
    found = {each.status for each in results}
    if Status.ERROR in found:
        return CANNOT_CHECK
    return FOUND_FAILURES if any(status in failing for status in found) else FOUND_NOTHING


def reason_of(error: Exception) -> str:
    """Return the reason of an ERROR: what has failed in a check, and where."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{place.filename}, line {place.lineno}, in {place.name}"
    return f"the check itself has failed: {error!r} ({where})"


def counts(results: Iterable[Result], statuses: Iterable[StrEnum] = Status) -> dict[str, int]:
    """Return how many results have each status, in the order of the statuses."""
    found = dict.fromkeys((str(status) for status in statuses), 0)
    for each in results:
        found[str(each.status)] += 1
    return found


def as_json(
    results: Sequence[Result], about: Mapping[str, Any], statuses: Iterable[StrEnum] = Status
) -> dict[str, Any]:
    """Return the object that `--json` prints.

    Args:
        results: the results.
        about: what was checked; its keys come first.
        statuses: those that a result may have.
    """
    return {
        **about,
        "counts": counts(results, statuses),
        "checks": [
            {
                "name": each.name,
                "area": each.area,
                "status": str(each.status),
                "sentence": each.sentence,
                "reason": each.reason,
                "source": each.source,
                "seconds": round(each.seconds, 3),
                "conversation": list(each.conversation),
            }
            for each in results
        ],
    }


def as_junit(
    results: Sequence[Result],
    suite: str,
    failing: Container[StrEnum],
    error: str = "",
) -> str:
    """Return the results as a JUnit report.

    Args:
        results: the results.
        suite: the name of the test suite.
        failing: the statuses that are failures. ERROR is an error and SKIPPED is skipped; any other
            is a passed test with output.
        error: why the run ended early; an error of the suite.
    """
    attributes = {
        "name": suite,
        "tests": str(len(results) + bool(error)),
        "errors": str(sum(each.status == Status.ERROR for each in results) + bool(error)),
        "failures": str(sum(each.status in failing for each in results)),
        "skipped": str(sum(each.status == Status.SKIPPED for each in results)),
    }
    root = Element("testsuites", attributes)
    listed = SubElement(root, "testsuite", attributes)
    if error:
        case = SubElement(listed, "testcase", {"classname": suite, "name": "the whole run"})
        SubElement(case, "error", {"message": _xml(error.partition("\n")[0])}).text = _xml(error)
    for each in results:
        case = SubElement(
            listed,
            "testcase",
            {
                "classname": f"{suite}.{each.area}",
                "name": each.name,
                "time": f"{each.seconds:.3f}",
            },
        )
        if each.status in failing:
            SubElement(case, "failure", {"message": _xml(each.reason)})
        elif each.status == Status.ERROR:
            SubElement(case, "error", {"message": _xml(each.reason)})
        elif each.status == Status.SKIPPED:
            SubElement(case, "skipped", {"message": _xml(each.reason)})
        about = [each.sentence, f"Source: {each.source}"]
        if each.reason:
            about.append(f"{each.status}: {each.reason}")
        SubElement(case, "system-out").text = _xml("\n".join([*about, *each.conversation]))
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _xml(text: str) -> str:
    return text.translate(_NOT_IN_XML)
