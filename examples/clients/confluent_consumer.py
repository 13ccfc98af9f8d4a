"""A consumer for `coterie check-client`, with confluent-kafka (librdkafka)."""

import argparse
import signal
import time

import confluent_kafka


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("group")
    parser.add_argument("--assignor", default="range")
    parser.add_argument("--instance-id", default="")
    parser.add_argument("--regex", default="")
    parser.add_argument("--security", default="PLAINTEXT")
    parser.add_argument("--mechanism", default="SCRAM-SHA-512")
    parser.add_argument("--username", default="")
    parser.add_argument("--password", default="")
    parser.add_argument("--ca", default="")
    parser.add_argument("--protocol", choices=("classic", "consumer"), default="classic")
    options = parser.parse_args()
    config = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.group,
        "auto.offset.reset": "earliest",
        "group.protocol": options.protocol,
    }
    if options.protocol == "classic":
        config["partition.assignment.strategy"] = options.assignor
    if options.instance_id:
        config["group.instance.id"] = options.instance_id
    if options.security != "PLAINTEXT":
        config |= {
            "security.protocol": options.security,
            "sasl.mechanism": options.mechanism,
            "sasl.username": options.username,
            "sasl.password": options.password,
        }
    if options.ca:
        config["ssl.ca.location"] = options.ca
    consumer = confluent_kafka.Consumer(config)
    # librdkafka takes a name that begins with ^ for a regular expression.
    consumer.subscribe([f"^{options.regex}" if options.regex else options.topic])
    running = True

    def stop(*_: object) -> None:
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    while running:
        record = consumer.poll(0.2)
        if record is None or record.error():
            continue
        value = (record.value() or b"").decode()
        if value.startswith("sleep "):
            time.sleep(float(value.split()[1]))
        print(record.topic(), record.partition(), record.offset(), value, flush=True)
    consumer.close()


if __name__ == "__main__":
    main()
