"""One member of the demo's group: `python -m demo.member --library aiokafka --name aiokafka-1 ...`.

An ordinary consumer written the way its library's documentation does it: subscribe, read, commit,
until SIGTERM. It prints what happens as JSON lines: assigned and revoked with the partitions,
read with a partition and the offsets of a batch, closed. A batch is told before it is committed, so
a kill may make records come twice, but never lets one go unread.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Iterable
from typing import Any

HEARTBEAT_INTERVAL_MS = 300
POLL_S = 0.1
BATCH = 50

stopped = threading.Event()


def tell(event: str, **fields: object) -> None:
    """Print one event."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def tell_partitions(event: str, partitions: Iterable[Any]) -> None:
    """Print which partitions were assigned or revoked."""
    tell(event, partitions=sorted(each.partition for each in partitions))


def tell_read(offsets: dict[int, list[int]]) -> None:
    """Print a batch: partition -> offsets."""
    for partition, read in offsets.items():
        tell("read", partition=partition, offsets=read)


def run_kafka_python(options: argparse.Namespace) -> None:
    """A member of kafka-python."""
    import kafka  # only the library this member is made of

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            tell_partitions("assigned", assigned)

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            tell_partitions("revoked", revoked)

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=options.bootstrap,
        client_id=options.name,
        group_id=options.group,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        max_poll_records=BATCH,
        partition_assignment_strategy=[range_assignor("kafka")],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.subscribe([options.topic], listener=Listener())
    # Fetches the metadata: without it the first join would be made in vain, and again.
    consumer.topics()
    while not stopped.is_set():
        batches = consumer.poll(timeout_ms=int(POLL_S * 1000))
        tell("generation", number=consumer.group_metadata().generation_id)
        if batches:
            tell_read({at.partition: [each.offset for each in batches[at]] for at in batches})
            consumer.commit()
    consumer.close()


def run_aiokafka(options: argparse.Namespace) -> None:
    """A member of aiokafka."""
    asyncio.run(aiokafka_member(options))


async def aiokafka_member(options: argparse.Namespace) -> None:
    """aiokafka rebalances in the background, so a lock keeps that apart from handling a batch."""
    import aiokafka  # only the library this member is made of
    from aiokafka.errors import CommitFailedError

    handling = asyncio.Lock()

    class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            tell_partitions("assigned", assigned)

        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            async with handling:
                tell_partitions("revoked", revoked)

    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        client_id=options.name,
        group_id=options.group,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        max_poll_records=BATCH,
        partition_assignment_strategy=[range_assignor("aiokafka")],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    consumer.subscribe([options.topic], listener=Listener())
    while not stopped.is_set():
        batches = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        async with handling:
            if batches:
                tell_read({at.partition: [each.offset for each in batches[at]] for at in batches})
                try:
                    await consumer.commit()
                except CommitFailedError:
                    # The group has moved on; whoever owns the partitions now reads them again.
                    continue
    await consumer.stop()


def run_confluent(options: argparse.Namespace) -> None:
    """A member of confluent-kafka."""
    import confluent_kafka  # only the library this member is made of

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
        on_assign=lambda _consumer, partitions: tell_partitions("assigned", partitions),
        on_revoke=lambda _consumer, partitions: tell_partitions("revoked", partitions),
    )
    while not stopped.is_set():
        record = consumer.poll(POLL_S)
        if record is not None and record.error() is None:
            partition, offset = record.partition(), record.offset()
            assert partition is not None, "only an error comes without a partition"
            assert offset is not None, "only an error comes without an offset"
            tell_read({partition: [offset]})
            consumer.commit(message=record, asynchronous=False)
    consumer.close()


def range_assignor(package: str) -> Any:
    """The range assignor of kafka-python or aiokafka, whose default is another one."""
    if package == "kafka":
        from kafka.coordinator.assignors.range import RangePartitionAssignor as Range
    else:
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor as Range
    return Range


RUN = {"kafka-python": run_kafka_python, "aiokafka": run_aiokafka, "confluent": run_confluent}


def end_with_the_demo() -> None:
    """Wait for the end of standard input: whoever started this member is gone, so it goes too."""
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Be a member until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m demo.member", description=__doc__)
    parser.add_argument("--library", choices=sorted(RUN), required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--session-timeout-ms", type=int, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: stopped.set())
    threading.Thread(target=end_with_the_demo, daemon=True).start()
    RUN[options.library](options)
    tell("closed")


if __name__ == "__main__":
    main()
