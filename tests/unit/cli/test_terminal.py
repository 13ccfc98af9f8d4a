"""What commands print on a terminal of 100 or 80 columns, and into a pipe that is closed early.

Rules: [terminal/head].
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

import pytest

from coterie.cli.output import folded
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from coterie.protocol.messages.describe_groups import DescribeGroupsResponseMember
from coterie.protocol.messages.list_groups import ListGroupsResponse, ListGroupsResponseGroup
from tests.unit.cli.command import committed, described, group, listed_offsets, member, run
from tests.unit.cli.test_topics import configured
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.server.running import RunningBroker

ROOT = Path(__file__).parents[3]
PROGRAM = [sys.executable, "-c", "from coterie.cli.main import main; main(prog_name='coterie')"]
LIMIT_S = 60
LOG = ROOT / "tests/golden/group_records/0.log"
# As Kafka makes them: a client id of usual length, and a UUID.
CLIENT = "payment-reconciliation-worker"
MEMBER_ID = f"{CLIENT}-0a1b2c3d-1111-2222-3333-444455556666"
GROUP = "payments.reconciliation.eu-west-1"
TOPIC = "payments.settled.v2"


def on_terminal(broker: FakeBroker | str, *arguments: str, columns: int = 100) -> list[str]:
    """Return the lines that a command prints on a terminal, without colours."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
    bootstrap = broker if isinstance(broker, str) else broker.bootstrap
    environment |= {"COTERIE_BOOTSTRAP": bootstrap, "TERM": "xterm"}
    with subprocess.Popen(
        [*PROGRAM, *arguments], cwd=ROOT, env=environment, stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        printed = b""
        while True:
            try:
                read = os.read(master, 65536)
            except OSError:
                # Linux reports the end of a terminal as an error.
                break
            if not read:
                break
            printed += read
        assert process.wait(LIMIT_S) == 0, printed
    os.close(master)
    return re.sub(r"\x1b\[[0-9;]*m", "", printed.decode()).splitlines()


def consumer(
    number: int, instance: str | None = None, **topics: list[int]
) -> DescribeGroupsResponseMember:
    made = member("x", instance, **topics)
    return DescribeGroupsResponseMember(
        member_id=MEMBER_ID.replace("0a1b2c3d", f"0a1b2c3{number}"),
        group_instance_id=instance,
        client_id=CLIENT,
        client_host="/10.20.30.40",
        member_metadata=b"",
        member_assignment=made.member_assignment,
    )


def cluster() -> FakeBroker:
    long = group(GROUP, "Stable", *[consumer(n, None, **{TOPIC: [n]}) for n in range(3)])
    static = group("billing", "Stable", consumer(7, "billing-0", **{TOPIC: [0]}))
    groups = {each.group_id: each for each in (long, static, group("idle", "Empty"))}
    return FakeBroker(
        {
            ApiKey.DESCRIBE_GROUPS: described(*groups.values()),
            ApiKey.OFFSET_FETCH: committed(**{TOPIC: {0: 15, 1: 20, 2: 11}}),
            ApiKey.LIST_OFFSETS: listed_offsets,
            ApiKey.DESCRIBE_CONFIGS: configured,
            ApiKey.LIST_GROUPS: ListGroupsResponse(
                error_code=0,
                groups=[
                    ListGroupsResponseGroup(
                        group_id=name,
                        protocol_type="consumer",
                        group_state=each.group_state,
                        group_type="classic",
                    )
                    for name, each in groups.items()
                ],
            ),
        },
        topics={TOPIC: 3},
    )


def widths(lines: Sequence[str]) -> int:
    return max(map(len, lines))


def test_description_of_a_group_fits_and_has_a_head() -> None:
    with cluster() as broker:
        lines = on_terminal(broker, "groups", "describe", GROUP)
    assert widths(lines) <= 100
    head, first, blank, columns, *rows = lines
    assert head.split() == ["GROUP", "STATE", "MEMBERS", "LAG", "ASSIGNOR"]
    assert first.split() == [GROUP, "Stable", "3", "14", "range"]
    assert blank == ""
    assert columns.split() == ["TOPIC", "PARTITION", "CURRENT", "END", "LAG", "MEMBER"]
    assert rows[0].split() == [TOPIC, "0", "15", "20", "5", CLIENT, "0a1b2c30"]


def test_rates_of_a_group_fit() -> None:
    with cluster() as broker:
        lines = on_terminal(broker, "groups", "describe", GROUP, "--interval", "0.01")
    assert widths(lines) <= 100
    text = "\n".join(lines)
    assert "CONSUMED/S" in text
    assert "lag stays" in text


def test_several_groups_are_one_table() -> None:
    with cluster() as broker:
        lines = on_terminal(broker, "groups", "describe", "--all-groups")
    assert widths(lines) <= 100
    text = "\n".join(lines)
    assert text.count("TOPIC") == 1
    assert text.count("STATE") == 1
    states = {line.split()[0]: line.split()[1] for line in lines[1:4]}
    assert states == {"billing": "Stable", "idle": "Empty", GROUP: "Stable"}


def test_members_are_shown_with_short_names_and_assignments() -> None:
    with cluster() as broker:
        lines = on_terminal(broker, "groups", "describe", GROUP, "billing", "--members")
    assert widths(lines) <= 100
    text = "\n".join(lines)
    assert "4444-5555" not in text
    assert "0a1b2c31" in text
    assert "billing-0" in text
    assert f"{TOPIC}:2" in text


def test_verbose_is_the_layout_of_kafkas_tool_on_a_terminal_too() -> None:
    with cluster() as broker:
        shown = on_terminal(broker, "groups", "describe", GROUP, "--verbose")
        piped = run(broker, "groups", "describe", GROUP, "--verbose").stdout
    assert [line.rstrip() for line in shown] == piped.splitlines()
    assert MEMBER_ID.replace("0a1b2c3d", "0a1b2c30") in shown[1]


def test_list_of_groups_fits_80_columns() -> None:
    with cluster() as broker:
        lines = on_terminal(broker, "groups", "list", columns=80)
    assert widths(lines) <= 80
    assert lines[0].split() == ["GROUP", "STATE", "TYPE", "PROTOCOL"]
    assert lines[-1] == "3 groups: 2 Stable, 1 Empty"


@pytest.mark.parametrize("arguments", [["list", "--verbose"], ["describe"]])
def test_topics_fit_80_columns(arguments: list[str]) -> None:
    with cluster() as broker:
        assert widths(on_terminal(broker, "topics", *arguments, columns=80)) <= 80


def test_long_names_and_settings_are_folded_at_80_columns(tmp_path: Path) -> None:
    """[terminal/layout]"""
    name, directory = "n" * 120, tmp_path / ("d" * 60) / ("e" * 60)
    replicas = ",".join(f"{each}:1" for each in range(20))
    with RunningBroker(data_dir=str(directory)) as running:
        settings = {"leader.replication.throttled.replicas": replicas}
        running.call(lambda: running.broker.controller.create(name, 1, settings))
        for arguments in (["topics", "describe", name], ["log-dirs"], ["log-dirs", "--partitions"]):
            lines = on_terminal(str(running.address), *arguments, columns=80)
            assert widths(lines) <= 80
            # Parts of a name are below each other, and other columns beside them.
            assert sum(line.count("n" * 10) for line in lines) > 1


def test_reset_shows_current_and_new_offsets_and_the_difference() -> None:
    with cluster() as broker:
        lines = on_terminal(
            broker, "groups", "reset-offsets", "--group", "idle", "--all-topics", "--to-earliest"
        )
    assert widths(lines) <= 100
    assert lines[0].split() == ["TOPIC", "PARTITION", "CURRENT", "NEW", "DIFFERENCE"]
    assert lines[1].split() == [TOPIC, "0", "15", "10", "-5"]


def test_records_of_a_log_are_folded() -> None:
    with FakeBroker({}) as broker:
        lines = on_terminal(broker, "dump", "log", str(LOG), "--values", "offsets")
    assert widths(lines) <= 100
    piped = run(None, "dump", "log", str(LOG), "--values", "offsets").stdout
    assert "".join("".join(lines).split()) == "".join(piped.split())


@pytest.mark.parametrize(
    ("line", "folds"),
    [
        ([("one two", ""), (" three", "red")], ["one two", "  three"]),
        ([("abcdefghijkl", "")], ["abcdefgh", "  ijkl"]),
        ([("one", "")], ["one"]),
        ([], [""]),
    ],
)
def test_line_is_folded_at_spaces(line: list[tuple[str, str]], folds: list[str]) -> None:
    found = ["".join(text for text, _ in part).rstrip() for part in folded(line, 8, 2)]
    assert found == folds


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["grups"], "groups"),
        (["groups", "lst"], "list"),
        (["topics", "descrbe"], "describe"),
        (["pipeline", "rport"], "report"),
        (["dump", "frmae"], "frame"),
    ],
)
def test_wrong_command_gets_a_suggestion(arguments: list[str], meant: str) -> None:
    result = run(None, *arguments)
    assert result.exit_code == 2
    assert f"No such command '{arguments[-1]}'. Did you mean '{meant}'?" in result.stderr


def test_command_that_is_like_no_other_gets_no_suggestion() -> None:
    result = run(None, "xyzzy")
    assert result.exit_code == 2
    assert "Did you mean" not in result.stderr


def test_reader_that_has_seen_enough_ends_a_command_quietly() -> None:
    """`coterie topics list | head -1`, with more topics than a pipe can hold."""
    with FakeBroker(topics={f"topic-{n:05}": 1 for n in range(20_000)}) as broker:
        environment = {**os.environ, "COTERIE_BOOTSTRAP": broker.bootstrap}
        with subprocess.Popen(
            [*PROGRAM, "topics", "list"],
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b"topic-00000\n"
            process.stdout.close()
            errors = process.stderr.read()
            assert (process.wait(LIMIT_S), errors) == (0, b"")


def test_assign_fits_on_100_columns() -> None:
    """[terminal/layout]"""
    with FakeBroker() as broker:
        broker.topics[TOPIC] = 64
        members = [consumer(0, None, **{TOPIC: list(range(64))}), consumer(1)]
        for each in members:
            each.member_metadata = encode_subscription(ConsumerProtocolSubscription(topics=[TOPIC]))
        broker.responses[ApiKey.DESCRIBE_GROUPS] = described(group(GROUP, "Stable", *members))
        lines = on_terminal(broker, "groups", "assign", GROUP, "--assignor", "range")
    assert max(map(len, lines)) <= 100
    assert any("0-63" in line for line in lines)


def test_a_file_that_takes_few_characters_gets_question_marks_for_others() -> None:
    """Windows writes files in a code page."""
    program = "from coterie.cli.main import main; main(['sing'], prog_name='\u25b7')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "cp1252"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"Usage: ? [OPTIONS]")
