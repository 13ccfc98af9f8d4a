"""The calls of Kafka's tools for consumer groups (KIP-848), which `kafka_tools` compares last.

The group `living` has one member, which owns both partitions of the topic `lines` with its three
records.
"""

from tests.interop.programs._tool_calls import TRACE, Tool

_CONSUMER = "--command-property group.protocol=consumer"
_GROUPS = "kafka-consumer-groups"
_LIVING = f"{_GROUPS} --describe --group living"
_ALTER = "kafka-configs --alter --entity-type groups --entity-name living"
_CONSUME = "kafka-console-consumer --from-beginning --timeout-ms 30000 --max-messages 3"
# Member ids of librdkafka are base64, with `+` and `/`, and those of Java are not.
_MEMBER = ((r"[A-Za-z0-9_+/-]{22}(?=\s)", "<member>"),)

GROUP_CALLS = [
    Tool(f"{_CONSUME} --topic lines --group modern {_CONSUMER}", sorted=True),
    Tool(f"{_CONSUME} --include lin.* --group matching {_CONSUMER}", sorted=True, shows="three"),
    Tool(
        f"{_CONSUME} --topic lines --group ranged {_CONSUMER}"
        " --command-property group.remote.assignor=range",
        sorted=True,
    ),
    # Two threads of the consumer report the error, in either order, with Kafka too.
    Tool(
        f"{_CONSUME} --topic lines --group wrong {_CONSUMER}"
        " --command-property group.remote.assignor=nonsense",
        differs=TRACE,
        sorted=True,
        shows="nonsense",
    ),
    Tool(
        "kafka-verifiable-consumer --topic lines --group-id modern-verifiers --max-messages 3"
        " --verbose --reset-policy earliest --group-protocol consumer",
        differs=r"records_consumed|offsets_committed",
        sorted=True,
        shows="record_data",
    ),
    Tool("kafka-groups --list --group-type consumer", sorted=True, shows="living"),
    Tool("kafka-groups --list --consumer", sorted=True, differs="perf-consumer"),
    Tool(f"{_GROUPS} --list --type consumer", sorted=True, shows="modern"),
    Tool(f"{_GROUPS} --list --state stable --type", sorted=True, shows="living"),
    Tool(f"{_GROUPS} --list --state empty --type consumer", sorted=True, shows="modern"),
    Tool(_LIVING, changes=_MEMBER),
    Tool(f"{_LIVING} --offsets --verbose", changes=_MEMBER),
    Tool(f"{_LIVING} --members", changes=_MEMBER, shows="living"),
    Tool(f"{_LIVING} --members --verbose", changes=_MEMBER, shows="TARGET-ASSIGNMENT"),
    Tool(f"{_LIVING} --state", shows="Stable"),
    Tool(f"{_LIVING} --state --verbose", shows="TARGET-ASSIGNMENT-EPOCH"),
    Tool(f"{_GROUPS} --describe --group modern --state --verbose", shows="Empty"),
    Tool(f"{_GROUPS} --describe --group modern --offsets"),
    Tool(f"{_GROUPS} --delete --group living", differs=TRACE, shows="NonEmpty|not empty"),
    Tool(f"{_GROUPS} --delete-offsets --group living --topic lines", differs=TRACE),
    Tool(
        f"{_GROUPS} --reset-offsets --group living --topic lines --to-earliest --execute",
        differs=TRACE,
    ),
    Tool(f"{_GROUPS} --reset-offsets --group modern --topic lines --to-earliest --execute"),
    Tool(f"{_ALTER} --add-config consumer.heartbeat.interval.ms=6000"),
    Tool(f"{_ALTER} --add-config consumer.session.timeout.ms=1", differs=TRACE),
    Tool(f"{_ALTER} --add-config consumer.heartbeat.interval.ms=100000", differs=TRACE),
    Tool("kafka-configs --describe --entity-type groups --entity-name living"),
    Tool("kafka-configs --describe --entity-type groups --entity-name living --all"),
    Tool(f"{_ALTER} --delete-config consumer.heartbeat.interval.ms"),
    Tool("kafka-features downgrade --feature group.version=0", sorted=True, shows="downgraded"),
    Tool(
        f"{_CONSUME} --topic lines --group modern {_CONSUMER}",
        differs=TRACE,
        shows="CONSUMER group protocol",
    ),
    Tool(f"{_GROUPS} --describe --group modern --state", differs=TRACE),
    Tool(f"{_GROUPS} --list --type consumer", sorted=True, shows="modern"),
    Tool(f"{_GROUPS} --delete --group modern --group ranged", sorted=True),
    Tool("kafka-features upgrade --feature group.version=1", sorted=True),
]
