"""Seven sets of settings with which a Kafka is no less right: the checks must not say otherwise.

Our broker runs with them in virtual time as a part of `make test`; `make conformance
BROKERS=kafka` starts a Kafka with each.
"""

UNUSUAL_SETTINGS = {
    "no-delay": {"group.initial.rebalance.delay.ms": "0"},
    "delay-of-3-s": {"group.initial.rebalance.delay.ms": "3000"},
    "one-partition": {"offsets.topic.num.partitions": "1"},
    "small-groups": {"group.max.size": "3"},
    "no-consumer-groups": {"group.coordinator.rebalance.protocols": "classic"},
    "other-consumer-groups": {
        "group.consumer.assignment.interval.ms": "5000",
        "group.consumer.heartbeat.interval.ms": "6000",
        "group.consumer.session.timeout.ms": "50000",
    },
    "short-sessions-without-auto-creation": {
        "group.min.session.timeout.ms": "1",
        "group.max.session.timeout.ms": "30000",
        "auto.create.topics.enable": "false",
    },
}

# Settings of which checks once took Kafka's defaults for granted: those of topics, and limits.
OTHER_SETTINGS = {
    "other-topics": {
        "compression.type": "gzip",
        "delete.topic.enable": "false",
        "log.cleanup.policy": "compact",
        "log.message.timestamp.type": "LogAppendTime",
        "max.incremental.fetch.session.cache.slots": "1",
        "transaction.partition.verification.enable": "false",
    },
    "low-limits": {"connections.max.idle.ms": "2000", "transaction.max.timeout.ms": "20000"},
}
