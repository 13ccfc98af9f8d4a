"""`coterie topics`, `configs`, `quotas`, `log-dirs` and `transactions` say the same about Kafka.

Every verb runs against a broker of ours and against Kafka 4.3.1, with --json, and prints the same
apart from ids, paths and times. Where Kafka has a tool for it, what our command says about Kafka is
compared with what that tool says.
"""

import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

from tests.interop.kafka_node import KafkaNode
from tests.interop.model import Failed, Surroundings
from tests.interop.open_transactions import UNVERIFIED, leave_open
from tests.interop.programs._tool_calls import CLASSES
from tests.interop.programs._tool_rows import Keys, rows_of_ours, rows_of_tool

CONFIG = UNVERIFIED
_LIMIT_S = 60.0
# What differs between any two brokers; the documentation of settings is ours.
_VARYING = frozenset(
    {
        "topic_id", "path", "total_bytes", "usable_bytes", "start_ms", "duration_ms",
        "last_timestamp_ms", "documentation",
    }
)  # fmt: skip


class Command(NamedTuple):
    """A command of ours, and a tool of Kafka that says the same.

    Attributes:
        line: the command.
        tool: the tool and its arguments; "" for none.
        keys: the keys of our rows that the columns of the tool's table have; None for a column
            that is not compared. Empty if the tool prints something else.
        fails: whether the command must fail, with the same text.
    """

    line: str
    tool: str = ""
    keys: Keys = ()
    fails: bool = False


_TXN = "kafka-transactions"
COMMANDS = (
    Command("topics create orders --partitions 2 --config retention.ms=5000"),
    Command("topics create orders", fails=True),
    Command("topics create orders --if-not-exists"),
    Command("topics create bills --replication-factor 1"),
    Command("topics create b$d", fails=True),
    Command("topics create wide --replication-factor 3", fails=True),
    Command("topics create wrong --config retention.ms=soon", fails=True),
    Command("topics list --exclude-internal"),
    Command("topics describe orders bills"),
    Command("topics describe orders", "kafka-topics --describe --topic orders"),
    Command("topics describe nope", fails=True),
    Command("topics assign orders bills --members a,b --assignor range"),
    Command("topics delete bills"),
    Command("topics delete bills", fails=True),
    Command("topics delete bills --if-exists"),
    Command("configs list topics"),
    Command("configs list brokers"),
    Command("configs describe topics orders"),
    Command("configs describe topics orders --key cleanup.policy --documentation"),
    Command("configs describe topics orders --all"),
    Command("configs describe topics nope", fails=True),
    Command("configs alter topics orders --set flush.ms=777 --delete retention.ms"),
    Command("configs alter topics orders --set flush.ms=soon", fails=True),
    Command("configs alter topics orders --set no.such=1", fails=True),
    Command("configs alter topics orders --append cleanup.policy=compact --dry-run"),
    Command("configs alter topics orders --append cleanup.policy=compact"),
    Command(
        "configs describe topics orders",
        "kafka-configs --describe --entity-type topics --entity-name orders",
    ),
    Command("configs alter topics orders --subtract cleanup.policy=delete"),
    Command("configs describe topics orders --key cleanup.policy"),
    Command("configs alter brokers --default --set log.retention.ms=600000000"),
    Command("configs alter brokers 1 --set log.cleaner.threads=2"),
    Command("configs alter brokers 1 --set node.id=7", fails=True),
    Command("configs alter brokers 7 --set log.cleaner.threads=2", fails=True),
    Command(
        "configs describe brokers --default",
        "kafka-configs --describe --entity-type brokers --entity-default",
    ),
    Command("configs describe brokers 1 --key log.cleaner.threads"),
    Command("configs alter brokers --default --delete log.retention.ms"),
    Command("configs alter groups g --set consumer.session.timeout.ms=50000"),
    Command(
        "configs describe groups g", "kafka-configs --describe --entity-type groups --entity-name g"
    ),
    Command("configs list groups"),
    Command("configs alter groups g --set consumer.session.timeout.ms=1", fails=True),
    Command("configs alter client-metrics m --set interval.ms=5000"),
    Command(
        "configs describe client-metrics m",
        "kafka-configs --describe --entity-type client-metrics --entity-name m",
    ),
    Command("configs list client-metrics"),
    Command("configs alter client-metrics m --set interval.ms=5", fails=True),
    Command("configs alter broker-loggers 1 --set kafka.server.KafkaApis=DEBUG"),
    Command("configs describe broker-loggers 1 --key kafka.server.KafkaApis"),
    Command("configs alter broker-loggers 1 --set kafka.server.KafkaApis=LOUD", fails=True),
    Command("configs alter broker-loggers 1 --delete kafka.server.KafkaApis"),
    Command("quotas set producer_byte_rate=1000 --user alice"),
    Command("quotas set consumer_byte_rate=2000 --user alice --client-id-defaults"),
    Command("quotas set request_percentage=50 --client-id app --dry-run"),
    Command("quotas set request_percentage=50 --client-id app"),
    Command("quotas set connection_creation_rate=5 --ip 10.0.0.1"),
    Command("quotas set producer_byte_rate=1000 --ip 10.0.0.1", fails=True),
    Command("quotas set nonsense=1 --user alice", fails=True),
    Command("quotas list"),
    Command("quotas list --user alice"),
    Command(
        "quotas list --user alice --client-id-defaults",
        "kafka-configs --describe --entity-type users --entity-name alice"
        " --entity-type clients --entity-default",
    ),
    Command(
        "quotas list --user alice --strict",
        "kafka-configs --describe --entity-type users --entity-name alice",
    ),
    Command(
        "quotas list --client-id app",
        "kafka-configs --describe --entity-type clients --entity-name app",
    ),
    Command(
        "quotas list --ip 10.0.0.1",
        "kafka-configs --describe --entity-type ips --entity-name 10.0.0.1",
    ),
    Command("quotas remove producer_byte_rate --user alice"),
    Command("quotas remove producer_byte_rate --user bob"),
    Command("quotas list"),
    Command("log-dirs open", "kafka-log-dirs --describe --topic-list open"),
    Command("log-dirs open --partitions"),
    Command("log-dirs nope", fails=True),
    Command("log-dirs --broker 7", fails=True),
    Command(
        "transactions list",
        f"{_TXN} list",
        ("transactional_id", "coordinator_id", "producer_id", "state"),
    ),
    Command("transactions list --state Ongoing"),
    Command("transactions list --state Foo", fails=True),
    Command("transactions list --producer-id 4711"),
    Command("transactions list --longer-than 3600000"),
    Command(
        "transactions list --pattern op.*",
        f"{_TXN} list --transactional-id-pattern op.*",
        ("transactional_id", "coordinator_id", "producer_id", "state"),
    ),
    Command("transactions list --pattern ((", fails=True),
    Command(
        "transactions describe open",
        f"{_TXN} describe --transactional-id open",
        (
            "coordinator_id",
            "transactional_id",
            "producer_id",
            "producer_epoch",
            "state",
            "timeout_ms",
            None,
            None,
            None,
        ),
    ),
    Command("transactions describe nope", fails=True),
    Command(
        "transactions describe-producers --topic open --partition 0",
        f"{_TXN} describe-producers --topic open --partition 0",
        (
            "producer_id",
            "producer_epoch",
            "coordinator_epoch",
            "last_sequence",
            "last_timestamp_ms",
            "start_offset",
        ),
    ),
    Command("transactions describe-producers --topic open --partition 0 --broker-id 1"),
    Command("transactions describe-producers --topic open --partition 0 --broker-id 7", fails=True),
    Command("transactions describe-producers --topic open --partition 7", fails=True),
    Command(
        "transactions find-hanging",
        f"{_TXN} find-hanging --broker-id 1",
        (
            "topic",
            "partition",
            "producer_id",
            "producer_epoch",
            "coordinator_epoch",
            "start_offset",
            "last_timestamp_ms",
            None,
        ),
    ),
    Command("transactions find-hanging --topic hanging --broker-id 1"),
    Command("transactions find-hanging --topic hanging --partition 1"),
    Command("transactions find-hanging --topic open --max-transaction-timeout 0"),
    Command("transactions find-hanging --topic nope", fails=True),
    Command("transactions abort --topic hanging --partition 0 --start-offset 0"),
    Command("transactions abort --topic hanging --partition 0 --start-offset 0", fails=True),
    Command(
        "transactions abort --topic hanging --partition 1 --producer-id 5001 --producer-epoch 0"
        " --coordinator-epoch 0"
    ),
    Command(
        "transactions abort --topic open --partition 0 --producer-id 0 --producer-epoch 0"
        " --coordinator-epoch 0",
        fails=True,
    ),
    Command("transactions find-hanging"),
    Command("transactions terminate nope", fails=True),
    Command("transactions terminate open"),
    Command("transactions terminate open"),
    Command("transactions describe open"),
    Command("transactions describe-producers --topic open --partition 0"),
)


def run(around: Surroundings) -> None:
    """Run every command against both brokers."""
    kafka = KafkaNode(around, CONFIG)
    kafka.start()
    addresses = (kafka.bootstrap, around.bootstrap)
    producers = [leave_open(address) for address in addresses]
    differences: list[str] = []
    for command in COMMANDS:
        expected, found = (_run(command, address) for address in addresses)
        if expected != found:
            differences += [command.line, f"  Kafka {expected}", f"  ours  {found}"]
        if command.tool:
            differences += _compare_with_tool(kafka, command)
    del producers
    if differences:
        raise Failed("\n".join(("commands print something else:", *differences)))
    tools = sum(bool(command.tool) for command in COMMANDS)
    around.note(f"{len(COMMANDS)} commands say the same, {tools} of them as Kafka's tools do")


def _run(command: Command, address: str) -> Any:
    """Return what a command prints, or the text of its error."""
    done = _call(command, address)
    if (done.returncode != 0) != command.fails:
        return f"exit code {done.returncode}: {done.stderr}"
    if command.fails:
        return done.stderr.replace(address, "<broker>")
    return _without_varying(json.loads(done.stdout))


def _call(command: Command, address: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "coterie", *command.line.split(), "--json"],
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
        env={**os.environ, "COTERIE_BOOTSTRAP": address},
    )


def _without_varying(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_varying(each) for key, each in value.items() if key not in _VARYING}
    if isinstance(value, list):
        return [_without_varying(each) for each in value]
    return value


def _compare_with_tool(kafka: KafkaNode, command: Command) -> list[str]:
    """Compare what our command says about Kafka with what Kafka's tool says."""
    tool, *arguments = command.tool.split()
    printed = kafka.run(CLASSES[tool], "--bootstrap-server", kafka.bootstrap, *arguments)
    rows = json.loads(_call(command, kafka.bootstrap).stdout)
    ours = sorted(rows_of_ours(tool, rows, command.keys))
    theirs = sorted(rows_of_tool(tool, printed, command.keys))
    if ours == theirs:
        return []
    return [f"{command.line} and {command.tool}", f"  Kafka {theirs}", f"  ours  {ours}"]
