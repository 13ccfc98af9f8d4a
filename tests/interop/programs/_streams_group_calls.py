"""The calls of Kafka's tools for streams groups (KIP-1071), compared last by `kafka_tools`.

The group `streamers` has one member, which reads the topic `lines` of two partitions, with a
committed offset. Its session is longer than the calls of one list take.
"""

from tests.interop.programs._tool_calls import TRACE, Tool

_GROUPS = "kafka-streams-groups"
_STREAMERS = f"{_GROUPS} --describe --group streamers"
_ALTER = "kafka-configs --alter --entity-type groups --entity-name streamers"

LIVING_CALLS = [
    Tool(f"{_GROUPS} --list", sorted=True, shows="streamers"),
    Tool(f"{_GROUPS} --list --state", sorted=True, shows="Stable"),
    Tool(f"{_GROUPS} --list --state stable", sorted=True, shows="streamers"),
    Tool(f"{_GROUPS} --list --state NotReady", sorted=True),
    Tool("kafka-groups --list --streams", sorted=True, shows="streamers"),
    Tool(_STREAMERS, shows="lines"),
    Tool(f"{_STREAMERS} --verbose", shows="LEADER-EPOCH"),
    Tool(f"{_STREAMERS} --members", shows="ASSIGNMENTS"),
    Tool(f"{_STREAMERS} --members --verbose", shows="TARGET"),
    Tool(f"{_STREAMERS} --state", shows="Stable"),
    Tool(f"{_STREAMERS} --state --verbose", shows="TARGET-ASSIGNMENT-EPOCH"),
    Tool(f"{_GROUPS} --delete --group streamers", differs=TRACE, shows="streamers"),
    Tool(
        f"{_GROUPS} --reset-offsets --group streamers --input-topic lines --to-earliest --dry-run",
        differs=TRACE,
    ),
    Tool(
        f"{_GROUPS} --delete-offsets --group streamers --input-topic lines",
        differs=TRACE,
    ),
]
EMPTY_CALLS = [
    Tool(f"{_STREAMERS} --members", differs=TRACE),
    Tool(f"{_STREAMERS} --state --verbose", shows="Empty"),
    Tool(_STREAMERS),
    Tool(
        f"{_GROUPS} --reset-offsets --group streamers --input-topic lines --to-latest --execute",
        sorted=True,
        shows="streamers",
    ),
    Tool(f"{_GROUPS} --delete-offsets --group streamers --input-topic lines", sorted=True),
    Tool(f"{_GROUPS} --describe --group absent", differs=TRACE),
    Tool(f"{_ALTER} --add-config streams.num.standby.replicas=2"),
    Tool(f"{_ALTER} --add-config streams.num.standby.replicas=3", differs=TRACE),
    Tool(f"{_ALTER} --add-config streams.session.timeout.ms=1", differs=TRACE),
    Tool("kafka-configs --describe --entity-type groups --entity-name streamers"),
    Tool("kafka-configs --describe --entity-type groups --entity-name streamers --all"),
    Tool(f"{_GROUPS} --delete --group streamers", sorted=True, shows="streamers"),
    Tool(f"{_GROUPS} --list"),
]
