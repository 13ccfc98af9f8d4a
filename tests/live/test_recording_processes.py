"""`coterie serve --record` and `coterie proxy --record` as processes, with unmodified clients."""

import asyncio
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiokafka import AIOKafkaConsumer
from click.testing import CliRunner
from confluent_kafka import Producer

from coterie.cli.main import main
from coterie.processes import Child
from coterie.testing.client_configs import client_config
from tests.live.deadlines import GENEROUS_S


@contextmanager
def coterie(log: Path, *arguments: str) -> Iterator[str]:
    """Run a command until the block ends; yield the address on which it is ready."""
    child = Child(log.name, [sys.executable, "-m", "coterie", *arguments], log)
    try:
        yield child.wait_for_line(r"ready on (\S+)", GENEROUS_S)[1]
    finally:
        assert child.end(limit_s=GENEROUS_S) == 0


async def read(bootstrap: str, count: int) -> None:
    config = client_config("aiokafka", bootstrap, "orders", {"client_id": "till"})
    async with AIOKafkaConsumer("sales", **config) as consumer:
        for _ in range(count):
            await consumer.getone()
        await consumer.commit()


def test_both_sides_of_a_proxy_record_what_can_be_replayed(tmp_path: Path) -> None:
    at_broker, at_proxy = str(tmp_path / "broker"), str(tmp_path / "proxy")
    serve = ("serve", "--port", "0", "--data-dir", ":memory:", "--record", at_broker)
    proxying = ("proxy", "--listen", "127.0.0.1:0", "--record", at_proxy)
    fast = ("--config", "group.initial.rebalance.delay.ms=0", "--log-level", "error")
    with (
        coterie(tmp_path / "serve.log", *serve, *fast) as broker,
        coterie(tmp_path / "proxy.log", *proxying, "--upstream", broker) as proxy,
    ):
        producer = Producer({"bootstrap.servers": proxy, "client.id": "shop"})
        for number in range(3):
            producer.produce("sales", b"sale %d" % number)
        assert producer.flush(GENEROUS_S) == 0
        asyncio.run(read(proxy, 3))
    for path in (at_broker, at_proxy):
        options = ["--config", "group.initial.rebalance.delay.ms=0"]
        result = CliRunner().invoke(main, ["replay", path, *options], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert "shop> " in result.output
        assert re.search(r"till[.\d]*< OffsetCommit v\d \{sales-0: ok\}", result.output)
