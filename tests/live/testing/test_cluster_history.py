"""What the commands about groups show of a cluster, whichever broker they ask first."""

import re
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from coterie.server.groups.journal import LINGER_S
from coterie.testing import Cluster, cluster
from tests.live.testing.test_cluster import in_loop, other
from tests.unit.cli.command import run

_PATIENCE_S = 30

# What passes while the commands run one after the other.
_TIMES = re.compile(r"\d+(\.\d+)? (ms|s)\b|\d\d:\d\d:\d\d\.?\d*")


def outputs(kafka: Cluster, *words: str) -> set[str]:
    """Return what a command prints, by each broker."""
    found = set()
    for node_id in kafka.brokers:
        result: Any = run(None, "groups", *words, "--bootstrap-server", kafka.address(node_id))
        assert result.exit_code in (0, 1), result.output
        found.add(_TIMES.sub("TIME", result.stdout))
    return found


def history_with(kafka: Cluster, text: str) -> set[str]:
    """Return the history of the group as soon as a text is in it: facts are written a bit later."""
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        found = outputs(kafka, "history", "g")
        if all(text in each for each in found) or time.monotonic() > until_s:
            return found
        time.sleep(LINGER_S)


@in_loop
async def test_commands_show_the_same_by_each_broker() -> None:
    async with cluster(topics={"t": 2}) as kafka:
        config = kafka.client_config("aiokafka", group_id="g", enable_auto_commit=False)
        consumer = AIOKafkaConsumer("t", **config)
        await consumer.start()
        try:
            await kafka.group("g").wait_assigned("t")
            first = kafka.coordinator_of("g")
            assert first is not None
            await kafka.move_coordinator("g", to=other(kafka, first))
            second = kafka.coordinator_of("g")
            await kafka.wait_coordinator("g")
            await consumer.commit({TopicPartition("t", 0): 0})
            await kafka.kill(second)
            await kafka.wait_coordinator("g")
            third = kafka.coordinator_of("g")
            assert second is not None
            await kafka.start(second)
            last = f"from broker {second} to {third}; generation stayed"
            (history,) = history_with(kafka, last)
            assert f"from broker {first} to {second}; generation stayed" in history
            assert last in history
            for words in (
                ("list",),
                ("describe", "g", "--state"),
                ("check", "g", "--interval", "0.1"),
            ):
                (text,) = outputs(kafka, *words)
                assert "outage" not in text
            (described,) = outputs(kafka, "describe", "g", "--state", "--json")
            assert f'"coordinator_id": {third}' in described
            (facts,) = outputs(kafka, "history", "g", "--json")
            assert f'"node_id": {first}' in facts
        finally:
            await consumer.stop()
