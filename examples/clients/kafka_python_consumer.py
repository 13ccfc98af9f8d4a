"""A consumer for `coterie check-client`, with kafka-python."""

import argparse
import signal
import sys
import time

import kafka
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
try:
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    ASSIGNORS["sticky"] = StickyPartitionAssignor
except ImportError:
    pass


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
    if options.assignor not in ASSIGNORS:
        sys.exit(f"kafka-python {kafka.__version__} has no assignor {options.assignor}")
    more = {}
    if options.instance_id:
        more["group_instance_id"] = options.instance_id
    if options.security != "PLAINTEXT":
        more |= {
            "security_protocol": options.security,
            "sasl_mechanism": options.mechanism,
            "sasl_plain_username": options.username,
            "sasl_plain_password": options.password,
        }
    if options.ca:
        more["ssl_cafile"] = options.ca
    consumer = kafka.KafkaConsumer(
        options.topic,
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[ASSIGNORS[options.assignor]],
        **more,
    )
    running = True

    def stop(*_: object) -> None:
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    while running:
        for records in consumer.poll(timeout_ms=200).values():
            for record in records:
                value = record.value.decode()
                if value.startswith("sleep "):
                    time.sleep(float(value.split()[1]))
                print(record.topic, record.partition, record.offset, value, flush=True)
    consumer.close()


if __name__ == "__main__":
    main()
