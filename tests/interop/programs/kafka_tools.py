"""Kafka's administration tools print the same lines about a broker of ours as about Kafka's.

Every tool runs against both. Ids, addresses, paths, times and sizes differ and are replaced; of
the lines that differ for a reason, the reason is written here.
"""

import json
import re
from typing import NamedTuple

from tests.interop.kafka_node import KafkaNode
from tests.interop.model import Failed, Surroundings

_TOOLS = "org.apache.kafka.tools"


class Tool(NamedTuple):
    """A call of a tool.

    Attributes:
        main: the class.
        arguments: those after the address of the broker; `{directory}` is that of the check.
        differs: a pattern of lines that are left out, because they differ for a reason.
        sorted: whether the order of the lines is left open.
    """

    main: str
    arguments: str
    differs: str = ""
    sorted: bool = False


# Features of APIs that are not served are not listed [features/served-only].
_NOT_SERVED = r"group\.version|share\.version|streams\.version|kraft\.version"
# They are listed when they are used first, which the tools before may have done.
_INTERNAL = r"__consumer_offsets|__transaction_state"

CALLS = [
    Tool(f"{_TOOLS}.TopicCommand", "--create --topic orders --partitions 2"),
    Tool(f"{_TOOLS}.TopicCommand", "--describe --topic orders"),
    Tool(
        f"{_TOOLS}.ProducerPerformance",
        "--topic orders --num-records 500 --record-size 100 --throughput -1",
        differs=r"records sent",
    ),
    Tool(f"{_TOOLS}.GetOffsetShell", "--topic orders:0 --time earliest"),
    Tool(f"{_TOOLS}.FeatureCommand", "describe", differs=_NOT_SERVED, sorted=True),
    Tool(f"{_TOOLS}.FeatureCommand", "upgrade --feature transaction.version=1", sorted=True),
    Tool(f"{_TOOLS}.FeatureCommand", "downgrade --feature transaction.version=1", sorted=True),
    Tool(f"{_TOOLS}.FeatureCommand", "upgrade --feature transaction.version=2", sorted=True),
    Tool(f"{_TOOLS}.FeatureCommand", "upgrade --feature nonsense=1", sorted=True),
    Tool(f"{_TOOLS}.LogDirsCommand", "--describe --topic-list orders"),
    Tool(f"{_TOOLS}.MetadataQuorumCommand", "describe --status"),
    Tool(f"{_TOOLS}.MetadataQuorumCommand", "describe --replication"),
    Tool(
        f"{_TOOLS}.LeaderElectionCommand",
        "--election-type preferred --topic orders --partition 0",
    ),
    Tool(
        f"{_TOOLS}.LeaderElectionCommand",
        "--election-type unclean --topic nope --partition 0",
        differs=r"^\tat |Caused by",
    ),
    Tool(
        f"{_TOOLS}.reassign.ReassignPartitionsCommand",
        "--verify --reassignment-json-file {directory}/plan.json",
    ),
    Tool(f"{_TOOLS}.ClusterTool", "cluster-id"),
    Tool(f"{_TOOLS}.ClusterTool", "unregister --id 99"),
    Tool(
        "kafka.admin.ConfigCommand",
        "--alter --entity-type users --entity-name alice --add-config producer_byte_rate=1000",
    ),
    Tool(
        "kafka.admin.ConfigCommand",
        "--alter --entity-type users --entity-name alice --entity-type clients --entity-default"
        " --add-config consumer_byte_rate=2000,request_percentage=50",
    ),
    Tool("kafka.admin.ConfigCommand", "--describe --entity-type users", sorted=True),
    Tool("kafka.admin.ConfigCommand", "--describe --entity-type clients", sorted=True),
    Tool(
        "kafka.admin.ConfigCommand",
        "--alter --entity-type users --entity-name alice --delete-config producer_byte_rate",
    ),
    Tool(
        "kafka.admin.ConfigCommand",
        "--alter --entity-type ips --entity-name 10.0.0.1 --add-config connection_creation_rate=5",
    ),
    Tool("kafka.admin.ConfigCommand", "--describe --entity-type ips"),
    Tool("kafka.admin.ConfigCommand", "--describe --entity-type topics --entity-name orders"),
    Tool(f"{_TOOLS}.AclCommand", "--list", differs=r"^\tat "),
    Tool(f"{_TOOLS}.DelegationTokenCommand", "--describe", differs=r"^\tat "),
    Tool(f"{_TOOLS}.DeleteRecordsCommand", "--offset-json-file {directory}/offsets.json"),
    Tool(f"{_TOOLS}.GetOffsetShell", "--topic orders:0 --time earliest"),
    Tool(f"{_TOOLS}.TransactionsCommand", "list"),
    Tool(f"{_TOOLS}.TopicCommand", "--list", differs=_INTERNAL),
]


def run(around: Surroundings) -> None:
    """Run every tool against both brokers and compare what they print."""
    kafka = KafkaNode(around)
    kafka.start()
    partition = {"topic": "orders", "partition": 0}
    plan = {"version": 1, "partitions": [{**partition, "replicas": [1]}]}
    (around.directory / "plan.json").write_text(json.dumps(plan))
    offsets = {"version": 1, "partitions": [{**partition, "offset": 0}]}
    (around.directory / "offsets.json").write_text(json.dumps(offsets))
    differences = []
    for call in CALLS:
        expected = _lines(around, kafka, call, kafka.bootstrap)
        found = _lines(around, kafka, call, around.bootstrap)
        if found != expected:
            differences += [f"{call.main} {call.arguments}"]
            differences += [f"  Kafka {line}" for line in expected if line not in found]
            differences += [f"  ours  {line}" for line in found if line not in expected]
    if differences:
        raise Failed("\n".join(("tools print other lines:", *differences)))
    around.note(f"{len(CALLS)} calls of tools print the same lines")


def _lines(around: Surroundings, kafka: KafkaNode, call: Tool, address: str) -> list[str]:
    first, *others = call.arguments.format(directory=around.directory).split()
    broker = ("--bootstrap-server", address)
    # kafka-cluster has its command before the address.
    command = (
        (first, *broker, *others)
        if call.main.endswith("ClusterTool")
        else (*broker, first, *others)
    )
    printed = kafka.run(call.main, *command).splitlines()
    lines = [_normal(line, address, around.directory) for line in printed]
    kept = [line for line in lines if line and not (call.differs and re.search(call.differs, line))]
    return sorted(kept) if call.sorted else kept


_VARYING = (
    # Kafka keeps it as a default of the cluster [settings/differences].
    (r"min\.insync\.replicas=1\b", ""),
    (r"\b[A-Za-z0-9_-]{22}\b", "<id>"),
    (r"\[?\d{4}-\d\d-\d\d[ T][\d:,.+-]+\]?", "<time>"),
    (r'"(logDir|size|clusterId)":("[^"]*"|\d+)', r'"\1":<>'),
    (r"(LeaderEpoch|HighWatermark|MaxFollowerLag\w*|Epoch):\s+-?\d+", r"\1: <n>"),
    (r"\b\d{13}\b", "<ms>"),
    # The listener of controllers is ours, and the end of the log of metadata.
    (r'"endpoints": \[[^\]]*\]', '"endpoints": <>'),
    (r"(<id>\s+)\d+", r"\1<n>"),
    (r"\s+", " "),
)


def _normal(line: str, address: str, directory: object) -> str:
    """Return a line without what differs between any two brokers."""
    text = line.replace(address, "<broker>").replace(str(directory), "<directory>")
    for pattern, replacement in _VARYING:
        text = re.sub(pattern, replacement, text)
    return text.strip()
