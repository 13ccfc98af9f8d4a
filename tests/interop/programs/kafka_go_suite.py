"""The tests of kafka-go pass, with a listener for SASL and an authorizer as in its own environment.

They name the ports of the broker, so it has a network of its own.
"""

from coterie.security.jaas import PLAIN_MODULE
from tests.interop.go_suites import build_tests, outcomes, package_directory
from tests.interop.model import Skipped, Surroundings
from tests.interop.own_network import beside, broker_command, start_alone
from tests.interop.suites import built, judge, run_test

_MODULE = "github.com/segmentio/kafka-go"
_VERSION = "v0.4.51"
_PACKAGES = {"kafka": _MODULE, "sasl": f"{_MODULE}/sasl"}
_LIMIT_S = 1500.0
_USERS = f'{PLAIN_MODULE} required user_adminplain="admin-secret";'
# As in its docker-compose-400.yml.
_CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092,SASL_PLAINTEXT://localhost:9093",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": _USERS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS;User:adminscram256;User:adminscram512;User:adminplain",
    "message.max.bytes": "200000000",
}
_SCRAM_USERS = (
    "SCRAM-SHA-256=[name=adminscram256,password=admin-secret-256]",
    "SCRAM-SHA-512=[name=adminscram512,password=admin-secret-512]",
)
# These parts end the program with a nil pointer of the test, whatever the broker, and the last one
# waits for records in vain, with Kafka, too.
_LEFT_OUT = (
    "TestReaderConsumerGroup/"
    "(verify_offset_committed|consumer_group_commits_on_close|consumer_group_rebalance$)"
)
_EXPLAINED = {"TestReaderReadCompactedMessage": "segments of 200 bytes, which Kafka 4 refuses"}


def run(around: Surroundings) -> None:
    """Build the tests and run them."""
    if not around.owns_broker:
        raise Skipped("the tests name the ports of their broker")
    folder = built(
        f"kafka-go-{_VERSION}", lambda new: build_tests(new, _MODULE, _VERSION, _PACKAGES)
    )
    users = (f"--add-scram={user}" for user in _SCRAM_USERS)
    command = broker_command(around, _CONFIG, *users)
    broker = start_alone(around, "kafka-go-broker", command)
    broker.wait_for_line("ready on")
    for name in _PACKAGES:
        options = ["-test.v", f"-test.timeout={_LIMIT_S:.0f}s", "-test.skip", _LEFT_OUT]
        printed = run_test(
            beside(broker, [str(folder / name), *options]),
            package_directory(folder, name),
            around.directory / f"{name}.log",
            {"KAFKA_VERSION": "4.3.1"},
            _LIMIT_S + 10,
        )
        judge(around, f"kafka-go {_VERSION}, {name}", outcomes(printed), _EXPLAINED)
