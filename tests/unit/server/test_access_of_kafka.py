"""Every API and version, for clients that lack one right at a time: the answers are Kafka's."""

import re
from itertools import pairwise

from tests.compared.access.cases import uncovered
from tests.compared.access.sides import OurSide
from tests.compared.access.table import PATH, conversation

_REQUEST = re.compile(r"p\d+> (\w+ v\d+)")
# Differences that are shown.
_SHOWN = 12


def test_each_api_and_version_refuses_as_kafka_does() -> None:
    assert not uncovered()
    expected = PATH.read_text(encoding="utf-8").splitlines()
    with OurSide() as side:
        found = list(conversation(side))
    assert len(found) == len(expected) > 2_000
    different = [
        f"{expected[at - 1]}\n  Kafka {old}\n  ours  {new}"
        for at, (old, new) in enumerate(zip(expected, found, strict=True))
        if old != new
    ]
    assert not different, "\n".join([f"{len(different)} differ", *different[:_SHOWN]])


def test_each_answer_depends_on_the_rights() -> None:
    """Without its check an API would answer every client alike, and the test above would fail."""
    answers: dict[str, set[str]] = {}
    lines = PATH.read_text(encoding="utf-8").splitlines()
    for line, answer in pairwise(lines):
        request = _REQUEST.match(line)
        if request is not None:
            answers.setdefault(request[1], set()).add(answer.partition("< ")[2])
    assert len(answers) > 150
    # There is no transaction in the file; `test_authorizer.py` has one.
    alike = {name for name, found in answers.items() if len(found) < 2}
    assert {name.split()[0] for name in alike} == {"ListTransactions"}
