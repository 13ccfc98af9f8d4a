"""Every API and version, for clients that lack one right at a time: the answers are Kafka's."""

from tests.compared.access.cases import uncovered
from tests.compared.access.sides import OurSide
from tests.compared.access.table import PATH, conversation

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
