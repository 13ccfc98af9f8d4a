"""The keys that --json prints are those of documentation/reference/json_keys.tsv."""

from typing import Any

import click
import pytest

from coterie.cli.main import COMMANDS
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResponse,
)
from coterie.protocol.messages.list_groups import ListGroupsResponse, ListGroupsResponseGroup
from documentation.reference.commands import commands
from documentation.reference.json_keys import all_keys, keys_of
from tests.unit.cli import (
    test_groups,
    test_groups_reset_offsets,
    test_topics,
    test_topics_produce,
    test_transactions,
)
from tests.unit.cli.command import committed, described, group, listed_offsets, member, rows_of, run
from tests.unit.client.fake_broker import FakeBroker

# Commands whose objects other pages describe, or that have those of another command.
WITHOUT_KEYS = {"check-client", "docs", "dump security", "lab", "pipeline"}
ARGUMENTS = {
    "groups list": [],
    "groups list --lag": [],
    "groups describe --offsets": ["g"],
    "groups describe --members": ["g"],
    "groups describe --state": ["g"],
    "groups check": ["g", "--interval", "0"],
    "groups delete": ["g"],
    "groups reset-offsets": ["--group", "free", "--topic", "t", "--to-latest"],
    "groups delete-offsets": ["--group", "g", "--topic", "t"],
    "groups remove-members": ["--group", "g", "x"],
    "topics produce": ["t"],
    "topics list": [],
    "topics describe": ["t"],
    "topics create": ["t"],
    "topics assign": ["t", "--members", "a", "--assignor", "range"],
    "topics delete": ["t"],
    "configs list": ["topics"],
    "configs describe": ["topics", "t"],
    "configs alter": ["topics", "t", "--set", "retention.ms=5"],
    "transactions list": [],
    "transactions describe": ["tx"],
    "transactions terminate": ["tx"],
    "transactions describe-producers": ["--topic", "t", "--partition", "0"],
    "transactions find-hanging": [],
    "transactions abort": ["--topic", "t", "--partition", "0", "--start-offset", "7"],
    "dump frame": ["000c 0000 00000001 0001 63 0001 67 00000000 0001 6d"],
}


def broker() -> FakeBroker:
    """Return a broker that responds to all of these commands."""
    listed = ListGroupsResponseGroup(group_id="g", protocol_type="consumer")
    responses: dict[int, Any] = {
        ApiKey.LIST_GROUPS: ListGroupsResponse(error_code=0, groups=[listed]),
        ApiKey.DESCRIBE_GROUPS: described(group("g", "Stable", member("one", t=[0]))),
        # The offset of a deleted topic is what `groups check` finds.
        ApiKey.OFFSET_FETCH: committed(t={0: 15}, gone={0: 1}),
        ApiKey.LIST_OFFSETS: listed_offsets,
        ApiKey.DELETE_GROUPS: test_groups.deleting(),
        ApiKey.OFFSET_DELETE: test_groups.deleting_offsets(),
        ApiKey.OFFSET_COMMIT: test_groups_reset_offsets.committing(),
        ApiKey.DESCRIBE_CONFIGS: test_topics.configured,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: IncrementalAlterConfigsResponse(responses=[]),
        ApiKey.CREATE_TOPICS: test_topics.creating(),
        ApiKey.DELETE_TOPICS: test_topics.deleting(),
        ApiKey.PRODUCE: test_topics_produce.producing(),
        ApiKey.LIST_TRANSACTIONS: test_transactions.LISTED,
        ApiKey.DESCRIBE_TRANSACTIONS: test_transactions.DESCRIBED,
        ApiKey.INIT_PRODUCER_ID: test_transactions.INITIALIZED,
        ApiKey.DESCRIBE_PRODUCERS: test_transactions.PRODUCERS,
        ApiKey.WRITE_TXN_MARKERS: test_transactions.ABORTED,
    }
    return FakeBroker(responses, topics={"t": 1})


def test_every_command_with_json_has_its_keys_in_the_reference() -> None:
    with_json = {
        path
        for name in COMMANDS
        if name not in WITHOUT_KEYS
        for path, command in commands(name)
        if any("--json" in each.opts for each in command.params if isinstance(each, click.Option))
    }
    assert {each.command for each in all_keys()} == with_json - WITHOUT_KEYS


@pytest.mark.parametrize("command", ARGUMENTS)
def test_keys_are_those_of_the_reference(command: str) -> None:
    with broker() as responding:
        printed = rows_of(run(responding, *command.split(), *ARGUMENTS[command], "--json"))
    row = printed[0] if isinstance(printed, list) else printed
    path, _, option = command.partition(" --")
    assert list(row) == keys_of(path, f"`--{option}`" if option else "")
