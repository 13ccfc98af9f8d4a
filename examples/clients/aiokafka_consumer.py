"""A consumer for `coterie check-client`, with aiokafka."""

import argparse
import asyncio
import signal
import sys

import aiokafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


async def consume(options: argparse.Namespace) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        options.topic,
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        group_instance_id=options.instance_id or None,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[ASSIGNORS[options.assignor]],
    )
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await consumer.start()
    try:
        while not stopped.is_set():
            for records in (await consumer.getmany(timeout_ms=200)).values():
                for record in records:
                    value = record.value.decode()
                    if value.startswith("sleep "):
                        await asyncio.sleep(float(value.split()[1]))
                    print(record.topic, record.partition, record.offset, value, flush=True)
    finally:
        await consumer.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("group")
    parser.add_argument("--assignor", default="range")
    parser.add_argument("--instance-id", default="")
    options = parser.parse_args()
    if options.assignor not in ASSIGNORS:
        sys.exit(f"aiokafka {aiokafka.__version__} has no assignor {options.assignor}")
    asyncio.run(consume(options))


if __name__ == "__main__":
    main()
