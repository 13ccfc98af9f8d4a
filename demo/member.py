"""A member of the demo's group: `python -m demo.member --library aiokafka --name aiokafka-1 ...`.

It is an ordinary consumer as the documentation of its library shows it: it subscribes, reads and
commits until SIGTERM. It prints events as JSON lines: assigned and revoked with partitions, read
with a partition and the offsets of a batch, generation, and closed. A batch is reported before it
is committed, so after a kill a record may be read twice, but none is lost.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

HEARTBEAT_INTERVAL_MS = 300
POLL_S = 0.1
BATCH_RECORDS = 50

stopped = threading.Event()


def report(event: str, **fields: object) -> None:
    """Print an event."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def report_partitions(event: str, partitions: Iterable[Any]) -> None:
    """Print the partitions that were assigned or revoked."""
    report(event, partitions=sorted(each.partition for each in partitions))


def report_batches(batches: Mapping[Any, Sequence[Any]]) -> None:
    """Print the offsets of the records read from each partition."""
    for topic_partition, records in batches.items():
        offsets = [each.offset for each in records]
        report("read", partition=topic_partition.partition, offsets=offsets)


def consumer_settings(options: argparse.Namespace, package: str) -> dict[str, Any]:
    """Return the settings of a consumer of kafka-python or aiokafka, whose names are the same."""
    return {
        "bootstrap_servers": options.bootstrap,
        "client_id": options.name,
        "group_id": options.group,
        "session_timeout_ms": options.session_timeout_ms,
        "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
        "max_poll_records": BATCH_RECORDS,
        "partition_assignment_strategy": [range_assignor(package)],
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }


def range_assignor(package: str) -> Any:
    """Return the range assignor of kafka-python or aiokafka, which is not the default of either."""
    if package == "kafka":
        from kafka.coordinator.assignors.range import RangePartitionAssignor as Range
    else:
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor as Range
    return Range


def run_kafka_python(options: argparse.Namespace) -> None:
    """Run a member with kafka-python."""
    import kafka  # imported here, because a member needs only its own library

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            report_partitions("assigned", assigned)

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            report_partitions("revoked", revoked)

    consumer = kafka.KafkaConsumer(**consumer_settings(options, "kafka"))
    consumer.subscribe([options.topic], listener=Listener())
    # Fetch the metadata before the first join. Otherwise the member joins before it has the
    # partitions of the topic, and joins again when their metadata arrives.
    consumer.topics()
    while not stopped.is_set():
        batches = consumer.poll(timeout_ms=int(POLL_S * 1000))
        report("generation", number=consumer.group_metadata().generation_id)
        if batches:
            report_batches(batches)
            consumer.commit()
    consumer.close()


def run_aiokafka(options: argparse.Namespace) -> None:
    """Run a member with aiokafka."""
    asyncio.run(aiokafka_member(options))


async def aiokafka_member(options: argparse.Namespace) -> None:
    """Run a member with aiokafka.

    aiokafka rebalances in the background. The lock keeps a rebalance from happening while a batch
    is handled.
    """
    import aiokafka  # imported here, because a member needs only its own library
    from aiokafka.errors import CommitFailedError

    handling = asyncio.Lock()

    class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            report_partitions("assigned", assigned)

        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            async with handling:
                report_partitions("revoked", revoked)

    consumer = aiokafka.AIOKafkaConsumer(**consumer_settings(options, "aiokafka"))
    await consumer.start()
    consumer.subscribe([options.topic], listener=Listener())
    while not stopped.is_set():
        batches = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        async with handling:
            if batches:
                report_batches(batches)
                try:
                    await consumer.commit()
                except CommitFailedError:
                    # A rebalance has begun; the next owner of the partitions reads them again.
                    continue
    await consumer.stop()


def run_confluent(options: argparse.Namespace) -> None:
    """Run a member with confluent-kafka."""
    import confluent_kafka  # imported here, because a member needs only its own library

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "client.id": options.name,
            "group.id": options.group,
            "session.timeout.ms": options.session_timeout_ms,
            "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
            "partition.assignment.strategy": "range",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 2,
        }
    )
    consumer.subscribe(
        [options.topic],
        on_assign=lambda _consumer, partitions: report_partitions("assigned", partitions),
        on_revoke=lambda _consumer, partitions: report_partitions("revoked", partitions),
    )
    while not stopped.is_set():
        record = consumer.poll(POLL_S)
        if record is not None and record.error() is None:
            report("read", partition=record.partition(), offsets=[record.offset()])
            consumer.commit(message=record, asynchronous=False)
    consumer.close()


RUN = {"kafka-python": run_kafka_python, "aiokafka": run_aiokafka, "confluent": run_confluent}


def end_with_parent() -> None:
    """End this process when its standard input is closed, so that it does not outlive the demo."""
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Run a member until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m demo.member", description=__doc__)
    parser.add_argument("--library", choices=sorted(RUN), required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--session-timeout-ms", type=int, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: stopped.set())
    threading.Thread(target=end_with_parent, daemon=True).start()
    RUN[options.library](options)
    report("closed")


if __name__ == "__main__":
    main()
