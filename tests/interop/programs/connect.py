"""Kafka Connect copies a file line by line with two workers, although one is killed.

A source connector reads a file into a topic. A sink connector writes the topic to another file, and
a second one, whose consumer uses the consumer protocol (KIP-848), to a third. The worker with the
source's task is killed, and the other must go on. The sources are exactly once
(`exactly.once.source.support`), so the topic has every line one time.
"""

import json
import urllib.request
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError

from confluent_kafka.admin import AdminClient

from coterie.lab.live.parts import CONNECT_4, Part, jars_of, java_command
from coterie.processes import Child, free_port
from coterie.storage.properties import properties_text
from tests.interop.model import Failed, Surroundings
from tests.interop.topics import CommittedReader

CONNECT = Part(
    "connect-with-files-4.3.1", (*CONNECT_4.artifacts, "org.apache.kafka:connect-file:4.3.1")
)
_LIMIT_S = 180.0
_REFUSED = 400
_CONNECTORS = {
    "source": "FileStreamSource",
    "sink": "FileStreamSink",
    "newer-sink": "FileStreamSink",
}


class _Worker(NamedTuple):
    """A worker and the address of its REST interface."""

    child: Child
    url: str


def run(around: Surroundings) -> None:
    """Copy lines; kill a worker; copy more."""
    copy_lines(around, {"bootstrap.servers": around.bootstrap})


def copy_lines(around: Surroundings, client: Mapping[str, str]) -> None:
    """Do so with workers whose clients have some properties."""
    workers = [_start(around, number, client) for number in (1, 2)]
    for worker in workers:
        around.until(lambda w=worker: _get(w, "connectors") == [], _LIMIT_S, "REST", worker.child)  # type: ignore[misc]
    source, *sinks = (around.directory / name for name in ("in.txt", "out.txt", "newer.txt"))
    source.touch()
    topic = around.name("lines")
    places = {
        "source": {"file": str(source), "topic": topic},
        "sink": {"file": str(sinks[0]), "topics": topic},
        "newer-sink": {
            "file": str(sinks[1]),
            "topics": topic,
            "consumer.override.group.protocol": "consumer",
        },
    }
    for name, kind in _CONNECTORS.items():
        config = {"connector.class": kind, "tasks.max": "1", **places[name]}
        _create(around, workers[0], name, config)

    def owner() -> str:
        tasks = _get(workers[0], "connectors/source/status")["tasks"]
        return str(tasks[0]["worker_id"]) if tasks and tasks[0]["state"] == "RUNNING" else ""

    around.until(lambda: bool(owner()), _LIMIT_S, "the source's task runs")
    lines = [f"line {number}" for number in range(600)]

    def copied(sink: Path) -> set[str]:
        return set(sink.read_text().splitlines()) if sink.exists() else set()

    def are_copied(until: int) -> bool:
        return all(len(copied(sink)) >= until for sink in sinks)

    def copy(until: int) -> None:
        with source.open("a") as file:
            file.writelines(
                f"{line}\n" for line in lines[len(source.read_text().splitlines()) : until]
            )
        around.until(lambda: are_copied(until), _LIMIT_S, f"{until} lines are copied")

    copy(200)
    next(each for each in workers if owner() in each.url).child.kill()
    copy(500)
    copy(600)
    if any(copied(sink) != set(lines) for sink in sinks):
        raise Failed("a sink has lines that nobody wrote")
    _check_topic(around, topic, lines)
    _check_types(around)


def _check_types(around: Surroundings) -> None:
    """Check that the group of the newer sink is a consumer group, and the other one is not."""
    admin = AdminClient({"bootstrap.servers": around.bootstrap})
    groups = ["connect-sink", "connect-newer-sink"]
    described = admin.describe_consumer_groups(groups, request_timeout=20)
    types = {group: each.result().type.name for group, each in described.items()}
    if types != {"connect-sink": "CLASSIC", "connect-newer-sink": "CONSUMER"}:
        raise Failed(f"the groups of the sinks are {types}")


def _check_topic(around: Surroundings, topic: str, lines: list[str]) -> None:
    """Check that the topic has every line one time."""
    reader = CommittedReader(around.bootstrap, {topic: 1})
    found: Counter[bytes] = Counter()
    for message in reader.records(20.0):
        if message is not None:
            value = message.value()
            assert isinstance(value, bytes)
            found[value] += 1
        elif len(found) >= len(lines):
            break
    reader.close()
    if found != Counter(line.encode() for line in lines):
        doubled = found.total() - len(found)
        raise Failed(
            f"the topic has {len(found)} of {len(lines)} lines, and {doubled} doubled ones"
        )
    around.note(f"{len(lines)} lines, each one time")


def _start(around: Surroundings, number: int, client: Mapping[str, str]) -> _Worker:
    url = f"http://127.0.0.1:{free_port()}"
    settings = {
        # For the worker, and for the clients of its connectors.
        **{
            f"{prefix}{name}": value
            for prefix in ("", "producer.", "consumer.", "admin.")
            for name, value in client.items()
        },
        "group.id": around.name("connect"),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.storage.partitions": "2",
        "status.storage.partitions": "1",
        "offset.flush.interval.ms": "1000",
        "scheduled.rebalance.max.delay.ms": "3000",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "2000",
        "exactly.once.source.support": "enabled",
        "plugin.discovery": "SERVICE_LOAD",
        "listeners": url,
    }
    for what in ("config", "offset", "status"):
        settings[f"{what}.storage.topic"] = around.name(f"connect-{what}")
        settings[f"{what}.storage.replication.factor"] = "1"
    path = around.directory / f"worker-{number}.properties"
    path.write_text(properties_text(settings), encoding="utf-8")
    command = java_command(
        jars_of(CONNECT, around.note),
        "org.apache.kafka.connect.cli.ConnectDistributed",
        [str(path)],
        heap_mb=320,
        options=["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
    )
    return _Worker(around.children.start(f"worker-{number}", command), url)


def _create(around: Surroundings, worker: _Worker, name: str, config: dict[str, str]) -> None:
    """Create a connector; the worker may not know its leader yet."""
    body = json.dumps({"name": name, "config": config}).encode()

    def created() -> bool:
        request = urllib.request.Request(
            f"{worker.url}/connectors", body, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return bool(response.status == 201)
        except HTTPError as error:
            if error.code == _REFUSED:
                text = error.read().decode(errors="replace")
                raise Failed(f"the worker refuses the {name}: {text[:500]}") from None
            raise

    around.until(created, _LIMIT_S, f"the {name} is created", worker.child)


def _get(worker: _Worker, path: str) -> Any:
    with urllib.request.urlopen(f"{worker.url}/{path}", timeout=20) as response:
        return json.load(response)
