"""A consumer for `coterie check-client`, with aiokafka."""

import argparse
import asyncio
import importlib
import signal
import ssl
import sys

import aiokafka

try:
    from aiokafka.coordinator import assignors
except ImportError:  # aiokafka 0.8 takes them from kafka-python.
    from kafka.coordinator import assignors

CLASSES = {
    "range": "range.RangePartitionAssignor",
    "roundrobin": "roundrobin.RoundRobinPartitionAssignor",
    "sticky": "sticky.sticky_assignor.StickyPartitionAssignor",
}


def assignor_class(name: str) -> type:
    module, _, cls = CLASSES[name].rpartition(".")
    found: type = getattr(importlib.import_module(f"{assignors.__name__}.{module}"), cls)
    return found


async def consume(options: argparse.Namespace) -> None:
    more = {"group_instance_id": options.instance_id} if options.instance_id else {}
    if options.security != "PLAINTEXT":
        more |= {
            "security_protocol": options.security,
            "sasl_mechanism": options.mechanism,
            "sasl_plain_username": options.username,
            "sasl_plain_password": options.password,
        }
    if options.ca:
        more["ssl_context"] = ssl.create_default_context(cafile=options.ca)
    consumer = aiokafka.AIOKafkaConsumer(
        options.topic,
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[assignor_class(options.assignor)],
        **more,
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
    parser.add_argument("--security", default="PLAINTEXT")
    parser.add_argument("--mechanism", default="SCRAM-SHA-512")
    parser.add_argument("--username", default="")
    parser.add_argument("--password", default="")
    parser.add_argument("--ca", default="")
    options = parser.parse_args()
    if options.assignor not in CLASSES:
        sys.exit(f"aiokafka {aiokafka.__version__} has no assignor {options.assignor}")
    asyncio.run(consume(options))


if __name__ == "__main__":
    main()
