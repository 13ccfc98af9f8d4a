"""Kafka's command-line tools print the same lines about a broker of ours as about Kafka's.

Every tool runs against both. Ids, addresses, paths, times and sizes differ and are replaced; of
the lines that differ for a reason, the reason is written beside the call. The parts of the program
are the calls; most of them need what those before have made.
"""

import json
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch

from confluent_kafka import Consumer, TopicPartition

from tests.interop.group_members import StreamsMember
from tests.interop.kafka_node import KafkaNode
from tests.interop.model import Failed, Surroundings
from tests.interop.open_transactions import UNVERIFIED, leave_open
from tests.interop.programs._consumer_group_calls import GROUP_CALLS
from tests.interop.programs._streams_group_calls import EMPTY_CALLS, LIVING_CALLS
from tests.interop.programs._tool_calls import CALLS, Tool
from tests.interop.tool_runs import LIMIT_S, Place, compare
from tests.interop.topics import create_topics, produce

# Both brokers delete groups without offsets at such a check, which comes at different times.
CONFIG = {**UNVERIFIED, "offsets.retention.check.interval.ms": "86400000"}


def run(around: Surroundings) -> None:
    """Run every tool against both brokers and compare what they print."""
    kafka = KafkaNode(around, CONFIG)
    kafka.start()
    _prepare_files(around)
    brokers = (kafka.bootstrap, around.bootstrap)
    producers = [leave_open(address) for address in brokers]
    places = [Place(address, around.directory) for address in brokers]
    differences: list[str] = []
    calls, group_calls = _chosen(around, CALLS), _chosen(around, GROUP_CALLS)
    compared = len(calls) + len(group_calls) + len(_chosen(around, [*LIVING_CALLS, *EMPTY_CALLS]))
    for call in calls:
        differences += compare(around, kafka, places, call)
    del producers
    members = [_living_member(around, address) for address in brokers]
    for call in group_calls:
        differences += compare(around, kafka, places, call)
    for each in members:
        each.close()
    differences += _streams_calls(around, kafka, places)
    if differences:
        raise Failed("\n".join(("tools print other lines:", *differences)))
    around.note(f"{compared} calls of tools print the same lines")


def _streams_calls(
    around: Surroundings, kafka: KafkaNode, places: Sequence[Place]
) -> Iterator[str]:
    """Yield what differs about a streams group, first with its member, then without it."""
    members = {place.address: StreamsMember("streamers", "member", "lines") for place in places}
    for address, member in members.items():
        member.join(address)
        # The initial delay.
        around.until(lambda a=address, m=member: m.beat(a) > 1, LIMIT_S, "its tasks")  # type: ignore[misc]
        member.commit(address, 2)
    for call in _chosen(around, LIVING_CALLS):
        for address, member in members.items():
            member.beat(address)
        yield from compare(around, kafka, places, call)
    for address, member in members.items():
        member.leave(address)
    for call in _chosen(around, EMPTY_CALLS):
        yield from compare(around, kafka, places, call)


def _chosen(around: Surroundings, calls: Sequence[Tool]) -> list[Tool]:
    """Return the calls that are wanted."""
    only = around.parts.only
    return [
        each for each in calls if not only or any(fnmatch(each.call, pattern) for pattern in only)
    ]


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

    around.until(has_all, LIMIT_S, "the member has its partitions")
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
