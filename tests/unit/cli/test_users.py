"""`coterie users` and `coterie serve --add-scram`, against a broker of ours."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coterie.cli.main import main
from coterie.security.scram import keys_of, salted_password
from tests.unit.cli.command import rows_of
from tests.unit.server.running import RunningBroker

SECRET = "planted-secret"


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with RunningBroker() as running:
        yield running
        assert SECRET not in str(running.log.lines)


def coterie(broker: RunningBroker, *arguments: str, typed: str | None = None) -> Result:
    """Run a command of `coterie`."""
    environment = {"COTERIE_BOOTSTRAP": str(broker.address)}
    found = CliRunner().invoke(
        main,
        arguments,
        env=environment,
        input=typed,
        catch_exceptions=False,
        prog_name="coterie",
    )
    assert SECRET not in found.output
    return found


def logs_in(broker: RunningBroker, user: str, mechanism: int, password: str) -> bool:
    found = broker.broker.credentials.find(user, mechanism)
    assert found is not None
    salted = salted_password(mechanism, password, found.salt, found.iterations)
    return keys_of(mechanism, salted, found.salt, found.iterations).stored_key == found.stored_key


def test_users_are_added_listed_and_removed(broker: RunningBroker, tmp_path: Path) -> None:
    """[client/users]"""
    assert coterie(broker, "users", "list").exit_code == 0
    result = coterie(broker, "users", "add", "alice", typed=f"{SECRET}\n{SECRET}\n")
    # Older releases of click end the lines of hidden prompts on standard output.
    assert result.stdout.lstrip() == "SCRAM-SHA-256, SCRAM-SHA-512 added for alice.\n"
    assert logs_in(broker, "alice", 1, SECRET)
    assert logs_in(broker, "alice", 2, SECRET)
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\r\nnot this\n")
    arguments = "--mechanism", "SCRAM-SHA-512", "--iterations", "8192", "--password-file"
    result = coterie(broker, "users", "add", "bob", *arguments, str(file), "--json")
    assert rows_of(result) == {"user": "bob", "added": ["SCRAM-SHA-512"]}
    assert logs_in(broker, "bob", 2, SECRET)
    lines = coterie(broker, "users", "list").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["USER", "MECHANISM", "ITERATIONS"],
        ["alice", "SCRAM-SHA-256", "4096"],
        ["alice", "SCRAM-SHA-512", "4096"],
        ["bob", "SCRAM-SHA-512", "8192"],
    ]
    rows = rows_of(coterie(broker, "users", "list", "bob", "nobody", "--json"))
    assert rows == [{"user": "bob", "iterations": {"SCRAM-SHA-512": 8192}}]
    removed = coterie(broker, "users", "remove", "alice")
    assert removed.stdout == "SCRAM-SHA-256, SCRAM-SHA-512 removed for alice.\n"
    coterie(broker, "users", "remove", "bob", "--mechanism", "SCRAM-SHA-512", "--json")
    assert rows_of(coterie(broker, "users", "list", "--json")) == []


def test_what_the_broker_refuses_is_an_error(broker: RunningBroker) -> None:
    for arguments, code, text in [
        (("remove", "nobody"), 1, "does not exist"),
        (("add", "u", "--iterations", "10"), 2, "4096"),
        (("add", "u", "--mechanism", "PLAIN"), 2, "SCRAM-SHA-256"),
        (("add", "u", "--password-file", "-"), 2, "first line"),
    ]:
        result = coterie(broker, "users", *arguments, typed="\n")
        assert result.exit_code == code, arguments
        assert text in result.stderr


def test_a_wrong_seed_ends_the_start_without_showing_the_password() -> None:
    for seed in (
        "alice",
        f"PLAIN=[name=alice,password={SECRET}]",
        f"SCRAM-SHA-256=[name=alice,password={SECRET},iterations=1]",
        f"SCRAM-SHA-256=[name=alice,password={SECRET},name=bob]",
        f"SCRAM-SHA-256=[password={SECRET}]",
        f"SCRAM-SHA-256=[name=alice,password={SECRET},salt=%]",
    ):
        result = CliRunner().invoke(main, ["serve", "--add-scram", seed])
        assert result.exit_code == 2
        assert "--add-scram" in result.output
        assert SECRET not in result.output
