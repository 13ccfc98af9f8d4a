"""`coterie serve --record` and `coterie proxy --record` as processes, with unmodified clients."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiokafka import AIOKafkaConsumer
from click.testing import CliRunner
from confluent_kafka import Producer

from coterie.cli.main import main
from coterie.testing.client_configs import client_config
from tests.live.deadlines import GENEROUS_S


@contextmanager
def coterie(*arguments: str) -> Iterator[str]:
    """Run a command until the block ends; yield the address on which it is ready."""
    command = [sys.executable, "-m", "coterie", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"ready on (\S+)", line)
            assert found is not None, line
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(GENEROUS_S) == 0


async def read(bootstrap: str, count: int) -> None:
    config = client_config("aiokafka", bootstrap, "orders", {"client_id": "till"})
    async with AIOKafkaConsumer("sales", **config) as consumer:
        for _ in range(count):
            await consumer.getone()
        await consumer.commit()


def test_both_sides_of_a_proxy_record_what_can_be_replayed(tmp_path: Path) -> None:
    at_broker, at_proxy = str(tmp_path / "broker"), str(tmp_path / "proxy")
    serve = ("serve", "--port", "0", "--data-dir", ":memory:", "--record", at_broker)
    fast = ("--config", "group.initial.rebalance.delay.ms=0", "--log-level", "error")
    with (
        coterie(*serve, *fast) as broker,
        coterie(
            "proxy", "--listen", "127.0.0.1:0", "--upstream", broker, "--record", at_proxy
        ) as proxy,
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
