"""Uses kafka-python 1.4: `python -m tests.live.message_set_program BOOTSTRAP TOPIC`.

It produces and reads on in a group twice, and prints what it has seen as one JSON object.
"""

import json
import sys

import kafka

COUNT = 3


def main(bootstrap: str, topic: str) -> None:
    """Produce, read in a group, commit; again with compression and as another member."""
    seen: dict[str, object] = {"release": kafka.__version__}
    for codec in (None, "gzip"):
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, compression_type=codec, acks="all", retries=3
        )
        sent = [producer.send(topic, key=b"k", value=b"%d" % row) for row in range(COUNT)]
        offsets = [each.get(timeout=30).offset for each in sent]
        version = producer.config["api_version"]
        producer.close()
        consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=30_000,
        )
        records = [next(consumer) for _ in range(COUNT)]
        consumer.commit()
        partition = kafka.TopicPartition(topic, 0)
        seen[str(codec)] = {
            "version": version,
            "produced": offsets,
            "read": [[each.offset, int(each.value)] for each in records],
            "committed": consumer.committed(partition),
            "end": consumer.end_offsets([partition])[partition],
        }
        consumer.close()
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
