"""Completion: the scripts, and names from a broker that responds quickly or not at all."""

import time
from collections.abc import Callable

import pytest
from click.shell_completion import ShellComplete

from coterie.cli import options
from coterie.cli.main import main
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.list_groups import ListGroupsResponse, ListGroupsResponseGroup
from tests.unit.cli.command import run
from tests.unit.client.fake_broker import SILENCE, FakeBroker
from tests.unit.server.running import PATIENCE_S

GROUPS = ListGroupsResponse(
    error_code=0,
    groups=[
        ListGroupsResponseGroup(group_id=name, protocol_type="consumer", group_state="Stable")
        for name in ("orders", "other", "billing")
    ],
)


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Complete the last word, with the address of a broker in the environment.

    A user waits for 0.4 s only, in which a busy machine may not even connect.
    """
    monkeypatch.setattr(options, "COMPLETION_TIMEOUT_S", PATIENCE_S)

    def values(bootstrap: str | None, *words: str) -> list[str]:
        monkeypatch.setenv("COTERIE_BOOTSTRAP", bootstrap or "127.0.0.1:1")
        completer = ShellComplete(main, {}, "coterie", "_COTERIE_COMPLETE")
        return [item.value for item in completer.get_completions(list(words[:-1]), words[-1])]

    return values


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_calls_this_program(shell: str) -> None:
    result = run(None, "completion", shell)
    assert result.exit_code == 0
    assert f"_COTERIE_COMPLETE={shell}_complete" in result.stdout


def test_unknown_shell_is_a_usage_error() -> None:
    result = run(None, "completion", "tcsh")
    assert result.exit_code == 2


def test_commands_are_completed(complete: Callable[..., list[str]]) -> None:
    assert complete(None, "gr") == ["groups"]
    assert complete(None, "groups", "de") == ["describe", "deliveries", "delete-offsets", "delete"]
    assert "--to-earliest" in complete(None, "groups", "reset-offsets", "--to")


def test_groups_are_completed_from_the_broker(complete: Callable[..., list[str]]) -> None:
    with FakeBroker({ApiKey.LIST_GROUPS: GROUPS}) as broker:
        bootstrap = broker.bootstrap
        assert complete(bootstrap, "groups", "describe", "o") == ["orders", "other"]
        assert complete(bootstrap, "groups", "describe", "orders", "o") == ["other"]
        assert complete(bootstrap, "groups", "reset-offsets", "--group", "b") == ["billing"]


def test_address_on_the_command_line_is_used(complete: Callable[..., list[str]]) -> None:
    with FakeBroker({ApiKey.LIST_GROUPS: GROUPS}) as broker:
        address = ("--bootstrap-server", broker.bootstrap)
        assert complete(None, "groups", "delete", *address, "b") == ["billing"]
        assert complete(None, "groups", *address, "delete", "b") == ["billing"]


def test_topics_are_completed_from_the_broker(
    complete: Callable[..., list[str]],
) -> None:
    with FakeBroker(topics={"orders": 1, "payments": 2}) as broker:
        assert complete(broker.bootstrap, "topics", "describe", "p") == ["payments"]
        assert complete(broker.bootstrap, "configs", "alter", "topics", "p") == ["payments"]
        assert complete(broker.bootstrap, "configs", "alter", "brokers", "") == []
        assert complete(broker.bootstrap, "configs", "describe", "broker-") == ["broker-loggers"]


@pytest.mark.parametrize("silent", [ApiKey.API_VERSIONS, ApiKey.METADATA])
def test_slow_broker_means_no_suggestions_within_seconds(
    complete: Callable[..., list[str]], silent: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeBroker({silent: SILENCE}) as broker:
        monkeypatch.setattr(options, "COMPLETION_TIMEOUT_S", 0.2)
        began = time.monotonic()
        assert complete(broker.bootstrap, "groups", "delete", "") == []
        # Other commands wait for 30 s.
        assert time.monotonic() - began < 20


@pytest.mark.parametrize("bootstrap", ["127.0.0.1:1", "no port:x", "no-such-host.invalid:9092"])
def test_unreachable_broker_means_no_suggestions_and_no_output(
    complete: Callable[..., list[str]], bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complete(bootstrap, "groups", "delete", "") == []
    assert capsys.readouterr() == ("", "")


def test_apis_are_completed(complete: Callable[..., list[str]]) -> None:
    assert complete(None, "dump", "codec", "offsetf") == ["OffsetFetch", "OffsetForLeaderEpoch"]
