"""Kafka's own integration tests, unmodified, against brokers of ours.

The jars of Kafka's tests start brokers in their own process. Classes of ours stand in for those
that do so (`java/suites`), and start `coterie serve` instead; what a test asks of the objects
inside a broker is answered through the admin client where that is possible. Four tests of share
consumers count renewals in the broker's own metrics; that line alone is left out. Each test gets
as many brokers as it declares, in one process. A test that cannot pass for a reason that is known
is counted with its reason; any other failure is one of this program.

The parts of the program are the classes, by their names with or without the package: each runs in
a process of its own.
"""

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import click

from coterie.lab.live.parts import Part, compile_java, jars_of, java_command
from tests.interop import commanded_brokers
from tests.interop.kept_reports import outcomes_of
from tests.interop.model import Failed, Skipped, Surroundings
from tests.interop.suites import Outcome, judge

_VERSION = "4.3.1"
_WITH_TESTS = (
    "kafka-clients",
    "kafka_2.13",
    "kafka-server",
    "kafka-server-common",
    "kafka-group-coordinator",
    "kafka-transaction-coordinator",
    "kafka-storage",
    "kafka-metadata",
    "kafka-raft",
    "kafka-tools",
    "connect-runtime",
    "connect-mirror",
)
_TESTS = Part(
    f"kafka-tests-{_VERSION}",
    (
        *(f"org.apache.kafka:{name}:{_VERSION}" for name in _WITH_TESTS),
        *(f"org.apache.kafka:{name}:{_VERSION}:test" for name in _WITH_TESTS),
        f"org.apache.kafka:kafka-clients-integration-tests:{_VERSION}:test",
        f"org.apache.kafka:kafka-streams-integration-tests:{_VERSION}:test",
        f"org.apache.kafka:kafka-test-common-runtime:{_VERSION}",
        f"org.apache.kafka:kafka-test-common-internal-api:{_VERSION}",
        f"org.apache.kafka:kafka-streams:{_VERSION}",
        f"org.apache.kafka:kafka-streams:{_VERSION}:test",
        "org.junit.jupiter:junit-jupiter:5.13.2",
        "org.junit.platform:junit-platform-console:1.13.2",
        "org.mockito:mockito-core:5.20.0",
        "org.mockito:mockito-junit-jupiter:5.20.0",
        "org.hamcrest:hamcrest:3.0",
        "net.bytebuddy:byte-buddy-agent:1.17.7",
        "org.bitbucket.b_c:jose4j:0.9.6",
        # It makes the certificates of tests with TLS.
        "org.bouncycastle:bcpkix-jdk18on:1.80",
        # The base of tests with logins names classes of it, also without Kerberos.
        "org.apache.directory.server:apacheds-protocol-kerberos:2.0.0-M24",
        "org.apache.logging.log4j:log4j-core:2.25.3",
        "org.apache.logging.log4j:log4j-core-test:2.25.3",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",
    ),
)
_SOURCES = Path(__file__).parent / "java" / "suites"
# Our broker, where the listener says who a client is.
_NAMED = Path(__file__).with_name("_principals_by_listener.py")
# The longest class takes ten minutes alone, and much longer on a loaded machine.
_LIMIT_S = 3600.0
_SHOWN_CHARACTERS = 300
_CLIENTS = (
    "TransactionsExpirationTest TransactionsWithMaxInFlightOneTest"
    " producer.ProducerIdExpirationTest producer.ProducerFailureHandlingTest"
    " producer.ProducerCompressionTest producer.ProducerSendWhileDeletionTest"
    " producer.ProducerIntegrationTest"
    " admin.AdminFenceProducersTest"
    " consumer.PlaintextConsumerAssignTest consumer.PlaintextConsumerCallbackTest"
    " consumer.PlaintextConsumerCommitTest consumer.PlaintextConsumerFetchTest"
    " consumer.PlaintextConsumerPollTest consumer.PlaintextConsumerSubscriptionTest"
    " consumer.PlaintextConsumerTest consumer.ConsumerIntegrationTest"
    " consumer.ConsumerBounceTest consumer.ConsumerTopicCreationTest"
    " consumer.PlaintextConsumerCloseTest"
    " admin.DynamicGroupConfigIntegrationTest admin.ListOffsetsIntegrationTest"
    " ClientRebootstrapTest"
    " consumer.SaslPlainPlaintextConsumerTest admin.DescribeAuthorizedOperationsTest"
    " security.GroupAuthorizerIntegrationTest"
    " consumer.ShareConsumerTest consumer.ShareConsumerRackAwareTest"
)
_API = (
    "PlaintextProducerSendTest PlaintextConsumerAssignorsTest TransactionsTest"
    " AuthorizerIntegrationTest SslConsumerTest TransactionsBounceTest PlaintextConsumerTest"
    " GroupCoordinatorIntegrationTest SaslClientsWithInvalidCredentialsTest"
)
_SERVER = (
    "AddPartitionsToTxnRequestServerTest ConsumerGroupDescribeRequestTest"
    " ConsumerGroupHeartbeatRequestTest ConsumerProtocolMigrationTest"
    " DeleteGroupsRequestTest DeleteTopicsRequestTest"
    " DescribeGroupsRequestTest EdgeCaseRequestTest FetchRequestTest HeartbeatRequestTest"
    " JoinGroupRequestTest LeaveGroupRequestTest ListGroupsRequestTest ListOffsetsRequestTest"
    " OffsetCommitRequestTest OffsetsForLeaderEpochRequestTest"
    " OffsetDeleteRequestTest OffsetFetchRequestTest ProduceRequestTest SyncGroupRequestTest"
    " TxnOffsetCommitRequestTest WriteTxnMarkersRequestTest SaslApiVersionsRequestTest"
    " StreamsGroupHeartbeatRequestTest StreamsGroupDescribeRequestTest"
    " ShareGroupHeartbeatRequestTest ShareGroupDescribeRequestTest ShareFetchAcknowledgeRequestTest"
    " ShareGroupHeartbeatRequestTest$WithAssignmentBatchingDisabledTest"
)
_TOOLS = (
    "consumer.ConsoleConsumerTest consumer.group.DescribeConsumerGroupTest"
    " consumer.group.ListConsumerGroupTest consumer.group.DeleteConsumerGroupsTest"
    " consumer.group.ResetConsumerGroupOffsetTest"
    " consumer.group.DeleteOffsetsConsumerGroupCommandIntegrationTest"
    " GetOffsetShellTest streams.ListStreamsGroupTest streams.DescribeStreamsGroupTest"
    " streams.DeleteStreamsGroupTest streams.DeleteStreamsGroupOffsetTest"
    " streams.ResetStreamsGroupOffsetTest"
)
# Integration tests of Kafka Streams, those that are about groups, internal topics, transactions,
# and what is read back after a start.
_STREAMS = (
    "RebalanceProtocolMigrationIntegrationTest StandbyTaskCreationIntegrationTest"
    " InternalTopicIntegrationTest HandlingSourceTopicDeletionIntegrationTest"
    " JoinWithIncompleteMetadataIntegrationTest IQv2EndpointToPartitionsIntegrationTest"
    " PurgeRepartitionTopicIntegrationTest FineGrainedAutoResetIntegrationTest"
    " KafkaStreamsCloseOptionsIntegrationTest DeadLetterQueueIntegrationTest"
    " SwallowUnknownTopicErrorIntegrationTest AtLeastOnceDeliveryMessageLossIntegrationTest"
    " RebalanceTaskClosureIntegrationTest RegexSourceIntegrationTest"
    " ResetPartitionTimeIntegrationTest TaskMetadataIntegrationTest GlobalKTableEOSIntegrationTest"
    " StandbyTaskEOSIntegrationTest SmokeTestDriverIntegrationTest EosIntegrationTest"
    " EOSUncleanShutdownIntegrationTest StandbyTaskEOSMultiRebalanceIntegrationTest"
    " LagFetchIntegrationTest SuppressionDurabilityIntegrationTest OptimizedKTableIntegrationTest"
    " KTableSourceTopicRestartIntegrationTest EmitOnChangeIntegrationTest"
    " PositionRestartIntegrationTest RestoreIntegrationTest"
)
# Workers of Connect, sources that write transactions, and MirrorMaker between two clusters.
_CONNECT = (
    "integration.ConnectWorkerIntegrationTest integration.ExactlyOnceSourceIntegrationTest"
    " mirror.integration.MirrorConnectorsIntegrationTransactionsTest"
)
# Kafka's test clusters offer InitProducerId version 6.
_UNSTABLE = "no versions of APIs that are not stable yet"
_NO_TIERS = "no tiered storage"
# KAFKA-20915: now and then, if no record comes within the 500 ms of a Fetch.
_EMPTY_FETCH = "the consumer of 4.3.1 does not notice an empty Fetch"
# Its first callback comes before it knows the topic, now and then: with Kafka once in 40 runs.
_EMPTY_ASSIGNMENT = "the consumer of 4.3.1 may begin with an assignment without partitions"
# It does not wait until the topic is there; Kafka has not created it when the test looks.
_AWAITED_ABSENCE = "waits that a topic is missing which it has just created"
# It takes the time from after the Fetch whose wait of 500 ms it expects to see.
_SHORT_WAIT = "measures less than it waits for on a loaded machine"
# What a failure says, and why the test cannot pass here.
_REASONS = {
    "looks inside the broker": "looks inside the broker",
    "Classes of Java cannot be loaded": "assignors in Java",
    "no class is loaded": "callback handlers in Java",
}
# Tests that cannot pass for a reason of their own, by class and the beginning of the method. Kafka
# may end a Fetch with the beginning of a batch [log/reads].
_KNOWN = {
    "StreamsGroupHeartbeatRequestTest.testStreamsGroupHeartbeatIsInaccessibleWhenOffsetTopic": (
        "the topic of offsets is always there"
    ),
    # It takes the name of the first listener as given, which ours choose themselves.
    "ExactlyOnceSourceIntegrationTest.testTasksFailOnInabilityToFence": "chooses the listeners",
    # The broker that leads without having been in sync has the record, too, unless a test cuts it.
    "ClientRebootstrapTest.testProducerRebootstrap(": "no loss at an unclean election",
    "FetchRequestTest.testBrokerRespectsPartitionsOrderAndSizeLimits": "no part of a batch",
    # Their topics have remote.storage.enable, with which ours creates none.
    "GetOffsetShellTest.testGetOffsetsByEarliestLocalSpec": _NO_TIERS,
    "GetOffsetShellTest.testGetOffsetsByEarliestTieredSpec": _NO_TIERS,
    "GetOffsetShellTest.testGetOffsetsByLatestTieredSpec": _NO_TIERS,
    "PlaintextConsumerCloseTest.testClassicConsumerCloseWithDefault": _SHORT_WAIT,
    "PlaintextConsumerTest.testAsyncConsumerCloseLeavesGroupOnInterrupt": _EMPTY_ASSIGNMENT,
    "PlaintextConsumerTest.testAsyncConsumerStallBetweenPoll": _EMPTY_FETCH,
    "SaslApiVersionsRequestTest.testApiVersionsRequestBefore": _UNSTABLE,
    "SaslApiVersionsRequestTest.testApiVersionsRequestWith": _UNSTABLE,
    "ProduceRequestTest.testCorruptLz4ProduceRequest": "looks inside the broker",
    "ProducerFailureHandlingTest.testCannotSendToInternalTopic": _AWAITED_ABSENCE,
}


def run(around: Surroundings) -> None:
    """Run the classes of tests; fail if a test fails for a reason that is not known."""
    if not around.owns_broker:
        raise Skipped("the tests start brokers of their own")
    jars = jars_of(_TESTS, around.note)
    sources = sorted(_SOURCES.rglob("*.java"))
    classes = compile_java(jars, sources, around.directory / "classes")
    # Nothing is printed; some tests look for a warning of the client's.
    quiet = "status=off\nrootLogger.level=warn\n"
    (classes / "log4j2-test.properties").write_text(quiet, encoding="utf-8")
    kept = around.parts.kept or around.directory / "reports"
    found: list[Outcome] = []
    earlier = 0
    for name in _chosen(around.parts.only):
        execute = partial(_execute, around, jars, classes, name)
        outcomes, was_kept = outcomes_of(name, kept, execute, lambda each: bool(_reason(each)))
        click.echo(_line(name, outcomes, was_kept=was_kept), err=True)
        found += outcomes
        earlier += was_kept
    if earlier:
        around.note(f"{earlier} classes have run before")
    explained = {each.test: _reason(each) for each in found if _reason(each)}
    shown = [each._replace(text=each.text[:_SHOWN_CHARACTERS]) for each in found]
    judge(around, f"Kafka {_VERSION}", shown, explained)


def _chosen(only: Sequence[str]) -> list[str]:
    """Return the classes that are wanted, with their packages."""
    names = [
        *(f"kafka.server.{name}" for name in _SERVER.split()),
        *(f"kafka.api.{name}" for name in _API.split()),
        *(f"org.apache.kafka.tools.{name}" for name in _TOOLS.split()),
        *(f"org.apache.kafka.clients.{name}" for name in _CLIENTS.split()),
        *(f"org.apache.kafka.streams.integration.{name}" for name in _STREAMS.split()),
        *(f"org.apache.kafka.connect.{name}" for name in _CONNECT.split()),
    ]
    chosen = [
        name for name in names if not only or any(_is_named(name, pattern) for pattern in only)
    ]
    if not chosen:
        raise Failed(f"no class has a name like {' '.join(only)}")
    return chosen


def _is_named(name: str, pattern: str) -> bool:
    return fnmatch(name, pattern) or fnmatch(name.rpartition(".")[2], pattern)


def _execute(around: Surroundings, jars: Path, classes: Path, name: str, report: Path) -> str:
    """Run a class, with its report in a directory; return the last lines that it printed."""
    # A short path, for the sockets in it.
    brokers = around.directory / "brokers"
    brokers.mkdir()
    options = [
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:+EnableDynamicAgentLoading",
        f"-Doutside.command={Path(sys.executable).with_name('coterie')}",
        f"-Doutside.named={sys.executable}:{_NAMED}",
        f"-Doutside.several={sys.executable}:{commanded_brokers.__file__}",
        f"-Doutside.directory={brokers}",
    ]
    arguments = [
        "execute",
        "--disable-banner",
        "--disable-ansi-colors",
        "--details=testfeed",
        f"--reports-dir={report}",
        "--include-classname=.*",
        "--config=junit.jupiter.execution.timeout.testable.method.default=90s",
        "--config=junit.jupiter.execution.timeout.thread.mode.default=SEPARATE_THREAD",
        "--config=junit.jupiter.extensions.autodetection.enabled=true",
        f"--select-class={name}",
    ]
    command = java_command(
        jars, "outside.Run", arguments, heap_mb=900, options=options, classes=[classes]
    )
    child = around.children.start(name, command)
    try:
        child.process.wait(_LIMIT_S)
    except subprocess.TimeoutExpired:
        child.kill()
    shutil.rmtree(brokers)
    return child.last_lines()


def _line(name: str, outcomes: Sequence[Outcome], *, was_kept: bool) -> str:
    """Return a line about the tests of a class."""
    counts = Counter(_reason(each) or each.result for each in outcomes)
    shown = ", ".join(f"{number} {what}" for what, number in counts.most_common())
    return f"{name}: {shown}{' (has run before)' if was_kept else ''}"


def _reason(outcome: Outcome) -> str:
    """Return why a test cannot pass; "" if no reason is known, or it has passed."""
    if outcome.result != "fail":
        return ""
    for known, reason in _KNOWN.items():
        if outcome.test.startswith(known):
            return reason
    return next((reason for sign, reason in _REASONS.items() if sign in outcome.text), "")
