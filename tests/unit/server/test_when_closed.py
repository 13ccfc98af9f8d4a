"""`Channel.when_closed`: what is called once when a connection has ended."""

from functools import partial

import pytest

from tests.unit.server.manual import Client, logged, make_broker


@pytest.fixture
def client() -> Client:
    return Client(make_broker())


def test_each_subject_is_called_once_when_the_connection_is_lost(client: Client) -> None:
    seen: list[str] = []
    connection = client.connection
    for subject in ("replaced", "kept", "forgotten", "replaced"):
        connection.when_closed(subject, partial(seen.append, f"{subject} {len(seen)}"))
    connection.when_closed("forgotten", None)
    connection.when_closed("never known", None)
    connection.close_quietly()
    assert seen == []
    connection.connection_lost(None)
    assert seen == ["kept 0", "replaced 0"]
    connection.when_closed("too late", partial(seen.append, "too late"))
    assert seen[2:] == ["too late"]


def test_call_that_fails_does_not_stop_the_others(client: Client) -> None:
    seen: list[str] = []
    client.connection.when_closed("bad", lambda: print(1 // 0))
    client.connection.when_closed("good", partial(seen.append, "good"))
    client.connection.connection_lost(None)
    assert seen == ["good"]
    assert [line["subject"] for line in logged(client.broker, "not ended")] == ["bad"]


def test_refused_connection_has_ended() -> None:
    broker = make_broker({"max.connections": "1"})
    Client(broker)
    refused = Client(broker).connection
    assert refused.closed
    refused.connection_lost(None)
    seen: list[str] = []
    refused.when_closed("late", partial(seen.append, "late"))
    assert seen == ["late"]
