"""The calls of Kafka's tools that `kafka_tools` compares, in order: later ones see earlier ones.

`{broker}` is the address of the broker; a call without it has `--bootstrap-server {broker}` after
the name of the tool. `{directory}` is that of the check, with the files that it prepares.
"""

from typing import NamedTuple

_TOOLS = "org.apache.kafka.tools"
_GROUP_TOOLS = f"{_TOOLS}.consumer"
# The classes that Kafka's scripts run.
CLASSES = {
    "client-compatibility-test": f"{_TOOLS}.ClientCompatibilityTest",
    "kafka-acls": f"{_TOOLS}.AclCommand",
    "kafka-broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
    "kafka-client-metrics": f"{_TOOLS}.ClientMetricsCommand",
    "kafka-cluster": f"{_TOOLS}.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": f"{_GROUP_TOOLS}.ConsoleConsumer",
    "kafka-console-producer": f"{_TOOLS}.ConsoleProducer",
    "kafka-console-share-consumer": f"{_GROUP_TOOLS}.ConsoleShareConsumer",
    "kafka-consumer-groups": f"{_GROUP_TOOLS}.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": f"{_TOOLS}.ConsumerPerformance",
    "kafka-delegation-tokens": f"{_TOOLS}.DelegationTokenCommand",
    "kafka-delete-records": f"{_TOOLS}.DeleteRecordsCommand",
    "kafka-e2e-latency": f"{_TOOLS}.EndToEndLatency",
    "kafka-features": f"{_TOOLS}.FeatureCommand",
    "kafka-get-offsets": f"{_TOOLS}.GetOffsetShell",
    "kafka-groups": f"{_TOOLS}.GroupsCommand",
    "kafka-leader-election": f"{_TOOLS}.LeaderElectionCommand",
    "kafka-log-dirs": f"{_TOOLS}.LogDirsCommand",
    "kafka-metadata-quorum": f"{_TOOLS}.MetadataQuorumCommand",
    "kafka-producer-perf-test": f"{_TOOLS}.ProducerPerformance",
    "kafka-reassign-partitions": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": f"{_TOOLS}.ReplicaVerificationTool",
    "kafka-share-consumer-perf-test": f"{_TOOLS}.ShareConsumerPerformance",
    "kafka-share-groups": f"{_GROUP_TOOLS}.group.ShareGroupCommand",
    "kafka-streams-application-reset": f"{_TOOLS}.StreamsResetter",
    "kafka-streams-groups": f"{_TOOLS}.streams.StreamsGroupCommand",
    "kafka-topics": f"{_TOOLS}.TopicCommand",
    "kafka-transactions": f"{_TOOLS}.TransactionsCommand",
    "kafka-verifiable-consumer": f"{_TOOLS}.VerifiableConsumer",
    "kafka-verifiable-producer": f"{_TOOLS}.VerifiableProducer",
    "transactional-message-copier": f"{_TOOLS}.TransactionalMessageCopier",
}


class Tool(NamedTuple):
    """A call of a tool.

    Attributes:
        call: the tool and its arguments.
        differs: a pattern of lines that are left out, because they differ for a reason.
        changes: patterns and what replaces them, for parts of lines that differ in every run.
        sorted: whether the order of the lines is left open.
        stdin: what the tool reads.
        shows: a pattern of what Kafka's run prints, where the lines would be equal without it, too.
        until: a pattern of what a tool prints, both times, before it is ended: it goes on for ever.
    """

    call: str
    differs: str = ""
    changes: tuple[tuple[str, str], ...] = ()
    sorted: bool = False
    stdin: str = ""
    shows: str = ""
    until: str = ""


# Features of APIs that are not served are not listed [features/served-only].
_NOT_SERVED = r"share\.version|streams\.version|kraft\.version"
# They are listed when they are used first, which the tools before may have done.
_INTERNAL = r"__consumer_offsets|__transaction_state|coterie\.journal"
TRACE = r"^\s*at |Caused by"
_FIGURES = ((r"\d+([.,]\d+)*", "<n>"),)

_TOPICS = [
    Tool("kafka-topics --create --topic orders --partitions 2"),
    Tool("kafka-topics --create --topic orders", differs=TRACE),
    Tool("kafka-topics --create --topic bills --config cleanup.policy=compact,delete"),
    Tool("kafka-topics --create --topic wrong --config retention.ms=soon", differs=TRACE),
    Tool("kafka-topics --alter --topic bills --partitions 3"),
    Tool("kafka-topics --alter --topic bills --partitions 2", differs=TRACE),
    Tool("kafka-topics --describe --topic orders"),
    Tool("kafka-topics --describe --topic bills"),
    Tool("kafka-topics --describe --topic nope", differs=TRACE),
    Tool("kafka-topics --describe --under-replicated-partitions"),
    Tool(
        "kafka-topics --describe --topics-with-overrides",
        differs=_INTERNAL,
        sorted=True,
    ),
    Tool("kafka-topics --delete --topic nope", differs=TRACE),
]
_RECORDS = [
    Tool(
        "kafka-producer-perf-test --topic orders --num-records 500 --record-size 100"
        " --throughput -1",
        changes=_FIGURES,
    ),
    Tool(
        "kafka-producer-perf-test --topic orders --num-records 200 --record-size 100"
        " --throughput -1 --transactional-id perf --transaction-duration-ms 20",
        changes=_FIGURES,
    ),
    Tool(
        "kafka-consumer-perf-test --topic orders --num-records 500 --group perf --date-format yyyy",
        changes=_FIGURES,
    ),
    Tool("kafka-e2e-latency {broker} latency 20 1 100", changes=_FIGURES),
    Tool("kafka-topics --create --topic words"),
    Tool(
        "kafka-console-producer --topic words --reader-property parse.key=true"
        " --reader-property key.separator=: --compression-codec zstd",
        stdin="a:one\nb:two\nc:three\n",
    ),
    Tool("kafka-console-producer --topic words --sync --request-required-acks 1", stdin="four\n"),
    Tool(
        "kafka-console-consumer --topic words --from-beginning --max-messages 4"
        " --formatter-property print.key=true --formatter-property print.offset=true"
        " --formatter-property print.partition=true --isolation-level read_committed"
    ),
    Tool(
        "kafka-console-consumer --topic words --partition 0 --offset 2 --max-messages 1"
        " --formatter-property print.timestamp=true"
    ),
    Tool(
        "kafka-console-consumer --topic words --group readers --from-beginning --max-messages 4"
        " --command-property enable.auto.commit=true"
    ),
    Tool("kafka-topics --create --topic verified"),
    Tool(
        "kafka-verifiable-producer --topic verified --max-messages 30 --acks -1"
        " --repeating-keys 3 --value-prefix 7",
        changes=((r'"avg_throughput":[\d.]+', '"avg_throughput":<n>'),),
    ),
    Tool(
        "kafka-verifiable-consumer --topic verified --group-id verifiers --max-messages 30"
        " --verbose --reset-policy earliest",
        # How many records one fetch has depends on time.
        differs=r"records_consumed|offsets_committed",
        sorted=True,
    ),
    Tool(
        "transactional-message-copier --broker-list {broker} --input-topic verified"
        " --input-partition 0 --output-topic copied --transactional-id copier"
        " --transaction-size 7 --consumer-group copiers --use-group-metadata"
        " --enable-random-aborts",
        differs=r'"stage"|totalProcessed|"remaining":"?[1-9]',
        changes=((r'"(consumed|remaining)":"?\d+"?', r'"\1":<n>'),),
        sorted=True,
    ),
    Tool(
        "kafka-console-consumer --topic copied --from-beginning --max-messages 30"
        " --isolation-level read_committed"
    ),
    Tool("kafka-get-offsets --topic-partitions orders:0 --time earliest", shows="orders:0:0"),
    Tool("kafka-get-offsets --topic-partitions verified:0 --time latest"),
    # The first record of the last millisecond, in which a busy machine writes more or fewer.
    Tool("kafka-get-offsets --topic verified --time max-timestamp", changes=((r"\d+$", "<n>"),)),
    Tool("kafka-get-offsets --topic verified --time 0"),
    Tool("kafka-get-offsets --topic verified --time earliest-local"),
    Tool("kafka-get-offsets --topic verified --time latest-tiered"),
    # The tool prints the partitions in the order of a map of Java's that differs from run to run.
    Tool("kafka-delete-records --offset-json-file {directory}/offsets.json", sorted=True),
    Tool("kafka-get-offsets --topic verified --time -2"),
    Tool(
        "client-compatibility-test --topic compatible --offsets-for-times-supported true"
        " --cluster-id-supported true --expect-record-too-large-exception false"
        " --num-cluster-nodes 1 --create-topics-supported true --describe-acls-supported true"
        " --describe-configs-supported true --idempotent-producer-supported true",
        shows="SUCCESS",
    ),
    Tool(
        "kafka-replica-verification --broker-list {broker} --topics-include words"
        " --report-interval-ms 500",
        until="max lag is 0",
        sorted=True,
    ),
]
_GROUPS = [
    Tool("kafka-groups --list", sorted=True, differs="perf-consumer"),
    Tool("kafka-groups --list --group-type classic --protocol consumer", sorted=True),
    Tool("kafka-groups --list --consumer", sorted=True),
    Tool("kafka-consumer-groups --list --state", sorted=True),
    Tool("kafka-consumer-groups --describe --group readers"),
    Tool("kafka-consumer-groups --describe --group readers --members --verbose"),
    Tool("kafka-consumer-groups --describe --group readers --state"),
    Tool("kafka-consumer-groups --describe --group copiers --offsets"),
    Tool("kafka-consumer-groups --describe --group nobody", differs=TRACE),
    Tool(
        "kafka-consumer-groups --reset-offsets --group readers --topic words --shift-by -2"
        " --execute"
    ),
    Tool("kafka-consumer-groups --delete-offsets --group readers --topic words"),
    Tool("kafka-consumer-groups --delete --group copiers"),
    Tool(
        "kafka-streams-application-reset --application-id readers --input-topics words"
        " --to-earliest --force"
    ),
    Tool("kafka-consumer-groups --describe --group readers --offsets"),
]
_TRANSACTIONS = [
    Tool("kafka-transactions list", sorted=True),
    Tool("kafka-transactions list --duration-filter 3600000", sorted=True),
    Tool("kafka-transactions list --transactional-id-pattern per.*"),
    Tool("kafka-transactions list --transactional-id-pattern ((", differs=TRACE),
    Tool(
        "kafka-transactions describe --transactional-id open",
        changes=((r"(\b\d{13}\s+)\d+", r"\1<n>"),),
    ),
    Tool("kafka-transactions describe --transactional-id nope", differs=TRACE),
    Tool("kafka-transactions describe-producers --topic open --partition 0"),
    Tool("kafka-transactions describe-producers --topic open --partition 0 --broker-id 1"),
    Tool("kafka-transactions find-hanging --broker-id 1 --max-transaction-timeout 0"),
    Tool("kafka-transactions find-hanging --topic hanging"),
    Tool(
        "kafka-transactions find-hanging --topic hanging --partition 0",
        changes=((r"\d+\s*$", "<n>"),),
    ),
    Tool("kafka-transactions abort --topic hanging --partition 0 --start-offset 0"),
    Tool("kafka-transactions abort --topic hanging --partition 0 --start-offset 0", differs=TRACE),
    Tool("kafka-transactions find-hanging --topic hanging --partition 0"),
    Tool(
        "kafka-transactions abort --topic hanging --partition 1 --producer-id 5001"
        " --producer-epoch 0 --coordinator-epoch 0"
    ),
    Tool("kafka-transactions describe-producers --topic hanging --partition 1"),
    Tool("kafka-transactions forceTerminateTransaction --transactionalId open"),
    Tool("kafka-transactions describe --transactional-id open"),
    Tool("kafka-transactions describe-producers --topic open --partition 0"),
    Tool("kafka-get-offsets --topic open --time latest"),
    Tool(
        "kafka-console-consumer --topic __transaction_state --from-beginning --timeout-ms 15000"
        f" --formatter {_GROUP_TOOLS}.TransactionLogMessageFormatter",
        differs="perf|copier|Processed a total|TimeoutException|" + TRACE,
        sorted=True,
        shows='"transactionalId":"open"',
    ),
    Tool(
        "kafka-console-consumer --topic __consumer_offsets --from-beginning --timeout-ms 15000"
        f" --formatter {_GROUP_TOOLS}.OffsetsMessageFormatter",
        differs="perf|copier|verifiers|Processed a total|TimeoutException|" + TRACE,
        sorted=True,
        shows='"group":"readers"',
    ),
]
_FEATURES = [
    Tool("kafka-features describe", differs=_NOT_SERVED, sorted=True),
    Tool("kafka-features version-mapping --release-version 4.0"),
    Tool("kafka-features upgrade --feature transaction.version=1", sorted=True),
    Tool("kafka-features downgrade --feature transaction.version=1 --dry-run", sorted=True),
    Tool("kafka-features downgrade --feature transaction.version=1", sorted=True),
    Tool("kafka-features upgrade --feature transaction.version=2", sorted=True),
    Tool("kafka-features disable --feature transaction.version", sorted=True),
    Tool("kafka-features upgrade --feature transaction.version=2", sorted=True),
    Tool("kafka-features upgrade --feature transaction.version=9", sorted=True),
    Tool("kafka-features upgrade --feature nonsense=1", sorted=True),
]
_CLUSTER = [
    Tool("kafka-log-dirs --describe --topic-list orders"),
    Tool("kafka-log-dirs --describe --broker-list 1 --topic-list nope,words"),
    Tool("kafka-log-dirs --describe --broker-list 7", differs=TRACE),
    Tool("kafka-metadata-quorum describe --status"),
    Tool("kafka-metadata-quorum describe --replication"),
    Tool("kafka-leader-election --election-type preferred --topic orders --partition 0"),
    Tool(
        "kafka-leader-election --election-type preferred --all-topic-partitions", differs=_INTERNAL
    ),
    Tool("kafka-leader-election --election-type unclean --path-to-json-file {directory}/plan.json"),
    Tool("kafka-leader-election --election-type unclean --topic nope --partition 0", differs=TRACE),
    Tool("kafka-reassign-partitions --verify --reassignment-json-file {directory}/plan.json"),
    Tool(
        "kafka-reassign-partitions --generate --broker-list 1"
        " --topics-to-move-json-file {directory}/topics.json"
    ),
    Tool("kafka-reassign-partitions --execute --reassignment-json-file {directory}/plan.json"),
    Tool(
        "kafka-reassign-partitions --execute --reassignment-json-file {directory}/elsewhere.json",
        differs=TRACE,
    ),
    Tool("kafka-reassign-partitions --list"),
    Tool("kafka-reassign-partitions --cancel --reassignment-json-file {directory}/plan.json"),
    Tool("kafka-cluster cluster-id --bootstrap-server {broker}"),
    Tool("kafka-cluster unregister --id 99 --bootstrap-server {broker}"),
    Tool(
        "kafka-cluster list-endpoints --bootstrap-server {broker}",
        changes=((r"(127\.0\.0\.1\s+)\d+", r"\1<port>"),),
    ),
    # Ours has DeleteGroups up to 3, and nothing for groups of other types.
    Tool(
        "kafka-broker-api-versions",
        differs=r": UNSUPPORTED|\((7[6-9]|8[3-9]|9[0-2])\)",
        changes=((r": [\d to]+ \[", ": ["), (r",$", "")),
    ),
]
_ALTER = "kafka-configs --alter"
_DESCRIBE = "kafka-configs --describe"
_ALTER_ORDERS = f"{_ALTER} --entity-type topics --entity-name orders"
_ALTER_LOGGERS = f"{_ALTER} --entity-type broker-loggers --entity-name 1"
_ALTER_GROUP = f"{_ALTER} --entity-type groups --entity-name g"
_ALTER_IP = f"{_ALTER} --entity-type ips --entity-name 10.0.0.1"
_CONFIGS = [
    Tool(f"{_ALTER_ORDERS} --add-config retention.ms=5000"),
    Tool(
        f"{_ALTER_ORDERS} --add-config retention.ms=x",
        differs=TRACE,
    ),
    Tool(f"{_ALTER_ORDERS} --add-config no.such=1", differs=TRACE),
    Tool(f"{_ALTER_ORDERS} --delete-config retention.ms"),
    Tool(f"{_ALTER_ORDERS} --add-config-file {{directory}}/add"),
    Tool(f"{_DESCRIBE} --entity-type topics --entity-name orders"),
    Tool(f"{_DESCRIBE} --entity-type topics --entity-name orders --all"),
    Tool(f"{_DESCRIBE} --entity-type topics --entity-name nope", differs=TRACE),
    Tool(
        f"{_ALTER} --entity-type brokers --entity-default --add-config log.retention.ms=600000000"
    ),
    Tool(f"{_ALTER} --entity-type brokers --entity-name 1 --add-config log.cleaner.threads=2"),
    Tool(f"{_ALTER} --entity-type brokers --entity-name 1 --add-config node.id=3", differs=TRACE),
    Tool(f"{_DESCRIBE} --entity-type brokers --entity-default"),
    Tool(f"{_DESCRIBE} --entity-type brokers --entity-name 1"),
    Tool(f"{_ALTER} --entity-type brokers --entity-default --delete-config log.retention.ms"),
    Tool(f"{_ALTER_LOGGERS} --add-config kafka.server.KafkaApis=DEBUG"),
    Tool(f"{_ALTER_LOGGERS} --delete-config kafka.server.KafkaApis"),
    Tool(
        f"{_ALTER_LOGGERS} --add-config no.such=LOUD",
        differs=TRACE,
    ),
    Tool(f"{_ALTER_GROUP} --add-config consumer.session.timeout.ms=50000"),
    Tool(f"{_DESCRIBE} --entity-type groups --entity-name g"),
    Tool(f"{_DESCRIBE} --entity-type groups", sorted=True),
    Tool(f"{_ALTER_GROUP} --delete-config consumer.session.timeout.ms"),
    Tool(f"{_ALTER} --entity-type client-metrics --entity-name m --add-config interval.ms=5000"),
    Tool(f"{_DESCRIBE} --entity-type client-metrics"),
    Tool(
        "kafka-client-metrics --alter --name n --metrics org.apache.kafka.producer."
        " --interval 9000 --match client_id=a"
    ),
    Tool("kafka-client-metrics --alter --name n --interval 5", differs=TRACE),
    Tool("kafka-client-metrics --describe --name n"),
    Tool("kafka-client-metrics --list", sorted=True),
    Tool("kafka-client-metrics --delete --name n"),
    Tool("kafka-client-metrics --describe"),
    Tool(f"{_ALTER} --entity-type users --entity-name alice --add-config producer_byte_rate=1000"),
    Tool(
        f"{_ALTER} --entity-type users --entity-name alice --entity-type clients --entity-default"
        " --add-config consumer_byte_rate=2000,request_percentage=50"
    ),
    Tool(f"{_DESCRIBE} --entity-type users", sorted=True),
    Tool(f"{_DESCRIBE} --entity-type users --entity-name alice --entity-type clients", sorted=True),
    Tool(f"{_DESCRIBE} --entity-type clients", sorted=True),
    Tool(f"{_ALTER} --entity-type users --entity-name alice --delete-config producer_byte_rate"),
    Tool(f"{_ALTER} --entity-type clients --entity-default --add-config nonsense=1", differs=TRACE),
    Tool(f"{_ALTER_IP} --add-config connection_creation_rate=5"),
    Tool(f"{_DESCRIBE} --entity-type ips"),
    Tool(f"{_ALTER_IP} --delete-config connection_creation_rate"),
]
# What needs security, or groups of other types.
_REFUSED = [
    Tool("kafka-acls --list", differs=TRACE),
    Tool(
        "kafka-acls --add --allow-principal User:a --topic orders --operation Read", differs=TRACE
    ),
    Tool("kafka-acls --remove --topic orders --force", differs=TRACE),
    Tool("kafka-delegation-tokens --describe", differs=TRACE),
    Tool("kafka-delegation-tokens --create --max-life-time-period -1", differs=TRACE),
    Tool("kafka-share-groups --list"),
    Tool("kafka-share-groups --describe --group s", differs=TRACE),
    Tool(
        "kafka-console-share-consumer --topic words --group s --timeout-ms 3000",
        differs=rf"{TRACE}|ERROR Error processing message",
    ),
    Tool("kafka-share-groups --reset-offsets --group s --topic words --to-earliest --execute"),
    Tool("kafka-share-groups --describe --group s"),
    Tool("kafka-share-groups --delete-offsets --group s --topic words"),
    Tool("kafka-share-groups --delete --group s"),
    Tool("kafka-streams-groups --list"),
    Tool("kafka-streams-groups --describe --group s", differs=TRACE),
    Tool("kafka-topics --delete --topic words"),
    Tool("kafka-topics --list", differs=_INTERNAL),
]
CALLS = [
    *_TOPICS, *_RECORDS, *_GROUPS, *_TRANSACTIONS, *_FEATURES, *_CLUSTER, *_CONFIGS, *_REFUSED
]  # fmt: skip
