"""`coterie acls`, against a broker of ours with an authorizer."""

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from coterie.cli.main import main
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.resources import ResourceType
from coterie.security.acl import Acl, PatternType, Permission
from coterie.security.acl_text import InvalidAcl, acl_text, parse_acl
from coterie.server.authorization.access import STANDARD_AUTHORIZER
from tests.unit.cli.command import rows_of
from tests.unit.server.running import RunningBroker

SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
READER = "User:alice ALLOW READ TOPIC orders- PREFIXED host=*"
GROUP = "User:alice ALLOW READ GROUP orders LITERAL host=*"
DENIED = "User:* DENY ALL CLUSTER kafka-cluster LITERAL host=10.0.0.1"


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with RunningBroker(SETTINGS) as running:
        yield running


def coterie(broker: RunningBroker, *arguments: str) -> Result:
    """Run a command of `coterie`."""
    environment = {"COTERIE_BOOTSTRAP": str(broker.address)}
    return CliRunner().invoke(
        main, ["acls", *arguments], env=environment, catch_exceptions=False, prog_name="coterie"
    )


def test_rules_are_added_listed_and_removed(broker: RunningBroker) -> None:
    """[client/quotas]"""
    added = coterie(broker, "add", READER, "User:alice allow read group orders", DENIED)
    assert added.stdout == f"Added: {READER}\nAdded: {GROUP}\nAdded: {DENIED}\n"
    rows = rows_of(coterie(broker, "list", "--name", "orders-7", "--pattern", "match", "--json"))
    assert rows == [
        {
            "principal": "User:alice",
            "permission": "ALLOW",
            "operation": "READ",
            "resource_type": "TOPIC",
            "name": "orders-",
            "pattern_type": "PREFIXED",
            "host": "*",
        }
    ]
    assert [line.split()[0] for line in coterie(broker, "list").stdout.splitlines()] == [
        "PRINCIPAL",
        "User:alice",
        "User:alice",
        "User:*",
    ]
    would = coterie(broker, "remove", "--type", "group", "--dry-run", "--json")
    assert [each["name"] for each in rows_of(would)] == ["orders"]
    gone = coterie(broker, "remove", "--principal", "User:alice", "--json")
    assert len(rows_of(gone)) == 2
    assert len(rows_of(coterie(broker, "remove", "--all", "--json"))) == 1
    assert rows_of(coterie(broker, "list", "--json")) == []


def test_the_rules_to_remove_must_be_named(broker: RunningBroker) -> None:
    for arguments in ((), ("--all", "--type", "topic"), ("--pattern", "literal")):
        result = coterie(broker, "remove", *arguments)
        assert result.exit_code == 2
        assert "Say which rules" in result.stderr


def test_a_wrong_rule_is_refused(broker: RunningBroker) -> None:
    result = coterie(broker, "add", "User:alice ALLOW FLY TOPIC t")
    assert result.exit_code == 2
    assert "'FLY' is none of ALL, READ" in result.stderr
    assert rows_of(coterie(broker, "list", "--json")) == []


def test_a_broker_without_an_authorizer_says_so() -> None:
    with RunningBroker() as broker:
        result = coterie(broker, "list")
    assert result.exit_code == 1
    assert "No Authorizer is configured on the broker" in result.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a rule"),
        ("User:a ALLOW READ", "is not a rule"),
        ("a ALLOW READ TOPIC t", "write User:a"),
        ("User:a ANY READ TOPIC t", "'ANY' is none of DENY, ALLOW"),
        ("User:a ALLOW READ TOPIC", "needs one name"),
        ("User:a ALLOW READ TOPIC t MATCH", "'MATCH' is none of LITERAL, PREFIXED"),
        ("User:a ALLOW READ TOPIC t LITERAL x", "needs one name"),
        ("User:a ALLOW READ CLUSTER other", "the only name of a cluster is kafka-cluster"),
    ],
)
def test_what_is_no_rule(text: str, reason: str) -> None:
    """[security/acl-text]"""
    with pytest.raises(InvalidAcl, match=reason):
        parse_acl(text)


def test_a_text_is_read_as_it_was_written() -> None:
    for kind in (ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID):
        for pattern in (PatternType.LITERAL, PatternType.PREFIXED):
            acl = Acl(
                kind, "n", pattern, "User:a", "::1", AclOperation.ALTER_CONFIGS, Permission.DENY
            )
            assert parse_acl(acl_text(acl)) == acl
    assert parse_acl("User:a ALLOW alter CLUSTER").name == "kafka-cluster"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--add-acl", READER], "--add-acl needs --config authorizer.class.name="),
        (
            ["--config", f"authorizer.class.name={STANDARD_AUTHORIZER}", "--add-acl", "x"],
            "is not a rule",
        ),
        (["--config", "authorizer.class.name=x", "--data-dir", ":memory:"], "Java"),
    ],
)
def test_a_start_refuses_wrong_rules(arguments: list[str], reason: str) -> None:
    result = CliRunner().invoke(main, ["serve", "--port", "0", *arguments])
    assert result.exit_code == 2
    assert reason in result.stderr
