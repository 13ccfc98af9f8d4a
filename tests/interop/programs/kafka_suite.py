"""Kafka's own integration tests, unmodified, against brokers of ours.

The jars of Kafka's tests start brokers in their own process. Four classes of ours stand in for
those that do so (`java/suites`), and start `coterie serve` instead; what a test asks of the objects
inside a broker is answered through the admin client where that is possible. Each test gets as many
brokers as it declares, in one process. A test that cannot pass for a reason that is known is
counted with its reason; any other failure is one of this program.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from coterie.lab.live.parts import Part, compile_java, jars_of, java_command
from tests.interop import commanded_brokers
from tests.interop.model import Failed, Skipped, Surroundings

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
)
_TESTS = Part(
    f"kafka-tests-{_VERSION}",
    (
        *(f"org.apache.kafka:{name}:{_VERSION}" for name in _WITH_TESTS),
        *(f"org.apache.kafka:{name}:{_VERSION}:test" for name in _WITH_TESTS),
        f"org.apache.kafka:kafka-clients-integration-tests:{_VERSION}:test",
        f"org.apache.kafka:kafka-test-common-runtime:{_VERSION}",
        f"org.apache.kafka:kafka-test-common-internal-api:{_VERSION}",
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
# It takes half an hour alone, and much longer on a loaded machine.
_LIMIT_S = 7200.0
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
    " consumer.SaslPlainPlaintextConsumerTest admin.DescribeAuthorizedOperationsTest"
    " security.GroupAuthorizerIntegrationTest"
)
_API = (
    "PlaintextProducerSendTest PlaintextConsumerAssignorsTest TransactionsTest"
    " AuthorizerIntegrationTest SslConsumerTest"
    " SaslClientsWithInvalidCredentialsTest"
)
_SERVER = (
    "AddPartitionsToTxnRequestServerTest ConsumerGroupDescribeRequestTest"
    " ConsumerGroupHeartbeatRequestTest ConsumerProtocolMigrationTest"
    " DeleteGroupsRequestTest DeleteTopicsRequestTest"
    " DescribeGroupsRequestTest EdgeCaseRequestTest FetchRequestTest HeartbeatRequestTest"
    " JoinGroupRequestTest LeaveGroupRequestTest ListGroupsRequestTest OffsetCommitRequestTest"
    " OffsetDeleteRequestTest OffsetFetchRequestTest ProduceRequestTest SyncGroupRequestTest"
    " TxnOffsetCommitRequestTest WriteTxnMarkersRequestTest SaslApiVersionsRequestTest"
)
# Tests of share groups and Streams groups, which this broker does not announce.
_LEFT_OUT = ".*(Share|Streams).*"
_FEWER_APIS = "no groups of other types"
# KAFKA-20915: now and then, if no record comes within the 500 ms of a Fetch.
_EMPTY_FETCH = "the consumer of 4.3.1 does not notice an empty Fetch"
# Its first callback comes before it knows the topic, now and then: with Kafka once in 40 runs.
_EMPTY_ASSIGNMENT = "the consumer of 4.3.1 may begin with an assignment without partitions"
# It does not wait until the topic is there; Kafka has not created it when the test looks.
_AWAITED_ABSENCE = "waits that a topic is missing which it has just created"
# What a failure says, and why the test cannot pass here.
_REASONS = {
    "looks inside the broker": "looks inside the broker",
    "Classes of Java cannot be loaded": "assignors in Java",
    "no class is loaded": "callback handlers in Java",
}
# Tests that cannot pass for a reason of their own, by class and the beginning of the method. Kafka
# may end a Fetch with the beginning of a batch [log/reads].
_KNOWN = {
    # They send requests of share groups.
    "AuthorizerIntegrationTest.testAuthorizationWithTopicExisting": _FEWER_APIS,
    "AuthorizerIntegrationTest.testAuthorizationWithTopicNotExisting": _FEWER_APIS,
    "FetchRequestTest.testBrokerRespectsPartitionsOrderAndSizeLimits": "no part of a batch",
    "PlaintextConsumerTest.testAsyncConsumerCloseLeavesGroupOnInterrupt": _EMPTY_ASSIGNMENT,
    "PlaintextConsumerTest.testAsyncConsumerStallBetweenPoll": _EMPTY_FETCH,
    "SaslApiVersionsRequestTest.testApiVersionsRequestBefore": _FEWER_APIS,
    "SaslApiVersionsRequestTest.testApiVersionsRequestWith": _FEWER_APIS,
    "ProduceRequestTest.testCorruptLz4ProduceRequest": "looks inside the broker",
    "ProducerFailureHandlingTest.testCannotSendToInternalTopic": _AWAITED_ABSENCE,
}


class _Result(NamedTuple):
    """What a test has come to: "pass", "skip", a known reason, or what went wrong."""

    name: str
    outcome: str
    is_known: bool


def run(around: Surroundings) -> None:
    """Run the tests; fail if one fails for a reason that is not known."""
    if not around.owns_broker:
        raise Skipped("the tests start brokers of their own")
    jars = jars_of(_TESTS, around.note)
    sources = sorted(_SOURCES.rglob("*.java"))
    classes = compile_java(jars, sources, around.directory / "classes")
    quiet = "status=off\nrootLogger.level=off\n"
    (classes / "log4j2-test.properties").write_text(quiet, encoding="utf-8")
    brokers, reports = around.directory / "brokers", around.directory / "reports"
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
    command = java_command(
        jars, "outside.Run", _arguments(reports), heap_mb=900, options=options, classes=[classes]
    )
    child = around.children.start("kafka-suite", command)
    child.process.wait(_LIMIT_S)
    results = [_judge(case) for case in _cases(reports)]
    if not results:
        raise Failed(f"JUnit has not come to an end:\n{child.last_lines()}")
    wrong = [each for each in results if not each.is_known]
    if wrong:
        shown = "".join(f"\n{each.name}: {each.outcome}" for each in wrong)
        raise Failed(f"{len(wrong)} of {len(results)} tests fail:{shown}")
    counts = Counter(each.outcome for each in results)
    around.note(", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))


def _arguments(reports: Path) -> list[str]:
    chosen = [
        *(f"org.apache.kafka.clients.{name}" for name in _CLIENTS.split()),
        *(f"kafka.api.{name}" for name in _API.split()),
        *(f"kafka.server.{name}" for name in _SERVER.split()),
    ]
    return [
        "execute",
        "--disable-banner",
        "--disable-ansi-colors",
        "--details=testfeed",
        f"--reports-dir={reports}",
        "--include-classname=.*",
        f"--exclude-methodname={_LEFT_OUT}",
        "--config=junit.jupiter.execution.timeout.testable.method.default=90s",
        "--config=junit.jupiter.execution.timeout.thread.mode.default=SEPARATE_THREAD",
        "--config=junit.jupiter.extensions.autodetection.enabled=true",
        *(f"--select-class={name}" for name in chosen),
    ]


def _cases(reports: Path) -> Iterator[ElementTree.Element]:
    for report in reports.glob("TEST-*.xml"):
        yield from ElementTree.parse(report).iter("testcase")


def _judge(case: ElementTree.Element) -> _Result:
    """Return what a test has come to."""
    name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name', '')}"
    if case.find("skipped") is not None:
        return _Result(name, "skipped", is_known=True)
    found = next((each for each in case if each.tag in ("failure", "error")), None)
    if found is None:
        return _Result(name, "passed", is_known=True)
    text = f"{found.get('message', '')}\n{found.text or ''}"
    for known, reason in _KNOWN.items():
        if name.startswith(known):
            return _Result(name, f"not possible ({reason})", is_known=True)
    for sign, reason in _REASONS.items():
        if sign in text:
            return _Result(name, f"not possible ({reason})", is_known=True)
    return _Result(name, re.sub(r"\s+", " ", text)[:300], is_known=False)
