"""Results of checks: counts, exit code, JSON and JUnit."""

from xml.etree.ElementTree import fromstring

import pytest

from coterie.client_check.model import FAILING, Judgement
from coterie.conformance.results import Result, Status, as_json, as_junit, counts, exit_code

PASSED = Result("joining/new-member", Status.PASS, "It joins.", "KIP-394", seconds=0.25)
FAILED = Result(
    "joining/unknown-id",
    Status.FAILS,
    "It is refused.",
    "KIP-394",
    "the answer was \x00 ok",
    ("c1> Heartbeat v4", "c1< Heartbeat v4 ok"),
)
DEVIATING = Result("offsets/fetch", Status.DEVIATES, "It waits.", "Kafka 4.3", "it does not")
SKIPPED = Result("offsets/commit", Status.SKIPPED, "It commits.", "Kafka 4.3", "no API")
ALL = [PASSED, FAILED, DEVIATING, SKIPPED]


def test_statuses_are_counted() -> None:
    assert counts(ALL) == {"pass": 1, "deviates": 1, "fails": 1, "skipped": 1, "error": 0}


def test_exit_code_of_check_client() -> None:
    passed, breaking, differing, skipped, erroneous = (
        PASSED._replace(status=status)
        for status in (
            Judgement.PASS,
            Judgement.BREAKS,
            Judgement.DIFFERS,
            Judgement.SKIPPED,
            Judgement.ERROR,
        )
    )
    assert exit_code([passed, differing, skipped], FAILING) == 0
    assert exit_code([passed, breaking, skipped], FAILING) == 1
    # What a check of ours does not know is more than what it has found.
    assert exit_code([breaking, erroneous], FAILING) == 2


def test_exit_code_of_check() -> None:
    failing = (Status.DEVIATES, Status.FAILS)
    assert exit_code([PASSED, SKIPPED], failing) == 0
    assert exit_code([PASSED, DEVIATING], failing) == 1
    assert exit_code([FAILED], failing) == 1
    assert exit_code([PASSED._replace(status=Status.ERROR), FAILED], failing) == 2


def test_json_has_what_was_checked_and_each_check() -> None:
    found = as_json(ALL, {"client": "franz-go"})
    assert list(found) == ["client", "counts", "checks"]
    assert found["checks"][1] == {
        "name": "joining/unknown-id",
        "area": "joining",
        "status": "fails",
        "sentence": "It is refused.",
        "reason": "the answer was \x00 ok",
        "source": "KIP-394",
        "seconds": 0.0,
        "conversation": ["c1> Heartbeat v4", "c1< Heartbeat v4 ok"],
    }


def test_junit_report_is_xml_with_failures_and_skips() -> None:
    root = fromstring(as_junit(ALL, "coterie check", (Status.FAILS,)))
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("4", "1", "1")
    cases = {case.get("name"): case for case in root.iter("testcase")}
    failure = cases["joining/unknown-id"].find("failure")
    assert failure is not None
    assert failure.get("message") == "the answer was  ok"
    assert cases["offsets/commit"].find("skipped") is not None
    output = cases["offsets/fetch"].find("system-out")
    assert output is not None
    assert output.text is not None
    assert "deviates: it does not" in output.text


@pytest.mark.parametrize("status", [Judgement.ERROR, Status.ERROR])
def test_error_of_a_check_is_an_error_in_junit(status: Judgement | Status) -> None:
    result = PASSED._replace(status=status, reason="IndexError: pop")
    text = as_junit([result], "coterie", (Judgement.BREAKS, Status.FAILS))
    root = fromstring(text)
    assert (root.get("errors"), root.get("failures"), root.get("skipped")) == ("1", "0", "0")
    error = root.find("testsuite/testcase/error")
    assert error is not None
    assert error.get("message") == "IndexError: pop"
