"""The cases of `configs.py`: requests about settings, in the order in which they are sent."""

import re
from collections.abc import Iterator
from typing import NamedTuple

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

# Differences that are listed in docs/spec/settings.md, or that the two start with.
KNOWN = [
    re.compile(pattern)
    for pattern in (
        # Our own settings, and those that are given at the start.
        r"/(journal|event\.loop|telemetry\.announce)\.",
        r"/(listeners|advertised\.listeners|log\.dirs?|node\.id|broker\.id|process\.roles)/",
        r"/(controller\.[a-z.]+|listener\.security\.protocol\.map|cluster\.id)/",
        r"/(offsets\.topic|transaction\.state\.log)\.[a-z.]+/",
        r"/(inter\.broker\.listener\.name|share\.coordinator\.state\.topic[a-z.]+)/",
        r"/(num\.partitions|group\.initial\.rebalance\.delay\.ms|auto\.create\.topics\.enable)/",
        r"/(max\.connections|max\.connections\.per\.ip|log\.cleaner\.dedupe\.buffer\.size)/",
    )
]

Changes = list[tuple[str, int, str | None]]


class Describe(NamedTuple):
    """A DescribeConfigs of resources: type, name, keys."""

    resources: list[tuple[int, str, list[str] | None]]
    synonyms: bool = True
    documentation: bool = True
    version: int = 4


class Alter(NamedTuple):
    """An IncrementalAlterConfigs of resources: type, name, changes."""

    resources: list[tuple[int, str, Changes]]
    only: bool = False


class Replace(NamedTuple):
    """An AlterConfigs of resources: type, name, values."""

    resources: list[tuple[int, str, list[tuple[str, str | None]]]]
    only: bool = False


class Create(NamedTuple):
    """A CreateTopics of one topic with settings."""

    name: str
    configs: list[tuple[str, str | None]]
    only: bool = True


class ListResources(NamedTuple):
    """A ListConfigResources of which only some names matter."""

    types: tuple[int, ...]
    named: tuple[str, ...]
    version: int = 1


Case = Describe | Alter | Replace | Create | ListResources

# For each topic setting: values on both sides of its limits, and of the wrong type.
_TOPIC_VALUES: dict[str, tuple[str, ...]] = {
    "cleanup.policy": ("", "compact", "delete,compact", "delete,delete", "keep", ",", "none"),
    "compression.type": ("gzip", "GZIP", "none", "uncompressed", "producer", ""),
    "compression.gzip.level": ("-1", "0", "1", "9", "10", "x"),
    "compression.lz4.level": ("0", "1", "17", "18", "-1"),
    "compression.zstd.level": ("-131072", "-131073", "22", "23", "0"),
    "delete.retention.ms": ("-1", "0", "9223372036854775807", "9223372036854775808"),
    "file.delete.delay.ms": ("-1", "0", "1.5"),
    "flush.messages": ("0", "1", "-1"),
    "flush.ms": ("-1", "0"),
    "follower.replication.throttled.replicas": ("*", "", "0:1", "0:1,1:1", "x", "0", "*,0:1"),
    "leader.replication.throttled.replicas": ("*", "", "0:1", "a:b", "0:1:2", " * "),
    "index.interval.bytes": ("-1", "0", "2147483648"),
    "local.retention.bytes": ("-3", "-2", "-1", "5"),
    "local.retention.ms": ("-3", "-2", "-1", "5"),
    "max.compaction.lag.ms": ("0", "1"),
    "max.message.bytes": ("-1", "0", " 7 ", "+7", "0x7"),
    "message.timestamp.after.max.ms": ("-1", "0"),
    "message.timestamp.before.max.ms": ("-1", "0"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime", "createtime", ""),
    "min.cleanable.dirty.ratio": ("-0.1", "0", "1", "2", "1e-3", "nan", "x"),
    "min.compaction.lag.ms": ("-1", "0", "5"),
    "min.insync.replicas": ("0", "1", "2"),
    "preallocate": ("true", "TRUE", "yes", ""),
    "remote.log.copy.disable": ("true", "false"),
    "remote.log.delete.on.disable": ("true", "false"),
    "remote.storage.enable": ("true", "false", "x"),
    "retention.bytes": ("-5", "-1", "0", "x"),
    "retention.ms": ("-2", "-1", "0", "5"),
    "segment.bytes": ("1048575", "1048576", "2147483647"),
    "internal.segment.bytes": ("-1", "0", "500", "2147483648", "x"),
    "segment.index.bytes": ("3", "4"),
    "segment.jitter.ms": ("-1", "0"),
    "segment.ms": ("0", "1"),
    "unclean.leader.election.enable": ("true", "maybe"),
    "nope": ("1",),
}

_GROUP_VALUES: dict[str, tuple[str | None, ...]] = {
    "consumer.assignment.interval.ms": ("-1", "0", "1000", "15000", "15001", "x"),
    "consumer.heartbeat.interval.ms": ("4999", "5000", "15000", "15001", "x"),
    "consumer.session.timeout.ms": ("44999", "45000", "60000", "60001", "1", ""),
    "share.assignment.interval.ms": ("-1", "0", "15001"),
    "share.auto.offset.reset": ("earliest", "latest", "none", "by_duration:PT1H", "by_duration:x"),
    "share.delivery.count.limit": ("1", "2", "5", "10", "11"),
    "share.heartbeat.interval.ms": ("4999", "5000", "15001"),
    "share.isolation.level": ("read_committed", "read_uncommitted", "READ_COMMITTED", "x"),
    "share.partition.max.record.locks": ("99", "100", "10000", "10001"),
    "share.record.lock.duration.ms": ("999", "14999", "15000", "60000", "60001"),
    "share.renew.acknowledge.enable": ("false", "no"),
    "share.session.timeout.ms": ("44999", "45000", "60001"),
    "streams.assignment.interval.ms": ("-1", "0", "15001"),
    "streams.heartbeat.interval.ms": ("4999", "5000", "15001"),
    "streams.initial.rebalance.delay.ms": ("-1", "0"),
    "streams.num.standby.replicas": ("-1", "0", "2", "3"),
    "streams.session.timeout.ms": ("44999", "45000", "60001"),
    "foo": ("1", None),
}

_METRICS_VALUES: dict[str, tuple[str | None, ...]] = {
    "interval.ms": ("99", "100", "3600000", "3600001", "x", "", None),
    "metrics": ("", "a", "a,b", "*", "a,,b", "org.apache.kafka.producer.,org.x", "A b"),
    "match": (
        "",
        "client_id=a",
        "zz=1",
        "client_id",
        "client_id=[a",
        "client_id=a,client_software_name=b.*",
        "client_instance_id=x,client_software_version=1",
        "client_source_address=1,client_source_port=2",
        "client_id=a=b",
        " client_id = a ",
        "client_id=a,client_id=b",
        ",",
    ),
    "foo": ("1",),
}


def cases() -> Iterator[Case]:
    """Return all cases in order."""
    yield Create("t", [], only=False)
    yield from _described_resources()
    yield from _topics()
    yield from _brokers()
    yield from _loggers()
    yield from _groups()
    yield from _client_metrics()
    yield from _lists()


def _described_resources() -> Iterator[Case]:
    yield Describe([(TOPIC, "t", None)])
    yield Describe([(TOPIC, "t", None)], synonyms=False, documentation=False)
    yield Describe([(TOPIC, "t", [])])
    yield Describe([(TOPIC, "t", ["retention.ms", "nope", "retention.ms"])])
    yield Describe([(BROKER, "1", None)])
    yield Describe([(BROKER, "", None)])
    yield Describe([(BROKER, "1", ["log.retention.ms", "nope"])], version=1)
    for kind, name in [
        (TOPIC, ""),
        (TOPIC, "absent"),
        (TOPIC, "a b"),
        (TOPIC, ".."),
        (TOPIC, "x" * 250),
        (BROKER, "9"),
        (BROKER, "x"),
        (BROKER, " 1"),
        (BROKER, "01"),
        (BROKER, "+1"),
        (LOGGER, ""),
        (LOGGER, "x"),
        (LOGGER, "9"),
        (METRICS, ""),
        (GROUP, ""),
        (3, "x"),
        (0, ""),
        (127, "x"),
    ]:
        yield Describe([(kind, name, None)])
    yield Describe([(TOPIC, "t", ["retention.ms"]), (3, "x", None)])
    yield Describe([(TOPIC, "t", ["retention.ms"]), (TOPIC, "t", ["retention.ms"])])
    yield Describe([(TOPIC, "t", ["retention.ms"]), (TOPIC, "t", ["segment.ms"])])
    yield Describe([])


def _topics() -> Iterator[Case]:
    for name, values in _TOPIC_VALUES.items():
        for value in values:
            yield Alter([(TOPIC, "t", [(name, SET, value)])], only=True)
            yield Create("u", [(name, value)])
            yield Replace([(TOPIC, "t", [(name, value)])], only=True)
            yield Alter([(TOPIC, "t", [(name, SET, value)])])
            yield Describe([(TOPIC, "t", [name])])
            yield Alter([(TOPIC, "t", [(name, DELETE, None)])])
    low, high = "min.compaction.lag.ms", "max.compaction.lag.ms"
    yield Alter([(TOPIC, "t", [(low, SET, "100"), (high, SET, "50")])])
    yield Alter([(TOPIC, "t", [(low, SET, "100")])])
    yield Alter([(TOPIC, "t", [(high, SET, "50")])])
    yield Alter([(TOPIC, "t", [(low, DELETE, None)])])
    yield Create("u", [("retention.ms", None)])
    yield Create("u", [("retention.ms", "1"), ("retention.ms", "2")])
    yield Create("u", [("nope", None), ("retention.ms", "1")])
    for operation in (APPEND, SUBTRACT):
        for name, value in (
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "keep"),
            ("retention.ms", "5"),
            ("nope", "5"),
            ("leader.replication.throttled.replicas", "0:1"),
        ):
            yield Alter([(TOPIC, "t", [(name, operation, value)])])
            yield Describe([(TOPIC, "t", ["cleanup.policy"])])
    keep: list[tuple[str, Changes]] = [
        ("t", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]),
        ("t", [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)]),
        ("t", [("retention.ms", SET, None)]),
        ("t", [("retention.ms", APPEND, None)]),
        ("t", [("retention.ms", DELETE, "5")]),
        ("t", [("nope", DELETE, None)]),
        ("t", [("retention.ms", 9, "5")]),
        ("t", [("retention.ms", -1, "5")]),
        ("t", [("", SET, "5")]),
        ("t", []),
        ("absent", [("retention.ms", SET, "1")]),
        ("a b", [("retention.ms", SET, "1")]),
        ("", [("retention.ms", SET, "1")]),
        ("__consumer_offsets", [("retention.ms", SET, "1")]),
    ]
    for topic, changes in keep:
        yield Alter([(TOPIC, topic, changes)])
        replaced = [(name, value) for name, _, value in changes]
        yield Replace([(TOPIC, topic, replaced)], only=True)
    yield Alter([(TOPIC, "t", [("retention.ms", SET, "1")]), (TOPIC, "t", [])])
    yield Alter([(TOPIC, "t", [("retention.ms", SET, "1")]), (TOPIC, "absent", [])])
    yield Replace([(TOPIC, "t", [("retention.ms", "9")])])
    yield Describe([(TOPIC, "t", None)])
    yield Replace([(TOPIC, "t", [])])
    yield Describe([(TOPIC, "t", None)])


def _brokers() -> Iterator[Case]:
    for name in ("1", ""):
        for setting, values in {
            "log.retention.ms": ("abc", "5", "-1", "-2", ""),
            "log.cleaner.threads": ("2",),
            "min.insync.replicas": ("0", "2"),
            "message.max.bytes": ("7", "-1"),
            "num.partitions": ("3",),
            "max.connections": ("5", "-1"),
            "max.connections.per.ip": ("5", "-1"),
            "max.connections.per.ip.overrides": ("127.0.0.1:5",),
            "max.connection.creation.rate": ("5", "-1"),
            "producer.id.expiration.ms": ("100", "0"),
            "transaction.partition.verification.enable": ("false", "x"),
            "group.consumer.assignment.interval.ms": ("0", "-1"),
            "compression.gzip.level": ("0", "5"),
            "compression.type": ("zip", "gzip"),
            "log.flush.interval.messages": ("0", "5"),
            "log.cleanup.policy": ("compact", "x"),
            "log.segment.bytes": ("5", "1048576"),
            "foo.bar": ("5",),
            "node.id": ("1",),
            "listener.name.foo.ssl.keystore.location": ("/x",),
            "ssl.keystore.location": ("/x",),
            "cordoned.log.dirs": ("*",),
            "log.message.timestamp.type": ("x", "LogAppendTime"),
            "unclean.leader.election.enable": ("true",),
            "remote.log.manager.copy.max.bytes.per.second": ("0", "5"),
        }.items():
            for value in values:
                yield Alter([(BROKER, name, [(setting, SET, value)])], only=True)
                yield Alter([(BROKER, name, [(setting, SET, value)])])
                yield Describe([(BROKER, name, [setting]), (TOPIC, "t", None)])
                yield Alter([(BROKER, name, [(setting, DELETE, None)])])
    cases_of_names: list[tuple[str, Changes]] = [
        ("2", [("log.retention.ms", SET, "1")]),
        ("x", [("log.retention.ms", SET, "1")]),
        ("1", [("log.retention.ms", 9, "1")]),
        ("1", [("log.retention.ms", APPEND, "1")]),
        ("", [("log.retention.ms", SUBTRACT, "1")]),
        ("1", [("nope", APPEND, "1")]),
        ("1", [("log.retention.ms", SET, None)]),
        ("1", [("log.retention.ms", SET, "1"), ("log.retention.ms", SET, "2")]),
        ("1", [("nope", DELETE, None), ("num.partitions", DELETE, None)]),
        ("1", [("log.cleanup.policy", APPEND, "compact")]),
        ("1", [("log.cleanup.policy", SUBTRACT, "delete")]),
        ("1", [("log.cleanup.policy", DELETE, None)]),
        ("1", [("", SET, "1")]),
        ("1", []),
    ]
    for name, changes in cases_of_names:
        yield Alter([(BROKER, name, changes)])
        if name:
            replaced = [(each, value) for each, _, value in changes]
            yield Replace([(BROKER, name, replaced)], only=True)
    yield Alter([(BROKER, "1", [("nope", SET, "1")])])
    yield Describe([(BROKER, "1", ["nope"])])
    yield Replace([(BROKER, "1", [("log.retention.ms", "77")])])
    yield Describe([(BROKER, "1", ["nope", "log.retention.ms"]), (TOPIC, "t", ["retention.ms"])])
    yield Alter([(BROKER, "", [("log.retention.ms", SET, "78")])])
    yield Describe([(BROKER, "", None), (BROKER, "1", ["log.retention.ms"])])
    yield Replace([(BROKER, "1", [])])
    yield Describe([(BROKER, "1", ["log.retention.ms"]), (TOPIC, "t", ["retention.ms"])])
    yield Alter([(BROKER, "", [("log.retention.ms", DELETE, None)])])
    yield from _kept_for_the_cluster()
    yield Alter([(BROKER, "1", []), (BROKER, "1", [])])
    yield Alter([(3, "1", []), (BROKER, "1", [])])
    yield Replace([(3, "1", []), (8, "1", [])])


def _kept_for_the_cluster() -> Iterator[Case]:
    kept, other = "min.insync.replicas", "log.retention.ms"
    alterations: list[Changes] = [
        [(kept, SET, "2"), (other, SET, "5")],
        [(kept, SET, "2"), (other, SET, "x")],
        [(kept, SET, "2"), (other, APPEND, "5")],
        [(kept, DELETE, None), ("node.id", SET, "5")],
        [(kept, APPEND, "2")],
    ]
    for changes in alterations:
        yield Alter([(BROKER, "1", changes)])
        yield Alter([(BROKER, "", changes)])
    replacements: list[list[tuple[str, str | None]]] = [
        [],
        [(other, "5")],
        [(kept, "3")],
        [(kept, "1"), (other, "5")],
    ]
    for name in ("1", ""):
        for values in replacements:
            yield Replace([(BROKER, name, values)])
            yield Describe([(BROKER, "1", [kept]), (BROKER, "", None)])
            yield Describe([(TOPIC, "t", [kept])])
    yield Alter([(BROKER, "", [(kept, SET, "1"), (other, DELETE, None)])])


def _loggers() -> Iterator[Case]:
    root = ["root"]
    of_root: list[Changes] = [
        [("root", SET, "DEBUG")],
        [("root", SET, "debug")],
        [("root", SET, "TRACE")],
        [("root", SET, "FATAL")],
        [("root", SET, "WARN")],
        [("root", SET, "LOUD")],
        [("root", SET, "OFF")],
        [("root", SET, "")],
        [("root", SET, None)],
        [("root", DELETE, None)],
        [("root", APPEND, "DEBUG")],
        [("root", SUBTRACT, "DEBUG")],
        [("root", 9, "DEBUG")],
        [("kafka.nope", SET, "DEBUG")],
        [("kafka.nope", DELETE, None)],
        [("root", SET, "INFO"), ("root", SET, "DEBUG")],
        [("root", SET, "INFO"), ("kafka.nope", SET, "DEBUG")],
        [("", SET, "INFO")],
        [],
        [("root", SET, "INFO")],
    ]
    for changes in of_root:
        yield Alter([(LOGGER, "1", changes)], only=True)
        yield Alter([(LOGGER, "1", changes)])
        yield Describe([(LOGGER, "1", root)])
    yield Alter([(LOGGER, "7", [("root", SET, "INFO")])])
    yield Alter([(LOGGER, "x", [("root", SET, "INFO")])])
    yield Alter([(LOGGER, "", [("root", SET, "INFO")])])
    yield Alter([(LOGGER, "1", []), (LOGGER, "1", [])])
    yield Replace([(LOGGER, "1", [("root", "INFO")])])
    # Loggers that both have.
    for name in ("kafka.server.KafkaApis", "kafka.network.SocketServer", "kafka.log.LogManager"):
        yield Describe([(LOGGER, "1", [name])])
        yield Alter([(LOGGER, "1", [(name, SET, "ERROR")])])
        yield Describe([(LOGGER, "1", [name, "root"])])
        yield Alter([(LOGGER, "1", [("root", SET, "DEBUG")])])
        yield Describe([(LOGGER, "1", [name, "root"])])
        yield Alter([(LOGGER, "1", [(name, DELETE, None)])])
        yield Describe([(LOGGER, "1", [name, "root"])])
        yield Alter([(LOGGER, "1", [("root", SET, "INFO")])])
        yield Describe([(LOGGER, "1", [name])])


def _of_kind(kind: int, resource: str, values: dict[str, tuple[str | None, ...]]) -> Iterator[Case]:
    for name, texts in values.items():
        for text in texts:
            yield Alter([(kind, resource, [(name, SET, text)])], only=True)
            yield Replace([(kind, resource, [(name, text)])], only=True)
            yield Alter([(kind, resource, [(name, SET, text)])])
            yield Describe([(kind, resource, [name])])
            yield ListResources((kind,), (resource,))
            yield Alter([(kind, resource, [(name, DELETE, None)])])
            yield ListResources((kind,), (resource,))
    first, second = list(values)[:2]
    good = {"interval.ms": "200", "metrics": "a", "consumer.assignment.interval.ms": "0"}
    value = good.get(first, "1")
    alterations: list[Changes] = [
        [(first, SET, value), (first, DELETE, None)],
        [(first, APPEND, value)],
        [(second, APPEND, "b")],
        [(second, APPEND, "c")],
        [(second, SUBTRACT, "b")],
        [("foo", APPEND, "b")],
        [("foo", DELETE, None)],
        [(first, 9, value)],
        [(first, SET, value), ("foo", SET, "1")],
        [],
    ]
    for changes in alterations:
        yield Alter([(kind, resource, changes)])
        yield Describe([(kind, resource, None)])
    yield Alter([(kind, "", [(first, SET, value)])])
    yield Replace([(kind, "", [(first, value)])])
    yield Alter([(kind, resource, []), (kind, resource, [])])
    yield Replace([(kind, resource, [(first, value)])])
    yield Describe([(kind, resource, None)])
    yield ListResources((kind,), (resource,))
    yield Replace([(kind, resource, [])])
    yield Describe([(kind, resource, None)])
    yield ListResources((kind,), (resource,))


def _groups() -> Iterator[Case]:
    yield Describe([(GROUP, "g", None)])
    yield from _of_kind(GROUP, "g", _GROUP_VALUES)
    low, high = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
    yield Alter([(GROUP, "g", [(low, SET, "15000"), (high, SET, "45000")])])
    yield Describe([(GROUP, "g", None), (GROUP, "other", [low])])
    yield Alter([(BROKER, "1", [("group.consumer.assignment.interval.ms", SET, "50")])])
    yield Describe([(GROUP, "g", ["consumer.assignment.interval.ms"])])
    yield Alter([(BROKER, "1", [("group.consumer.assignment.interval.ms", DELETE, None)])])
    yield Alter([(GROUP, "a b/c", [(low, SET, "5000")])])
    yield ListResources((GROUP,), ("g", "a b/c", "other"))


def _client_metrics() -> Iterator[Case]:
    yield from _of_kind(METRICS, "m", _METRICS_VALUES)
    yield Alter([(METRICS, "m", [("interval.ms", SET, "500"), ("metrics", SET, "x")])])
    yield Describe([(METRICS, "m", None)])
    yield Alter([(METRICS, "a b/c", [("interval.ms", SET, "500")])])


def _lists() -> Iterator[Case]:
    named = ("1", "t", "g", "m", "a b/c")
    for types in ((), (2,), (4,), (8,), (16,), (32,), (2, 4), (3,), (2, 3), (0,), (2, 2)):
        yield ListResources(types, named)
    yield ListResources((), named, version=0)
