"""Long conversations in which every answer is that of Kafka 4.3.1, field by field."""

from pathlib import Path

import pytest

from tests.compared.answers import PATHS, answer, exchanges
from tests.unit.server.running import RunningBroker

# Requests before a difference that are shown.
_SHOWN = 3


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_each_answer_is_that_of_kafka(path: Path) -> None:
    sent = []
    with RunningBroker({"auto.create.topics.enable": "false"}) as broker, broker.client() as client:
        for _, request, expected in exchanges(path.read_text().splitlines()):
            sent.append(request)
            assert answer(client, request) == expected, "\n".join(sent[-_SHOWN:])
    assert len(sent) > 100
