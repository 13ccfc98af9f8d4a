"""Kafka's command-line tools print the same lines about a broker of ours as about Kafka's.

Every tool runs against both. Ids, addresses, paths, times and sizes differ and are replaced; of
the lines that differ for a reason, the reason is written beside the call.
"""

import json
import re
import signal
from contextlib import suppress
from functools import partial

from confluent_kafka import Consumer, TopicPartition

from coterie.processes import Child
from tests.interop.kafka_node import KafkaNode
from tests.interop.model import Failed, Surroundings
from tests.interop.open_transactions import UNVERIFIED, leave_open
from tests.interop.programs._consumer_group_calls import GROUP_CALLS
from tests.interop.programs._tool_calls import CALLS, CLASSES, Tool
from tests.interop.topics import create_topics, produce

_LIMIT_S = 60.0
CONFIG = UNVERIFIED


def run(around: Surroundings) -> None:
    """Run every tool against both brokers and compare what they print."""
    kafka = KafkaNode(around, CONFIG)
    kafka.start()
    _prepare_files(around)
    brokers = (kafka.bootstrap, around.bootstrap)
    producers = [leave_open(address) for address in brokers]
    differences: list[str] = []
    for call in CALLS:
        differences += _differences(around, kafka, call)
    del producers
    members = [_living_member(around, address) for address in brokers]
    for call in GROUP_CALLS:
        differences += _differences(around, kafka, call)
    for each in members:
        each.close()
    if differences:
        raise Failed("\n".join(("tools print other lines:", *differences)))
    around.note(
        f"{len(CALLS) + len(GROUP_CALLS)} calls of {len(CLASSES)} tools print the same lines"
    )


def _living_member(around: Surroundings, bootstrap: str) -> Consumer:
    """Return the member of the group `living`, which has committed an offset."""
    create_topics(bootstrap, {"lines": 2})
    produce(bootstrap, "lines", [("a", "one"), ("b", "two"), ("c", "three")])
    member = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "member",
            "group.id": "living",
            "group.protocol": "consumer",
            "enable.auto.commit": False,
            "max.poll.interval.ms": 3_600_000,
            "log_level": 0,
        }
    )
    member.subscribe(["lines"])

    def has_all() -> bool:
        member.poll(0.1)
        return len(member.assignment()) == 2

    around.until(has_all, _LIMIT_S, "the member has its partitions")
    member.commit(offsets=[TopicPartition("lines", 0, 1)], asynchronous=False)
    return member


def _prepare_files(around: Surroundings) -> None:
    def write(name: str, content: object) -> None:
        (around.directory / name).write_text(json.dumps(content))

    partition = {"topic": "orders", "partition": 0}
    write("plan.json", {"version": 1, "partitions": [{**partition, "replicas": [1]}]})
    write("elsewhere.json", {"version": 1, "partitions": [{**partition, "replicas": [7]}]})
    write("topics.json", {"version": 1, "topics": [{"topic": "orders"}]})
    records = {"topic": "verified", "partition": 0, "offset": 3}
    latency = {"topic": "latency", "partition": 0, "offset": -1}
    write("offsets.json", {"version": 1, "partitions": [records, latency]})
    (around.directory / "add").write_text("max.message.bytes=100000\nflush.ms=777\n")


def _differences(around: Surroundings, kafka: KafkaNode, call: Tool) -> list[str]:
    """Run a tool against both brokers; return the lines of one of them only."""
    addresses = (kafka.bootstrap, around.bootstrap)
    running = [
        kafka.begin(*_command(around, call, address), stdin=call.stdin) for address in addresses
    ]
    if call.until:
        for child in running:
            # If it never comes, the comparison of the lines says so.
            with suppress(Failed):
                around.until(partial(_prints, child, call.until), _LIMIT_S, call.until)
            child.signal(signal.SIGTERM)
    printed = [kafka.printed(child) for child in running]
    if not re.search(call.shows, printed[0]):
        return [call.call, f"  Kafka does not say {call.shows}:", *_indented(printed[0])]
    if call.refused:
        if re.search(call.refused, printed[1]):
            return []
        return [call.call, f"  ours does not say {call.refused}:", *_indented(printed[1])]
    expected, found = (
        _lines(text, call, address, around.directory)
        for text, address in zip(printed, addresses, strict=True)
    )
    if found == expected:
        return []
    return [
        call.call,
        *(f"  Kafka {line}" for line in expected if line not in found),
        *(f"  ours  {line}" for line in found if line not in expected),
    ]


def _prints(child: Child, pattern: str) -> bool:
    ended = not child.running
    return ended or re.search(pattern, child.log.read_text(errors="replace")) is not None


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()[:20]]


def _command(around: Surroundings, call: Tool, address: str) -> tuple[str, list[str]]:
    """Return the class and the arguments."""
    tool, *arguments = call.call.replace("{directory}", str(around.directory)).split()
    if "{broker}" in arguments:
        arguments = [each.replace("{broker}", address) for each in arguments]
    else:
        arguments = ["--bootstrap-server", address, *arguments]
    return CLASSES[tool], arguments


def _lines(text: str, call: Tool, address: str, directory: object) -> list[str]:
    lines = []
    for line in text.splitlines():
        changed = line
        for pattern, replacement in call.changes:
            changed = re.sub(pattern, replacement, changed)
        lines.append(_normal(changed, address, directory))
    kept = [line for line in lines if line and not (call.differs and re.search(call.differs, line))]
    return sorted(set(kept)) if call.sorted else kept


_VARYING = (
    (r"\b[A-Za-z0-9_-]{22}\b", "<id>"),
    (r"\[?\d{4}-\d\d-\d\d[ T][\d:,.+-]+\]?", "<time>"),
    (r'"(logDir|size|clusterId)":("[^"]*"|\d+)', r'"\1":<>'),
    (r'"log_dirs":\["[^"]*"\]', '"log_dirs":<>'),
    (r"(LeaderEpoch|HighWatermark|MaxFollowerLag\w*|Epoch):\s+-?\d+", r"\1: <n>"),
    (r"\b\d{13}\b", "<ms>"),
    # The listener of controllers is ours, and the end of the log of metadata.
    (r'"endpoints": \[[^\]]*\]', '"endpoints": <>'),
    (r"(<id>\s+)\d+", r"\1<n>"),
    (r"\s+", " "),
)


def _normal(line: str, address: str, directory: object) -> str:
    """Return a line without what differs between any two brokers."""
    text = line.replace(address, "<broker>").replace(str(directory), "<directory>")
    for pattern, replacement in _VARYING:
        text = re.sub(pattern, replacement, text)
    return text.strip()
