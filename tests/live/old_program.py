"""Uses an old client: `python -m tests.live.old_program`, with the release on PYTHONPATH.

It creates a topic, produces, consumes and administers, and prints the results as one JSON object,
which the test checks.
"""

import argparse
import asyncio
import json
import sys

READ_LIMIT_MS = 30_000


def kafka_python(options: argparse.Namespace) -> dict[str, object]:
    """Use kafka-python 2 and return the results."""
    import kafka
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=options.bootstrap)
    admin.create_topics([NewTopic(options.topic, num_partitions=2, replication_factor=1)])
    producer = kafka.KafkaProducer(
        bootstrap_servers=options.bootstrap, acks="all", compression_type="gzip", retries=5
    )
    for row in range(options.count):
        producer.send(
            options.topic,
            key=b"%d" % row,
            value=b"%d" % row,
            headers=[("row", b"%d" % row)],
            timestamp_ms=options.timestamp_ms,
        )
    producer.flush(timeout=30)
    producer.close()
    consumer = kafka.KafkaConsumer(
        options.topic,
        bootstrap_servers=options.bootstrap,
        group_id=options.topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=READ_LIMIT_MS,
    )
    records = [next(consumer) for _ in range(options.count)]
    consumer.commit()
    partitions = sorted(consumer.assignment())
    seen = {
        "release": kafka.__version__,
        "values": sorted(int(record.value) for record in records),
        "headers": sorted(int(dict(record.headers)["row"]) for record in records),
        "timestamps": sorted({record.timestamp for record in records}),
        "begin": sum(consumer.beginning_offsets(partitions).values()),
        "end": sum(consumer.end_offsets(partitions).values()),
        "by_time": sum(
            found.offset
            for found in consumer.offsets_for_times(
                dict.fromkeys(partitions, options.timestamp_ms)
            ).values()
        ),
        "groups": [name for name, kind in admin.list_consumer_groups() if kind == "consumer"],
        "state": [group.state for group in admin.describe_consumer_groups([options.topic])],
        "committed": sum(
            found.offset for found in admin.list_consumer_group_offsets(options.topic).values()
        ),
    }
    consumer.close()
    seen["deleted"] = [
        [group, error.errno] for group, error in admin.delete_consumer_groups([options.topic])
    ]
    admin.close()
    return seen


def aiokafka(options: argparse.Namespace) -> dict[str, object]:
    """Use aiokafka 0.8 and return the results."""
    return asyncio.run(use_aiokafka(options))


async def use_aiokafka(options: argparse.Namespace) -> dict[str, object]:
    """Use aiokafka 0.8 and return the results."""
    import aiokafka
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    admin = AIOKafkaAdminClient(bootstrap_servers=options.bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(options.topic, num_partitions=2, replication_factor=1)])
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=options.bootstrap, enable_idempotence=True, compression_type="gzip"
    )
    await producer.start()
    for row in range(options.count):
        await producer.send(
            options.topic,
            key=b"%d" % row,
            value=b"%d" % row,
            headers=[("row", b"%d" % row)],
            timestamp_ms=options.timestamp_ms,
        )
    await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(
        options.topic,
        bootstrap_servers=options.bootstrap,
        group_id=options.topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    limit_s = READ_LIMIT_MS / 1000
    records = [await asyncio.wait_for(consumer.getone(), limit_s) for _ in range(options.count)]
    await consumer.commit()
    partitions = sorted(consumer.assignment())
    begin = await consumer.beginning_offsets(partitions)
    end = await consumer.end_offsets(partitions)
    by_time = await consumer.offsets_for_times(dict.fromkeys(partitions, options.timestamp_ms))
    offsets = await admin.list_consumer_group_offsets(options.topic)
    seen = {
        "release": aiokafka.__version__,
        "values": sorted(int(record.value) for record in records),
        "headers": sorted(int(dict(record.headers)["row"]) for record in records),
        "timestamps": sorted({record.timestamp for record in records}),
        "begin": sum(begin.values()),
        "end": sum(end.values()),
        "by_time": sum(found.offset for found in by_time.values()),
        "groups": [name for name, kind in await admin.list_consumer_groups() if kind == "consumer"],
        "state": [
            group[2]
            for response in await admin.describe_consumer_groups([options.topic])
            for group in response.groups
        ],
        "committed": sum(found.offset for found in offsets.values()),
    }
    await consumer.stop()
    await admin.close()
    return seen


def main() -> None:
    """Use one client and print the results."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.old_program", description=__doc__)
    parser.add_argument("--library", choices=["kafka-python", "aiokafka"], required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--timestamp-ms", type=int, required=True)
    options = parser.parse_args()
    use = kafka_python if options.library == "kafka-python" else aiokafka
    json.dump(use(options), sys.stdout)


if __name__ == "__main__":
    main()
