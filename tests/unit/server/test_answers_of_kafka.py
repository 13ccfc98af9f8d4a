"""Long conversations in which every answer is that of Kafka, field by field."""

from pathlib import Path

import pytest

from coterie.server.releases import Release
from tests.compared.answers import PATHS, Conversation, exchanges
from tests.unit.server.running import RunningBroker

# Requests before a difference that are shown.
_SHOWN = 3


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_each_answer_is_that_of_kafka(path: Path) -> None:
    sent, release = [], Release.named(path.parent.name)
    settings = {"auto.create.topics.enable": "false"}
    with (
        RunningBroker(settings, prepare=lambda broker: broker.pretend(release)) as broker,
        broker.client() as client,
    ):
        conversation = Conversation(client)
        for _, request, expected in exchanges(path.read_text().splitlines()):
            sent.append(request)
            assert conversation.answer(request) == expected, "\n".join(sent[-_SHOWN:])
    assert len(sent) > 100
